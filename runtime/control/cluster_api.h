// Client of the public API (volador.v1), for the command line. Nothing is retried.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/clock.h"
#include "runtime/control/channel.h"
#include "runtime/result.h"
#include "runtime/security/token.h"

namespace google::protobuf {
class Message;
}
namespace volador::v1 {
class LogsRequest;
class LogLine;
}  // namespace volador::v1

namespace volador::control {

// Calls of processes of a job go through the relay of their node if it has one (call_relay.h), otherwise over a connection
// of this object.
//
// Thread safe. Every call blocks for at most `timeout` (then kTimeout), and for up to 1 s more if the head could not be
// reached the last time. kUnauthenticated and kPermissionDenied come
// from the head; kUnavailable names what was tried.
class ClusterApi {
 public:
  // bearer: the token text, sent as "authorization: Bearer …" if the channel has no certificate. Empty: none.
  explicit ClusterApi(std::shared_ptr<Channel> channel, std::string bearer = {},
                      std::chrono::milliseconds timeout = std::chrono::seconds(10));
  ~ClusterApi();

  // Checks the fingerprint first, so that the token is sent only to its own cluster. Errors as join().
  [[nodiscard]] static Result<std::unique_ptr<ClusterApi>> connect(const std::string& address,
                                                                   const security::JoinToken& token,
                                                                   std::chrono::milliseconds timeout,
                                                                   const Clock& clock);
  // Without a token, for the operations that are open to all: to the head of the cluster with this fingerprint.
  [[nodiscard]] static Result<std::unique_ptr<ClusterApi>> connect_open(const std::string& address,
                                                                        const security::Fingerprint& authority,
                                                                        std::chrono::milliseconds timeout,
                                                                        const Clock& clock);

  // Calls an operation of the catalogue once: call<v1::DrainReply>("Cluster/Drain", request). Aborts where the operation does not exist or has
  // other message types.
  template <class Reply>
  [[nodiscard]] Result<Reply> call(std::string_view operation, const google::protobuf::Message& request) {
    Reply reply;
    auto called = call(operation, request, reply);
    if (!called) return make_error(called.error());
    return reply;
  }
  [[nodiscard]] Result<void> call(std::string_view operation, const google::protobuf::Message& request,
                                  google::protobuf::Message& reply);

  // Calls on_line until the lines end (without follow), the connection is lost (error), or on_line returns false. No
  // timeout.
  [[nodiscard]] Result<void> logs(const v1::LogsRequest& request,
                                  const std::function<bool(const v1::LogLine&)>& on_line);

 private:
  struct Impl;
  explicit ClusterApi(std::unique_ptr<Impl> impl);
  static Result<std::unique_ptr<ClusterApi>> open(const std::string& address, const security::Fingerprint& authority,
                                                  std::string bearer, std::chrono::milliseconds timeout,
                                                  const Clock& clock);

  std::unique_ptr<Impl> impl_;
};

}  // namespace volador::control
