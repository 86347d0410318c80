// A driver's or operator's stream to the head (Control.Client). An interface, so that tests and simulation can replace
// the network.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "runtime/control/stream_link.h"

namespace volador::protocol {
class ClientMessage;
class HeadMessage;
}  // namespace volador::protocol

namespace volador::control {

struct ClientLinkCallbacks {
  std::function<void(const protocol::HeadMessage&)> on_message;
  // See StreamLinkCallbacks: after kConnected send Hello, watches and unanswered requests.
  std::function<void(LinkState, const Error&)> on_state;
};

// Thread safe. Callbacks run one at a time on the link's own thread.
class ClientLink {
 public:
  virtual ~ClientLink() = default;
  // Never blocks. Without a connection the message is discarded; resend it in on_state(kConnected).
  virtual void send(protocol::ClientMessage message) = 0;
  // A renewed certificate, for the next connection.
  virtual void set_credentials(security::Credentials credentials) = 0;
  // Writes queued messages for at most `flush`, then ends. No callback runs after it returns. Not from a callback.
  virtual void close(std::chrono::milliseconds flush = std::chrono::milliseconds(500)) = 0;
};

// gRPC implementation; connects at once and reconnects until closed. Destruction ends it without flush.
std::unique_ptr<ClientLink> connect_client_link(LinkOptions options, ClientLinkCallbacks callbacks);

}  // namespace volador::control
