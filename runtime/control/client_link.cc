#include "runtime/control/client_link.h"

#include "runtime/control/proto_link.h"
#include "runtime/protocol/control.pb.h"

namespace volador::control {

std::unique_ptr<ClientLink> connect_client_link(LinkOptions options, ClientLinkCallbacks callbacks) {
  return std::make_unique<ProtoLink<ClientLink, protocol::ClientMessage, protocol::HeadMessage>>(
      "/volador.protocol.Control/Client", std::move(options), std::move(callbacks.on_message),
      std::move(callbacks.on_state));
}

}  // namespace volador::control
