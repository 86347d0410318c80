// Light actors: those of a shared host that the head does not know one by one. An actor is light where nobody but its
// caller and its host needs to know of it: no name, no restarts, no resources, not detached. Each has a home: an actor
// of the head's book, in whose process, under whose lease and epoch it lives, and with which it ends.
//
// Pure: no clock, thread or I/O.
#pragma once

#include <cstdint>
#include <string>

#include "runtime/actor/type_name.h"
#include "runtime/light_id.h"

namespace volador {

struct SpawnRequest;

// What a home is to the head: an actor of this class, in a shared host.
class LightHome {};
std::string light_home_class();
std::string light_home_arguments();

// Whether the head can do without knowing of it.
bool may_be_light(const SpawnRequest& request);

// Calls that a home answers itself, of the actor that the call names. Numbers as methods have them.
struct LightMethods {
  static constexpr uint64_t make() { return names::fnv1a("volador light actor: make"); }  // {class, constructor's envelope}; answered when the constructor has run.
  static constexpr uint64_t end() { return names::fnv1a("volador light actor: end"); }   // {grace in ms}.
  static constexpr uint64_t look() { return names::fnv1a("volador light actor: look"); }  // {}; the answer is {class}, an error where it has ended.
  static constexpr uint64_t leave() { return names::fnv1a("volador light actor: leave"); }  // {}: nobody has a handle on it any more. Answered at once; it ends after the calls that came before.
};

}  // namespace volador
