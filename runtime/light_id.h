// Ids of nested actors (runtime/actor/light_home.h): each contains its owner's id, so that a handle alone is enough to
// call it.
//
//   id:  | 6 bytes: number, scrambled | 8 bytes: random, of the owner | 2 bytes: marker of such ids |
//
// Pure: no clock, thread or I/O.
#pragma once

#include <cstdint>

#include "runtime/ids.h"

namespace volador {

class Random;

ActorId new_home_id(Random& random);
// `number`: 1 to 2^48 - 1, unique per owner.
ActorId light_id(const ActorId& home, uint64_t number);
// Whether the id has the marker; other ids with the marker are generated again.
bool has_light_mark(const ActorId& id);
bool is_light(const ActorId& id);
ActorId home_of(const ActorId& light);
uint64_t number_of(const ActorId& light);

}  // namespace volador
