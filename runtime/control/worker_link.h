// A worker's stream to the head (Control.Worker). An interface, so that tests and simulation can replace the network.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "runtime/control/stream_link.h"

namespace volador::protocol {
class WorkerMessage;
class HeadToWorker;
}  // namespace volador::protocol

namespace volador::control {

struct WorkerLinkCallbacks {
  std::function<void(const protocol::HeadToWorker&)> on_message;
  // See StreamLinkCallbacks: after kConnected send Register.
  std::function<void(LinkState, const Error&)> on_state;
};

// Thread safe. Callbacks run one at a time on the link's own thread.
class WorkerLink {
 public:
  virtual ~WorkerLink() = default;
  // Never blocks. Without a connection the message is discarded; resend it in on_state(kConnected).
  virtual void send(protocol::WorkerMessage message) = 0;
  // A renewed certificate, for the next connection.
  virtual void set_credentials(security::Credentials credentials) = 0;
  // Writes queued messages for at most `flush`, then ends. No callback runs after it returns. Not from a callback.
  virtual void close(std::chrono::milliseconds flush = std::chrono::milliseconds(500)) = 0;
};

// gRPC implementation; connects at once and reconnects until closed. Destruction ends it without flush.
std::unique_ptr<WorkerLink> connect_worker_link(LinkOptions options, WorkerLinkCallbacks callbacks);

}  // namespace volador::control
