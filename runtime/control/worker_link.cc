#include "runtime/control/worker_link.h"

#include "runtime/control/proto_link.h"
#include "runtime/protocol/control.pb.h"

namespace volador::control {

std::unique_ptr<WorkerLink> connect_worker_link(LinkOptions options, WorkerLinkCallbacks callbacks) {
  return std::make_unique<ProtoLink<WorkerLink, protocol::WorkerMessage, protocol::HeadToWorker>>(
      "/volador.protocol.Control/Worker", std::move(options), std::move(callbacks.on_message),
      std::move(callbacks.on_state));
}

}  // namespace volador::control
