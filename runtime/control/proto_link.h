// Protobuf messages over a StreamLink. For the .cc files of the two links.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <string>
#include <utility>

#include "runtime/control/stream_link.h"
#include "runtime/log.h"
#include "runtime/protocol/batch.h"

namespace volador::control {

// Interface: ClientLink or WorkerLink, with messages Out and In.
template <class Interface, class Out, class In>
class ProtoLink final : public Interface {
 public:
  ProtoLink(std::string method, LinkOptions options, std::function<void(const In&)> on_message,
            std::function<void(LinkState, const Error&)> on_state)
      : on_message_(std::move(on_message)),
        link_(std::move(method), std::move(options),
              {.on_message = [this](std::string bytes) { receive(bytes); },
               .on_state = std::move(on_state),
               .take_next = taker()}) {}

  void send(Out message) override { link_.send(message.SerializeAsString()); }
  void set_credentials(security::Credentials credentials) override { link_.set_credentials(std::move(credentials)); }
  void close(std::chrono::milliseconds flush) override { link_.close(flush); }

 private:
  static std::function<std::string(std::deque<std::string>&)> taker() {
    if constexpr (requires(Out & message) { message.batch(); }) return take_batch<Out>;
    return {};
  }
  bool handle(const In& message) {
    if constexpr (requires { message.batch(); }) return for_each_in_batch(message, on_message_);
    on_message_(message);
    return true;
  }
  void receive(const std::string& bytes) {
    In message;
    if (!message.ParseFromString(bytes) || !handle(message)) {
      log::warn("control", "ignored a message that does not parse", {{"bytes", bytes.size()}});
    }
  }

  const std::function<void(const In&)> on_message_;
  StreamLink link_;  // Last: its thread uses on_message_.
};

}  // namespace volador::control
