// Ids of light actors (runtime/actor/light_home.h): each names its home, so whoever holds a handle knows where to call.
//
//   id:  | 6 bytes: number, scrambled | 8 bytes: random, of the home | 2 bytes: the mark of such ids |
//
// Pure: no clock, thread or I/O.
#pragma once

#include <cstdint>

#include "runtime/ids.h"

namespace volador {

class Random;

ActorId new_home_id(Random& random);
// `number`: 1 to 2^48 - 1, for each actor of the home another one.
ActorId light_id(const ActorId& home, uint64_t number);
// Has the mark: an id of another kind is drawn anew where it has it by chance.
bool has_light_mark(const ActorId& id);
bool is_light(const ActorId& id);
ActorId home_of(const ActorId& light);
uint64_t number_of(const ActorId& light);

}  // namespace volador
