// Random generators, passed as dependencies: seeded for everything that must be reproducible, the kernel's for secrets
// and ids.
#pragma once

#include <cstdint>
#include <memory>

namespace volador {

// Interface of a random generator.
class Random {
 public:
  virtual ~Random() = default;
  virtual uint64_t next() = 0;

  // Uniform in [0, 1), 53 bits.
  double real() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }
  // Uniform in [0, below), below > 0, without bias.
  uint64_t below(uint64_t below);
};

// xoshiro256** seeded by splitmix64: the same sequence on every machine. One thread.
class SeededRandom final : public Random {
 public:
  explicit SeededRandom(uint64_t seed);
  uint64_t next() override;

 private:
  uint64_t state_[4];
};

// getrandom(2). Thread safe; survives fork.
class SystemRandom final : public Random {
 public:
  uint64_t next() override;
};

}  // namespace volador
