// A bidirectional gRPC stream to the head that reconnects. Base of ClientLink and WorkerLink.
//
//            start()          established             closed, refused, silent, overflow
//   (new) ───────────► connecting ──────────► connected ───────────────┐
//                          ▲                                          ▼ on_state(kLost)
//                          └──── jittered 50 ms … 2 s ──────────── waiting          close() ends it in any state
//
// Bytes in, bytes out: one message each. One thread per link (the completion queue's) runs all callbacks, one at a
// time.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <string>

#include "runtime/control/channel.h"
#include "runtime/result.h"
#include "runtime/security/credentials.h"

namespace volador::control {

enum class LinkState : uint8_t { kConnected, kLost };

// Address, credentials and limits of a link.
struct LinkOptions {
  std::string address;  // Address of the head.
  security::Credentials credentials;
  size_t queue_bytes_max = 64 << 20;  // Unwritten messages; beyond it the connection is dropped (kUnavailable).
  size_t queue_messages_max = 100'000;
  std::chrono::milliseconds backoff_min{50};
  std::chrono::milliseconds backoff_max{2000};
  std::chrono::milliseconds keepalive_time = kKeepaliveTime;
  std::chrono::milliseconds keepalive_timeout = kKeepaliveTimeout;
};

struct StreamLinkCallbacks {
  std::function<void(std::string)> on_message;
  // kConnected: the error is empty. Messages sent by this callback precede those of other threads: send the greeting
  // and everything unanswered here. kLost: unanswered messages may or may not have arrived; also called if an attempt
  // fails with a different error than the last one. Errors: kUnavailable (names what was tried), kUnauthenticated and
  // kPermissionDenied (the link keeps trying, since certificates can be renewed; its user may close it).
  std::function<void(LinkState, const Error&)> on_state;
  // Takes the first queued message, or several as one; null: one at a time. Called on any thread, must not block.
  std::function<std::string(std::deque<std::string>& waiting)> take_next = {};
};

// A stream that reconnects until it is closed. Thread safe.
class StreamLink {
 public:
  // method: "/volador.protocol.Control/Worker". Starts connecting at once.
  StreamLink(std::string method, LinkOptions options, StreamLinkCallbacks callbacks);
  // As close() without flush.
  ~StreamLink();
  StreamLink(const StreamLink&) = delete;
  StreamLink& operator=(const StreamLink&) = delete;

  // Thread safe, never blocks, keeps the order of each thread. Without a connection the message is discarded; resend it
  // in on_state(kConnected).
  void send(std::string message);
  // For the next connection.
  void set_credentials(security::Credentials credentials);
  // Writes queued messages and ends the stream for at most `flush`, then cancels. No callback runs after it returns.
  // Repeated calls wait for the first. Not from a callback.
  void close(std::chrono::milliseconds flush = std::chrono::milliseconds(0));

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace volador::control
