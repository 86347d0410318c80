// A worker's stream to the head (Control.Worker). An interface, so that tests and the simulation can stand in for the network.
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
  // Never blocks; without a connection the message is discarded (on_state(kConnected) is where to send it again).
  virtual void send(protocol::WorkerMessage message) = 0;
  // A renewed certificate, for the next connection.
  virtual void set_credentials(security::Credentials credentials) = 0;
  // Writes what is queued, at most `flush` long, and ends. No callback runs after it returned. Not from a callback.
  virtual void close(std::chrono::milliseconds flush = std::chrono::milliseconds(500)) = 0;
};

// Over gRPC; connects at once and again whenever it is lost, until closed. Ends without flush when destroyed.
std::unique_ptr<WorkerLink> connect_worker_link(LinkOptions options, WorkerLinkCallbacks callbacks);

}  // namespace volador::control
