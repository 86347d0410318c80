// Calls to the head through the relay of the node (call_relay.h), in processes of its jobs.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "runtime/security/digest.h"

namespace google::protobuf {
class Message;
}
namespace grpc {
class Status;
}
namespace volador::net {
class CallConnection;
class IoLoop;
}  // namespace volador::net
namespace volador::operations {
struct Entry;
}

namespace volador::control {

// Thread safe.
class RelayedCalls {
 public:
  // Null: this process is in no job of a node that has a relay.
  [[nodiscard]] static std::unique_ptr<RelayedCalls> connect(const security::Fingerprint& authority);
  ~RelayedCalls();

  // Calls an operation once. Nothing: it was not called; the head is to be called directly, as also where the relay does
  // not reach it. After that and after a lost connection this object makes no further calls.
  [[nodiscard]] std::optional<grpc::Status> call(const operations::Entry& operation, const std::string& bearer,
                                                 std::chrono::milliseconds timeout,
                                                 const google::protobuf::Message& request,
                                                 google::protobuf::Message& reply);

 private:
  RelayedCalls(std::unique_ptr<net::IoLoop> loop, std::shared_ptr<net::CallConnection> connection,
               const security::Fingerprint& authority);

  const std::unique_ptr<net::IoLoop> loop_;
  const std::shared_ptr<net::CallConnection> connection_;
  const std::string authority_;
  std::atomic<uint64_t> last_id_{0};
  std::atomic<bool> works_{true};
};

}  // namespace volador::control
