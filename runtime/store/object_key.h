// Cluster-wide name of an object.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <string>

#include "runtime/ids.h"

namespace volador {

// Name of an object; never reused.
struct ObjectKey {
  NodeId node;          // Node of the store into which it was put.
  uint64_t writer = 0;  // Process that wrote it, as numbered by that store; random.
  uint64_t number = 0;  // From 1, in the writer's put order.
  auto operator<=>(const ObjectKey&) const = default;
};

// "9c1e04aa/77", for display.
inline std::string to_string(const ObjectKey& key) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (int shift = 60; shift >= 32; shift -= 4) text += kDigits[(key.writer >> shift) & 0xf];
  return text + "/" + std::to_string(key.number);
}

}  // namespace volador

template <>
struct std::hash<volador::ObjectKey> {
  size_t operator()(const volador::ObjectKey& key) const noexcept {
    return std::hash<volador::NodeId>()(key.node) ^
           static_cast<size_t>((key.writer + key.number) * 0x9e3779b97f4a7c15ULL);
  }
};
