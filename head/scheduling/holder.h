// Waits for or holds resources: an actor, or a placement group and its bundles, for which the head generates ids.
#pragma once

#include "runtime/ids.h"

namespace volador::head {

struct HolderId : Id<struct HolderTag> {
  HolderId() = default;
  HolderId(const ActorId& actor) : Id(actor.bytes()) {}  // Not explicit: an actor is a holder.
  explicit HolderId(const std::array<uint8_t, 16>& bytes) : Id(bytes) {}

  ActorId actor() const { return ActorId(bytes()); }  // Valid if the holder is an actor.
  auto operator<=>(const HolderId&) const = default;
};

}  // namespace volador::head

template <>
struct std::hash<volador::head::HolderId> {
  size_t operator()(const volador::head::HolderId& id) const noexcept {
    return std::hash<volador::ActorId>()(id.actor());
  }
};
