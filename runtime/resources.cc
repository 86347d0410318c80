#include "runtime/resources.h"

#include <fmt/format.h>

#include <cmath>

namespace volador {
namespace {

Result<Amount> fixed_point(std::string_view field, double value) {
  if (!std::isfinite(value) || value < 0) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("resources.{}: expected a number of at least 0, got {}", field, value));
  }
  if (value > 1e9)
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("resources.{}: expected at most 1e9, got {}", field, value));
  const double scaled = value * static_cast<double>(kUnit);
  const double rounded = std::round(scaled);
  if (std::abs(scaled - rounded) > 1e-3) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("resources.{}: expected steps of 0.0001, got {}", field, value));
  }
  return static_cast<Amount>(rounded);
}

}  // namespace

Result<ResourceSet> ResourceSet::from(const Resources& resources) {
  ResourceSet set;
  auto cpus = fixed_point("cpus", resources.cpus);
  if (!cpus) return make_error(cpus.error());
  set.set("cpus", *cpus);
  auto gpus = fixed_point("gpus", resources.gpus);
  if (!gpus) return make_error(gpus.error());
  if (*gpus > kUnit && *gpus % kUnit != 0) {
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("resources.gpus: expected a whole number above 1, got {}; ask a fraction of one GPU or whole GPUs",
                    resources.gpus));
  }
  set.set("gpus", *gpus);
  if (resources.memory < 0) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("resources.memory: expected bytes of at least 0, got {}", resources.memory));
  }
  set.set("memory", resources.memory);
  for (const auto& [name, value] : resources.custom) {
    if (name.empty() || name == "cpus" || name == "gpus" || name == "memory") {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("resources.custom: \"{}\" is no name for a custom resource", name));
    }
    auto amount = fixed_point(name, value);
    if (!amount) return make_error(amount.error());
    set.set(name, *amount);
  }
  return set;
}

Amount ResourceSet::get(std::string_view name) const {
  const auto found = entries_.find(name);
  return found == entries_.end() ? 0 : found->second;
}

void ResourceSet::set(std::string_view name, Amount amount) {
  if (amount == 0) {
    const auto found = entries_.find(name);
    if (found != entries_.end()) entries_.erase(found);
    return;
  }
  entries_[std::string(name)] = amount;
}

bool ResourceSet::fits_in(const ResourceSet& larger) const {
  for (const auto& [name, amount] : entries_) {
    if (amount > larger.get(name)) return false;
  }
  return true;
}

ResourceSet& ResourceSet::operator+=(const ResourceSet& other) {
  for (const auto& [name, amount] : other.entries_) set(name, get(name) + amount);
  return *this;
}

ResourceSet& ResourceSet::operator-=(const ResourceSet& other) {
  for (const auto& [name, amount] : other.entries_) set(name, get(name) - amount);
  return *this;
}

std::string format_amount(Amount amount) {
  const char* sign = amount < 0 ? "-" : "";
  const uint64_t magnitude = amount < 0 ? 0 - static_cast<uint64_t>(amount) : static_cast<uint64_t>(amount);
  std::string text = fmt::format("{}{}", sign, magnitude / kUnit);
  if (const uint64_t rest = magnitude % kUnit; rest != 0) {
    std::string fraction = fmt::format(".{:04}", rest);
    while (fraction.back() == '0') fraction.pop_back();
    text += fraction;
  }
  return text;
}

std::string format_bytes(int64_t bytes) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (std::abs(value) >= 1024 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  if (unit == 0) return fmt::format("{} B", bytes);
  return value >= 100 || value == std::floor(value) ? fmt::format("{:.0f} {}", value, kUnits[unit])
                                                    : fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string to_string(const ResourceSet& set) {
  if (set.empty()) return "nothing";
  std::string text;
  for (const auto& [name, amount] : set.entries()) {
    if (!text.empty()) text += ", ";
    text += fmt::format("{} {}", name, name == "memory" ? format_bytes(amount) : format_amount(amount));
  }
  return text;
}

}  // namespace volador
