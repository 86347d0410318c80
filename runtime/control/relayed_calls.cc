#include "runtime/control/relayed_calls.h"

#include <google/protobuf/message.h>
#include <grpcpp/support/status.h>

#include <filesystem>
#include <future>
#include <system_error>
#include <utility>

#include "runtime/control/node_folder.h"
#include "runtime/control/relay_protocol.h"
#include "runtime/control/status.h"
#include "runtime/ids.h"
#include "runtime/net/channel.h"
#include "runtime/net/io_loop.h"
#include "runtime/operations/catalogue.h"
#include "runtime/random.h"

namespace volador::control {

std::unique_ptr<RelayedCalls> RelayedCalls::connect(const security::Fingerprint& authority) {
  const std::filesystem::path folder = own_node_folder();
  std::error_code failed;
  if (folder.empty() || !std::filesystem::is_socket(folder / kRelaySocket, failed)) return nullptr;
  auto loop = net::IoLoop::create("volador-calls");
  if (!loop) return nullptr;
  SystemRandom random;
  auto connection = net::CallConnection::connect(**loop, net::UnixEndpoint{folder / kRelaySocket},
                                                 {.caller = new_id<net::CallerId>(random)});
  return std::unique_ptr<RelayedCalls>(new RelayedCalls(std::move(*loop), std::move(connection), authority));
}

RelayedCalls::RelayedCalls(std::unique_ptr<net::IoLoop> loop, std::shared_ptr<net::CallConnection> connection,
                           const security::Fingerprint& authority)
    : loop_(std::move(loop)), connection_(std::move(connection)), authority_(to_string(authority)) {}

RelayedCalls::~RelayedCalls() { connection_->close(); }

std::optional<grpc::Status> RelayedCalls::call(const operations::Entry& operation, const std::string& bearer,
                                               std::chrono::milliseconds timeout,
                                               const google::protobuf::Message& request,
                                               google::protobuf::Message& reply) {
  if (!works_ || request.ByteSizeLong() > kRelayedRequestBytesMax) return std::nullopt;
  net::CallRequest call;
  call.request_id = ++last_id_;
  call.timeout = timeout;
  call.body = to_bytes(RelayedCall{
      .authority = authority_, .path = operation.path, .bearer = bearer, .request = {request.SerializeAsString()}});
  std::promise<Result<std::string>> done;
  auto answered = done.get_future();
  connection_->call(std::move(call), [done = std::move(done)](Result<std::string>&& result) mutable {
    done.set_value(std::move(result));
  });
  const Result<std::string> result = answered.get();
  if (!result) {
    const ErrorCode code = result.error().code;
    if (code == ErrorCode::kTimeout) return grpc::Status(grpc::StatusCode::DEADLINE_EXCEEDED, "");
    works_ = false;
    // Where the connection was lost during the call, as gRPC reports it.
    if (code != ErrorCode::kUnavailable && code != ErrorCode::kInvalidArgument)
      return grpc::Status(grpc::StatusCode::UNAVAILABLE, "Socket closed");
    return std::nullopt;
  }
  const auto answer = from_bytes<RelayedAnswer>(*result);
  if (!answer) {
    works_ = false;
    return grpc::Status(grpc::StatusCode::INTERNAL, "the relay of the node: " + answer.error().message);
  }
  grpc::Status status(static_cast<grpc::StatusCode>(answer->code), answer->message, answer->details.data);
  if (status.ok()) {
    if (!reply.ParseFromString(answer->reply.data))
      return grpc::Status(grpc::StatusCode::INTERNAL, "the relay of the node: a reply cannot be read");
    return status;
  }
  if (connection_lost(status)) works_ = false;
  if (nobody_listens(status)) return std::nullopt;
  return status;
}

}  // namespace volador::control
