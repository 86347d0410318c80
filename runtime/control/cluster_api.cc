#include "runtime/control/cluster_api.h"

#include <google/protobuf/descriptor.h>
#include <grpcpp/impl/codegen/client_unary_call.h>

#include <algorithm>

#include "runtime/control/unary.h"
#include "runtime/operations/catalogue.h"
#include "runtime/protocol/volador/v1/cluster.grpc.pb.h"
#include "runtime/security/handshake.h"

namespace volador::control {
namespace {

constexpr std::chrono::milliseconds kReconnectPatience{1000};

Result<std::unique_ptr<ClusterApi>> open_api(const std::string& address, const security::Fingerprint& authority,
                                             std::string bearer, std::chrono::milliseconds timeout,
                                             const Clock& clock) {
  VOLADOR_TRY(prepare_grpc());
  auto head = security::probe_expected(address, authority, timeout, clock);
  if (!head) return make_error(head.error());
  auto channel = std::make_shared<Channel>(
      address, security::Credentials{.certificate_pem = {}, .key_pem = {}, .authority_pem = head->authority_pem});
  return std::make_unique<ClusterApi>(std::move(channel), std::move(bearer), timeout);
}

}  // namespace

struct ClusterApi::Impl {
  std::shared_ptr<Channel> channel;
  security::Secret bearer;
  std::chrono::milliseconds timeout;
  std::unique_ptr<v1::Cluster::Stub> stub;  // For its streams.

  void prepare(grpc::ClientContext& context) const {
    if (!bearer.empty()) context.AddMetadata("authorization", "Bearer " + bearer.reveal());
  }
};

ClusterApi::ClusterApi(std::shared_ptr<Channel> channel, std::string bearer, std::chrono::milliseconds timeout)
    : impl_(std::make_unique<Impl>(Impl{.channel = std::move(channel),
                                        .bearer = security::Secret(std::move(bearer)),
                                        .timeout = timeout,
                                        .stub = nullptr})) {
  impl_->stub = v1::Cluster::NewStub(impl_->channel->grpc());
}

ClusterApi::~ClusterApi() = default;

Result<std::unique_ptr<ClusterApi>> ClusterApi::connect(const std::string& address, const security::JoinToken& token,
                                                        std::chrono::milliseconds timeout, const Clock& clock) {
  return open_api(address, token.authority, security::token_text(token).reveal(), timeout, clock);
}

Result<std::unique_ptr<ClusterApi>> ClusterApi::connect_open(const std::string& address,
                                                             const security::Fingerprint& authority,
                                                             std::chrono::milliseconds timeout, const Clock& clock) {
  return open_api(address, authority, "", timeout, clock);
}

Result<void> ClusterApi::call(std::string_view operation, const google::protobuf::Message& request,
                              google::protobuf::Message& reply) {
  const operations::Entry* entry = operations::find(operation);
  VOLADOR_CHECK(entry != nullptr && entry->method->input_type() == request.GetDescriptor() &&
                    entry->method->output_type() == reply.GetDescriptor(),
                operation);
  impl_->channel->await_reconnection(std::min(kReconnectPatience, impl_->timeout));
  grpc::ClientContext context;
  set_timeout(context, impl_->timeout);
  impl_->prepare(context);
  using Lite = google::protobuf::MessageLite;
  const grpc::internal::RpcMethod method(entry->path.c_str(), grpc::internal::RpcMethod::NORMAL_RPC);
  const grpc::Status status =
      grpc::internal::BlockingUnaryCall<Lite, Lite>(impl_->channel->grpc().get(), method, &context, request, &reply);
  if (!status.ok()) return make_error(from_status(status, impl_->channel->address()));
  return {};
}

Result<void> ClusterApi::logs(const v1::LogsRequest& request, const std::function<bool(const v1::LogLine&)>& on_line) {
  impl_->channel->await_reconnection(kReconnectPatience);
  grpc::ClientContext context;
  impl_->prepare(context);
  const auto reader = impl_->stub->Logs(&context, request);
  v1::LogLine line;
  while (reader->Read(&line)) {
    if (!on_line(line)) {
      context.TryCancel();
      reader->Finish();
      return {};
    }
  }
  const grpc::Status status = reader->Finish();
  if (!status.ok()) return make_error(from_status(status, impl_->channel->address()));
  return {};
}

}  // namespace volador::control
