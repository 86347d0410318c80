// The random streams of Determined's searchers, which are those of numpy's RandomState: the same seed gives the same
// trials there and here.
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
  // 0 to `limit`, both included. 0 draws nothing.
  uint64_t up_to(uint64_t limit);
  // 0 to n - 1; n is at least 1.
  int64_t below(int64_t n) { return static_cast<int64_t>(up_to(static_cast<uint64_t>(n - 1))); }
  double unit();  // [0, 1), of 53 bits.
  double uniform(double low, double high) { return low + (high - low) * unit(); }
  // A random UUID, version 4: "c3767d8b-677d-45d8-89a4-746cd3dea19f".
  std::string uuid();

  // The whole state as text, and back. kInvalidArgument: torn; nothing has changed then.
  std::string state() const;
  [[nodiscard]] Result<void> restore(std::string_view state);

 private:
  std::mt19937 engine_;  // Seeded by the same recurrence as numpy's.
};

}  // namespace volador::tune::determined
