// Typed ids of 128 random bits; different kinds cannot be mixed up.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>

#include "runtime/result.h"

namespace volador {

class Random;

// 16 bytes; all zeros means "none".
template <class Tag>
class Id {
 public:
  constexpr Id() = default;
  explicit constexpr Id(const std::array<uint8_t, 16>& bytes) : bytes_(bytes) {}

  const std::array<uint8_t, 16>& bytes() const { return bytes_; }
  bool is_nil() const { return bytes_ == std::array<uint8_t, 16>{}; }
  auto operator<=>(const Id&) const = default;

 private:
  std::array<uint8_t, 16> bytes_{};
};

using ActorId = Id<struct ActorIdTag>;
using NodeId = Id<struct NodeIdTag>;
using HostId = Id<struct HostIdTag>;      // A process that runs actors.
using DriverId = Id<struct DriverIdTag>;  // A run of a user's program.
using GroupId = Id<struct GroupIdTag>;    // A placement group.
using RequestId = Id<struct RequestIdTag>;
using ClusterId = Id<struct ClusterIdTag>;

std::array<uint8_t, 16> random_id_bytes(Random& random);
std::string hex(const std::array<uint8_t, 16>& bytes);                  // 32 lower-case digits.
Result<std::array<uint8_t, 16>> parse_id_bytes(std::string_view text);  // 32 hex digits, else kInvalidArgument.

template <class T>
T new_id(Random& random) {
  return T(random_id_bytes(random));
}
template <class Tag>
std::string to_string(const Id<Tag>& id) {
  return hex(id.bytes());
}
// The first eight digits, for display.
template <class Tag>
std::string short_id(const Id<Tag>& id) {
  return hex(id.bytes()).substr(0, 8);
}
// The 16 raw bytes, as in protobuf and msgpack.
template <class Tag>
std::string raw(const Id<Tag>& id) {
  return std::string(reinterpret_cast<const char*>(id.bytes().data()), id.bytes().size());
}
// A string that is not 16 bytes long gives the nil id, which callers treat as "none".
template <class T>
T id_from_raw(std::string_view bytes) {
  std::array<uint8_t, 16> out{};
  if (bytes.size() == out.size()) std::memcpy(out.data(), bytes.data(), out.size());
  return T(out);
}
template <class T>
Result<T> parse_id(std::string_view text) {
  auto bytes = parse_id_bytes(text);
  if (!bytes) return make_error(bytes.error());
  return T(*bytes);
}

}  // namespace volador

template <class Tag>
struct std::hash<volador::Id<Tag>> {
  size_t operator()(const volador::Id<Tag>& id) const noexcept {
    uint64_t halves[2];
    std::memcpy(halves, id.bytes().data(), sizeof halves);
    return static_cast<size_t>(halves[0] ^ (halves[1] * 0x9e3779b97f4a7c15ULL));
  }
};
