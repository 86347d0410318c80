// A bidirectional gRPC stream to the head that comes back by itself. What ClientLink and WorkerLink are made of.
//
//            start()          established             closed, refused, silent, overflow
//   (new) ───────────► connecting ──────────► connected ───────────────┐
//                          ▲                                          ▼ on_state(kLost)
//                          └──── jittered 50 ms … 2 s ──────────── waiting          close() ends it in any state
//
// Bytes in, bytes out: one message each. One thread a link (the completion queue's), which runs all callbacks, one at a time.
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

struct LinkOptions {
  std::string address;  // Of the head.
  security::Credentials credentials;
  size_t queue_bytes_max = 64 << 20;     // Of messages not yet written; beyond it the connection is dropped (kUnavailable).
  size_t queue_messages_max = 100'000;
  std::chrono::milliseconds backoff_min{50};
  std::chrono::milliseconds backoff_max{2000};
  std::chrono::milliseconds keepalive_time = kKeepaliveTime;
  std::chrono::milliseconds keepalive_timeout = kKeepaliveTimeout;
};

struct StreamLinkCallbacks {
  std::function<void(std::string)> on_message;
  // kConnected: the error is empty; what this callback sends goes out first, before what other threads send meanwhile. Send the
  // greeting here and everything that has no answer yet. kLost: everything unanswered may or may not have arrived. Also called
  // with kLost where an attempt failed with another error than the last one. Errors: kUnavailable (says what was tried),
  // kUnauthenticated and kPermissionDenied (the link goes on trying: certificates can be renewed; its user may close it).
  std::function<void(LinkState, const Error&)> on_state;
  // Takes the first of those that wait, or several as one message; empty: one at a time. Called on any thread, must not block.
  std::function<std::string(std::deque<std::string>& waiting)> take_next = {};
};

class StreamLink {
 public:
  // method: "/volador.protocol.Control/Worker". Starts to connect at once.
  StreamLink(std::string method, LinkOptions options, StreamLinkCallbacks callbacks);
  // close() without flush.
  ~StreamLink();
  StreamLink(const StreamLink&) = delete;
  StreamLink& operator=(const StreamLink&) = delete;

  // Thread safe, never blocks, keeps the order of one thread. Without a connection the message is discarded: on_state(kConnected) is
  // where to send it again.
  void send(std::string message);
  // For the next connection.
  void set_credentials(security::Credentials credentials);
  // Writes what is queued and ends the stream, at most `flush` long; then cancels. No callback runs after it returned. Repeated
  // calls wait for the first. Not from a callback.
  void close(std::chrono::milliseconds flush = std::chrono::milliseconds(0));

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace volador::control
