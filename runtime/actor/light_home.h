// Nested actors: actors of a shared host that the head does not track individually. An actor can be nested if only its
// caller and its host need to know it: no name, no restarts, no resources, not detached. Each has an owner actor
// ("home" in identifiers), which the head tracks: it lives in the owner's process, under its lease and epoch, and ends
// with it.
//
// Pure: no clock, thread or I/O.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/actor/type_name.h"
#include "runtime/light_id.h"

namespace volador {

struct SpawnRequest;

// Class of an owner actor, as known to the head: an actor in a shared host.
class LightHome {};
std::string light_home_class();
std::string light_home_arguments();

// Whether the actor can be nested.
bool may_be_light(const SpawnRequest& request);

// Calls about a nested actor that its owner handles itself, with method ids.
struct LightMethods {
  // {class, constructor's envelope}; answered when the constructor has run.
  static constexpr uint64_t make() { return names::fnv1a("volador light actor: make"); }
  static constexpr uint64_t end() { return names::fnv1a("volador light actor: end"); }  // {grace in ms}.
  // {}; returns {class}, or an error if the actor has ended.
  static constexpr uint64_t look() { return names::fnv1a("volador light actor: look"); }
  // {}: the last handle is gone. Answered at once; the actor ends after earlier calls.
  static constexpr uint64_t leave() { return names::fnv1a("volador light actor: leave"); }
};

}  // namespace volador
