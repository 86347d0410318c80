// Protobuf messages over a StreamLink. For the .cc files of the two links.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <string>
#include <utility>

#include "runtime/control/stream_link.h"
#include "runtime/log.h"

namespace volador::control {

// Interface: ClientLink or WorkerLink, of messages Out and In.
template <class Interface, class Out, class In>
class ProtoLink final : public Interface {
 public:
  ProtoLink(std::string method, LinkOptions options, std::function<void(const In&)> on_message,
            std::function<void(LinkState, const Error&)> on_state)
      : on_message_(std::move(on_message)),
        link_(std::move(method), std::move(options),
              {.on_message = [this](std::string bytes) { receive(bytes); }, .on_state = std::move(on_state)}) {}

  void send(Out message) override { link_.send(message.SerializeAsString()); }
  void set_credentials(security::Credentials credentials) override { link_.set_credentials(std::move(credentials)); }
  void close(std::chrono::milliseconds flush) override { link_.close(flush); }

 private:
  void receive(const std::string& bytes) {
    In message;
    if (message.ParseFromString(bytes)) {
      on_message_(message);
    } else {
      log::warn("control", "ignored a message that does not parse", {{"bytes", bytes.size()}});
    }
  }

  const std::function<void(const In&)> on_message_;
  StreamLink link_;  // Last: its thread uses on_message_.
};

}  // namespace volador::control
