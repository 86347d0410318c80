#include "runtime/light_id.h"

#include <algorithm>
#include <array>

#include "runtime/random.h"

namespace volador {
namespace {

constexpr std::array<uint8_t, 2> kMark{0x7e, 0x3c};
constexpr size_t kNumberBytes = 6;
constexpr uint64_t kNumbers = uint64_t{1} << (8 * kNumberBytes);
constexpr uint64_t kScramble = 0x9e3779b97f4a7c15 | 1;  // Odd, so that the mapping is a bijection.

using IdBytes = std::array<uint8_t, 16>;

// Offset of number 0 of an owner, so that the short ids of two owners differ.
uint64_t origin(const IdBytes& bytes) {
  uint64_t key = 0;
  for (size_t at = kNumberBytes; at < bytes.size(); ++at) key = (key ^ bytes[at]) * 0x100000001b3;
  return key % kNumbers;
}

// Inverse of kScramble modulo 2^64: each Newton step doubles the number of correct bits.
constexpr uint64_t inverse() {
  uint64_t value = kScramble;
  for (int step = 0; step < 6; ++step) value *= 2 - kScramble * value;
  return value;
}
static_assert(inverse() * kScramble == 1);

uint64_t place(const IdBytes& bytes) {
  uint64_t value = 0;
  for (size_t at = 0; at < kNumberBytes; ++at) value = value << 8 | bytes[at];
  return value;
}

ActorId with_place(IdBytes bytes, uint64_t value) {
  for (size_t at = kNumberBytes; at-- > 0; value >>= 8) bytes[at] = static_cast<uint8_t>(value & 0xff);
  return ActorId(bytes);
}

}  // namespace

ActorId new_home_id(Random& random) {
  IdBytes bytes = random_id_bytes(random);
  std::copy(kMark.begin(), kMark.end(), bytes.end() - kMark.size());
  return with_place(bytes, origin(bytes));
}

ActorId light_id(const ActorId& home, uint64_t number) {
  return with_place(home.bytes(), (origin(home.bytes()) + number * kScramble) % kNumbers);
}

bool has_light_mark(const ActorId& id) {
  return std::equal(kMark.begin(), kMark.end(), id.bytes().end() - kMark.size());
}

bool is_light(const ActorId& id) { return has_light_mark(id) && place(id.bytes()) != origin(id.bytes()); }

ActorId home_of(const ActorId& light) { return with_place(light.bytes(), origin(light.bytes())); }

uint64_t number_of(const ActorId& light) {
  return (place(light.bytes()) - origin(light.bytes())) * inverse() % kNumbers;
}

}  // namespace volador
