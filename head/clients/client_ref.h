// The destination of messages to a client.
#pragma once

#include <compare>

#include "head/kernel/actions.h"
#include "runtime/ids.h"

namespace volador::head {

// A program's stream, or the host of an actor that acts as a client.
struct ClientRef {
  ClientSession session{};
  HostId host;  // Nil: the stream.

  auto operator<=>(const ClientRef&) const = default;
};

}  // namespace volador::head
