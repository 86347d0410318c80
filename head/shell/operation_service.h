// One gRPC service of the catalogue: unary methods call the registry, streaming methods have their own handlers.
#pragma once

#include <grpcpp/impl/codegen/server_callback_handlers.h>
#include <grpcpp/impl/service_type.h>
#include <grpcpp/support/server_callback.h>

#include <functional>
#include <string_view>

#include "runtime/result.h"
#include "runtime/security/principal.h"

namespace grpc {
class ByteBuffer;
}
namespace google::protobuf {
class ServiceDescriptor;
}
namespace volador::operations {
class Registry;
struct Entry;
}  // namespace volador::operations

namespace volador::head {

class Authorizer;

// Thread safe. Must outlive the server.
class OperationService final : public grpc::Service {
 public:
  // `service`: "Cluster". The authorizer has admitted each call (make_auth_processor).
  OperationService(std::string_view service, operations::Registry& registry, const Authorizer& authorizer);

  // Sets the handler of a method that streams replies, such as "Logs". Call before the server starts; each streaming
  // method needs one.
  template <class Request, class Reply>
  void stream(
      std::string_view method,
      std::function<grpc::ServerWriteReactor<Reply>*(const Result<security::Principal>& by, const Request& request)>
          open) {
    MarkMethodCallback(index_of(method), new grpc::internal::CallbackServerStreamingHandler<Request, Reply>(
                                             [this, open = std::move(open)](grpc::CallbackServerContext* context,
                                                                            const Request* request) {
                                               return open(principal(*context), *request);
                                             }));
  }

 private:
  int index_of(std::string_view method) const;
  Result<security::Principal> principal(const grpc::CallbackServerContext& context) const;
  grpc::ServerUnaryReactor* call(const operations::Entry& entry, grpc::CallbackServerContext& context,
                                 const grpc::ByteBuffer& request, grpc::ByteBuffer& reply);

  const google::protobuf::ServiceDescriptor& descriptor_;
  operations::Registry& registry_;
  const Authorizer& authorizer_;
};

}  // namespace volador::head
