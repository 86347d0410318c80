// Fixed-point resources: 1/10,000 of a CPU, a GPU or a custom unit; memory in bytes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/result.h"

namespace volador {

// User notation: {.cpus = 1, .gpus = 0.5, .memory = 2'000'000'000, .custom = {{"licence", 1}}}.
struct Resources {
  double cpus = 0;
  double gpus = 0;
  int64_t memory = 0;  // Bytes.
  std::map<std::string, double> custom = {};
};

// 1 unit = 10,000.
using Amount = int64_t;
inline constexpr Amount kUnit = 10'000;

// Requested or available resources. "cpus", "gpus" and custom names are in 1/10,000, "memory" is in bytes. A missing
// entry means 0.
class ResourceSet {
 public:
  ResourceSet() = default;
  // kInvalidArgument: negative, not finite, finer than 1/10,000, above 1 GPU but not whole, or an invalid custom name;
  // names the field.
  static Result<ResourceSet> from(const Resources& resources);

  Amount get(std::string_view name) const;
  void set(std::string_view name, Amount amount);  // 0 removes the entry.
  const std::map<std::string, Amount, std::less<>>& entries() const { return entries_; }
  bool empty() const { return entries_.empty(); }

  bool fits_in(const ResourceSet& larger) const;
  ResourceSet& operator+=(const ResourceSet& other);
  ResourceSet& operator-=(const ResourceSet& other);
  bool operator==(const ResourceSet&) const = default;

 private:
  std::map<std::string, Amount, std::less<>> entries_;
};

// "0.5", "2", "0.0001": a fixed-point amount for display.
std::string format_amount(Amount amount);
// "62 GiB", "512 MiB", "800 B".
std::string format_bytes(int64_t bytes);
// "cpus 2, gpus 0.5, memory 2 GiB"; "nothing" if empty.
std::string to_string(const ResourceSet& set);

}  // namespace volador
