#include "runtime/random.h"

#include <sys/random.h>

#include "runtime/result.h"

namespace volador {
namespace {

uint64_t rotate_left(uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }

}  // namespace

uint64_t Random::below(uint64_t below) {
  VOLADOR_CHECK(below > 0);
  const uint64_t limit = UINT64_MAX - UINT64_MAX % below;
  uint64_t value = next();
  while (value >= limit) value = next();
  return value % below;
}

SeededRandom::SeededRandom(uint64_t seed) {
  for (uint64_t& word : state_) {
    seed += 0x9e3779b97f4a7c15ULL;
    uint64_t z = seed;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    word = z ^ (z >> 31);
  }
}

uint64_t SeededRandom::next() {
  const uint64_t result = rotate_left(state_[1] * 5, 7) * 9;
  const uint64_t t = state_[1] << 17;
  state_[2] ^= state_[0];
  state_[3] ^= state_[1];
  state_[1] ^= state_[2];
  state_[0] ^= state_[3];
  state_[2] ^= t;
  state_[3] = rotate_left(state_[3], 45);
  return result;
}

uint64_t SystemRandom::next() {
  uint64_t value = 0;
  const ssize_t got = getrandom(&value, sizeof value, 0);
  VOLADOR_CHECK(got == static_cast<ssize_t>(sizeof value));
  return value;
}

}  // namespace volador
