// A gRPC connection to a head with this project's settings: TLS rooted at the cluster's authority, server name "head",
// no proxy, compression, retries or service config, messages up to kMessageBytesMax, a dead peer detected in ≤ 4 s.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>

#include "runtime/result.h"
#include "runtime/security/credentials.h"

namespace grpc {
class Channel;
}

namespace volador::control {

inline constexpr size_t kMessageBytesMax = 32 << 20;
// A ping is sent after kKeepaliveTime of silence; without an answer within kKeepaliveTimeout the connection ends. The
// server must allow it: grpc.http2.min_ping_interval_without_data_ms ≤ kKeepaliveTime / 2, grpc.http2.max_ping_strikes
// = 0.
inline constexpr std::chrono::milliseconds kKeepaliveTime{2000};
inline constexpr std::chrono::milliseconds kKeepaliveTimeout{2000};
inline constexpr std::chrono::milliseconds kConnectTimeout{2000};  // Per attempt.
inline constexpr int kProtocolVersion = 1;                         // control.proto; sent in Join, Register, Hello.

// Thread safe; connects at the first call. Requires prepare_grpc(). Empty certificate and key: no client certificate
// (Join, bearer tokens).
class Channel {
 public:
  Channel(std::string address, const security::Credentials& credentials,
          std::chrono::milliseconds keepalive_time = kKeepaliveTime,
          std::chrono::milliseconds keepalive_timeout = kKeepaliveTimeout);
  ~Channel();

  // Waits for a connection for up to `patience` if the last attempt at one has failed. Calls fail at once then, and in a
  // process without other gRPC threads gRPC makes no progress on a connection unless a thread waits for it.
  void await_reconnection(std::chrono::milliseconds patience) const;

  const std::string& address() const { return address_; }
  const std::shared_ptr<grpc::Channel>& grpc() const { return channel_; }

 private:
  std::string address_;
  std::shared_ptr<grpc::Channel> channel_;
};

// Initializes gRPC for the rest of the process: its log goes to ours at debug level, and its polling descriptors stay
// open. gRPC aborts the process if it cannot open them, so call this before the first channel or server. Repeatable.
// kUnavailable: too few descriptors are left; nothing was started, and a later call may succeed.
[[nodiscard]] Result<void> prepare_grpc();

}  // namespace volador::control
