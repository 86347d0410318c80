#include "head/shell/operation_service.h"

#include <fmt/format.h>
#include <google/protobuf/descriptor.h>
#include <grpcpp/impl/codegen/proto_utils.h>
#include <grpcpp/support/byte_buffer.h>

#include <memory>

#include "head/shell/authorizer.h"
#include "head/shell/plain_peer.h"
#include "head/shell/unary_answer.h"
#include "runtime/operations/catalogue.h"
#include "runtime/operations/registry.h"

namespace volador::head {
namespace {

using grpc::internal::RpcMethod;
using Message = google::protobuf::Message;

}  // namespace

OperationService::OperationService(std::string_view service, operations::Registry& registry,
                                   const Authorizer& authorizer)
    : descriptor_(operations::service_named(service)), registry_(registry), authorizer_(authorizer) {
  for (int at = 0; at < descriptor_.method_count(); ++at) {
    const auto& method = *descriptor_.method(at);
    const operations::Entry* entry = operations::find(fmt::format("{}/{}", service, method.name()));
    VOLADOR_CHECK(entry != nullptr && !method.client_streaming(), method.full_name());
    AddMethod(new grpc::internal::RpcServiceMethod(
        entry->path.c_str(), method.server_streaming() ? RpcMethod::SERVER_STREAMING : RpcMethod::NORMAL_RPC, nullptr));
    if (method.server_streaming()) continue;
    MarkMethodRawCallback(
        at, new grpc::internal::CallbackUnaryHandler<grpc::ByteBuffer, grpc::ByteBuffer>(
                [this, entry](grpc::CallbackServerContext* context, const grpc::ByteBuffer* request,
                              grpc::ByteBuffer* reply) { return call(*entry, *context, *request, *reply); }));
  }
}

int OperationService::index_of(std::string_view method) const {
  const auto* found = descriptor_.FindMethodByName(std::string(method));
  VOLADOR_CHECK(found != nullptr, method);
  return found->index();
}

Result<security::Principal> OperationService::principal(const grpc::CallbackServerContext& context) const {
  return principal_of(authorizer_, context);
}

grpc::ServerUnaryReactor* OperationService::call(const operations::Entry& entry, grpc::CallbackServerContext& context,
                                                 const grpc::ByteBuffer& request, grpc::ByteBuffer& reply) {
  auto* reactor = context.DefaultReactor();  // Each call would create another reactor.
  const auto answer = std::make_shared<UnaryAnswer>(reactor);
  const std::unique_ptr<Message> message(
      google::protobuf::MessageFactory::generated_factory()->GetPrototype(entry.method->input_type())->New());
  grpc::ByteBuffer bytes(request);
  grpc::ProtoBufferReader reader(&bytes);
  if (!message->ParseFromZeroCopyStream(&reader)) {
    answer->give(make_error(ErrorCode::kInvalidArgument,
                            fmt::format("the request is not a {}; is this client of another version?",
                                        entry.method->input_type()->full_name())));
    return reactor;
  }
  auto by = entry.rule->access() == v1::OPEN ? Result<security::Principal>(security::unknown_principal({}))
                                             : principal(context);
  if (!by) {
    answer->give(make_error(by.error()));
    return reactor;
  }
  by->peer = peer_host(context.peer());
  registry_.call(entry.name, *by, *message,
                 operations::Registry::Done<operations::Registry::Reply>(
                     [answer, &reply](const Result<operations::Registry::Reply>& made) {
                       if (!made) return answer->give(make_error(made.error()));
                       bool own = false;
                       grpc::GenericSerialize<grpc::ProtoBufferWriter, Message>(**made, &reply, &own);
                       answer->give({});
                     }));
  return reactor;
}

}  // namespace volador::head
