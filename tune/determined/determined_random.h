// Random streams of Determined's searchers, identical to numpy's RandomState: the same seed gives the same trials in
// both systems.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <string_view>

#include "runtime/result.h"

namespace volador::tune::determined {

class Random {
 public:
  explicit Random(uint32_t seed) : engine_(seed) {}

  uint32_t bits32() { return static_cast<uint32_t>(engine_()); }
  // Returns 0 to `limit`, inclusive. A limit of 0 consumes no random numbers.
  uint64_t up_to(uint64_t limit);
  // Returns 0 to n - 1; n is at least 1.
  int64_t below(int64_t n) { return static_cast<int64_t>(up_to(static_cast<uint64_t>(n - 1))); }
  double unit();  // [0, 1) with 53 bits.
  double uniform(double low, double high) { return low + (high - low) * unit(); }
  // A random UUID, version 4: "c3767d8b-677d-45d8-89a4-746cd3dea19f".
  std::string uuid();

  // Serialises the whole state as text, and restores it. kInvalidArgument: corrupt; the state is unchanged.
  std::string state() const;
  [[nodiscard]] Result<void> restore(std::string_view state);

 private:
  std::mt19937 engine_;  // Seeded by the same recurrence as numpy's.
};

}  // namespace volador::tune::determined
