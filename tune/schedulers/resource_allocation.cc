#include "tune/schedulers/resource_allocation.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace volador::tune {
namespace {

struct Distribution {
  ResourceSet unit;  // Empty: derived from the base.
  int64_t times = 0;
  ResourceSet reserve;

  const ResourceSet& unit_of(const ResourceSet& base) const {
    static const ResourceSet kCpu = ResourceSet::from({.cpus = 1}).value(),
                             kGpu = ResourceSet::from({.gpus = 1}).value();
    return !unit.empty() ? unit : base.get("gpus") >= kUnit ? kGpu : kCpu;
  }
};

ResourceSet checked(const Resources& resources, std::string_view option) {
  auto set = ResourceSet::from(resources);
  if (!set)
    throw Exception(
        {ErrorCode::kInvalidArgument, fmt::format("distribute_resources.{}: {}", option, set.error().message)});
  return std::move(*set);
}

Distribution checked(const DistributeOptions& options) {
  Distribution distribution{checked(options.increase_by, "increase_by"), options.increase_by_times,
                            checked(options.reserve_resources, "reserve_resources")};
  const auto refuse = [](std::string message) { throw Exception({ErrorCode::kInvalidArgument, std::move(message)}); };
  if (options.increase_by_times < 0)
    refuse(fmt::format("distribute_resources.increase_by_times: expected 0 for no limit, or more, got {}",
                       options.increase_by_times));
  if (options.increase_by_times > 0 && distribution.unit.empty())
    refuse("distribute_resources.increase_by_times: it limits increase_by, which is not given");
  return distribution;
}

// Rounds down, also below 0.
int64_t divided(Amount amount, Amount by) { return amount / by - (amount % by < 0 ? 1 : 0); }

// Returns the smallest number of units that `of` provides over all resources of a unit.
template <class F>
int64_t units_in(const ResourceSet& unit, F of) {
  int64_t least = std::numeric_limits<int64_t>::max();
  for (const auto& [name, amount] : unit.entries()) least = std::min(least, divided(of(name), amount));
  return least;
}

int64_t free_units(const AllocationQuery& query, const Distribution& distribution) {
  return units_in(distribution.unit_of(query.base), [&](const std::string& name) {
    return query.total.get(name) - distribution.reserve.get(name) - query.used.get(name);
  });
}

// Adds `more` units, or removes them if negative, but never goes below the base; at most `most` above it (0: no limit).
std::optional<Resources> changed(const AllocationQuery& query, const ResourceSet& unit, int64_t more, int64_t most) {
  if (more == 0) return std::nullopt;
  ResourceSet out = query.current();
  for (const auto& [name, step] : unit.entries()) {
    Amount added = std::max<Amount>(out.get(name) - query.base.get(name) + more * step, 0);
    if (more > 0 && most > 0) added = std::min(added, most * step);
    out.set(name, query.base.get(name) + added);
  }
  return as_asked(out);
}

}  // namespace

Resources as_asked(const ResourceSet& set) {
  Resources out;
  for (const auto& [name, amount] : set.entries()) {
    const double units = static_cast<double>(amount) / kUnit;
    if (name == "cpus")
      out.cpus = units;
    else if (name == "gpus")
      out.gpus = units;
    else if (name == "memory")
      out.memory = amount;
    else
      out.custom[name] = units;
  }
  return out;
}

ResourceAllocation distribute_resources(const DistributeOptions& options) {
  return [distribution = checked(options)](const AllocationQuery& query) -> std::optional<Resources> {
    const ResourceSet& unit = distribution.unit_of(query.base);
    const auto trials = static_cast<int64_t>(query.live.size());
    // Computed as if nothing were assigned yet: units are dealt round by round, and the first trials get the remainder.
    const int64_t all = units_in(unit, [&](const std::string& name) {
      return query.total.get(name) - distribution.reserve.get(name) - query.base.get(name) * trials;
    });
    int64_t most = all > 0 ? (all + trials - 1) / trials : 0;
    if (distribution.times > 0) most = most > 0 ? std::min(most, distribution.times) : distribution.times;
    return changed(query, unit, free_units(query, distribution), most);
  };
}

ResourceAllocation distribute_resources_to_top_job(const DistributeOptions& options) {
  return [distribution = checked(options)](const AllocationQuery& query) -> std::optional<Resources> {
    const ResourceSet& unit = distribution.unit_of(query.base);
    const auto below_limit = [&](const AllocationQuery::Live& one) {
      return distribution.times == 0 ||
             std::any_of(unit.entries().begin(), unit.entries().end(), [&](const auto& entry) {
               return one.resources.get(entry.first) - query.base.get(entry.first) < distribution.times * entry.second;
             });
    };
    const std::pair<const TrialId, AllocationQuery::Live>*best = nullptr, *best_of_all = nullptr;
    for (const auto& one : query.live) {
      if (best_of_all == nullptr || better(one.second.value, best_of_all->second.value, query.mode)) best_of_all = &one;
      if (below_limit(one.second) && (best == nullptr || better(one.second.value, best->second.value, query.mode)))
        best = &one;
    }
    if (best == nullptr) best = best_of_all;
    const int64_t more = free_units(query, distribution);
    if (best->first != query.report.trial && more >= 0) return std::nullopt;
    return changed(query, unit, more, distribution.times);
  };
}

}  // namespace volador::tune
