#include "head/scheduling/backfill.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <string>

namespace volador::head {
namespace {

struct KeptDevices {
  std::vector<size_t> at;  // Indices into the pool's devices.
  bool lacking = false;    // Some of them are not free yet.
};

// Chooses the devices to keep for a request for this many GPUs.
KeptDevices choose_kept_devices(const ResourcePool& pool, Amount asked) {
  KeptDevices chosen;
  if (asked <= 0) return chosen;
  const auto& devices = pool.devices;
  const auto room = [&](size_t at) { return devices[at].room(); };
  std::vector<size_t> order;
  for (size_t at = 0; at < devices.size(); ++at) {
    if (asked < kUnit || devices[at].size == kUnit) order.push_back(at);
  }
  if (asked >= kUnit) {
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return room(a) > room(b); });
    order.resize(std::min(order.size(), static_cast<size_t>((asked + kUnit - 1) / kUnit)));
    chosen.lacking = std::any_of(order.begin(), order.end(), [&](size_t at) { return room(at) < kUnit; });
    chosen.at = std::move(order);
    return chosen;
  }
  std::optional<size_t> best;
  for (const size_t at : order) {
    const bool fits = room(at) >= asked;
    const bool best_fits = best && room(*best) >= asked;
    const bool better = !best || (fits && !best_fits) || (fits && room(at) < room(*best)) ||
                        (!fits && !best_fits && room(at) > room(*best));
    if (better) best = at;
  }
  if (best) chosen.at.push_back(*best);
  chosen.lacking = !best || room(*best) < asked;
  return chosen;
}

// One of these must end before the start: credits the minimum that each of them gives back.
void raise_credit(std::map<std::string, Amount, std::less<>>& credit, const ResourceSet& asked,
                  const std::vector<const Occupant*>& any_of) {
  if (any_of.empty()) return;
  for (const auto& [name, amount] : asked.entries()) {
    Amount least = amount;
    for (const Occupant* occupant : any_of) least = std::min(least, occupant->held.get(name));
    Amount& known = credit[name];
    known = std::max(known, least);
  }
}

}  // namespace

Backfill backfill(const ResourceSet& asked, const ResourcePool& pool, const std::vector<Occupant>& occupants,
                  Amount lent_cpus) {
  Backfill result{.left = pool, .kept = {}};
  const KeptDevices devices = choose_kept_devices(pool, asked.get("gpus"));
  std::map<std::string, Amount, std::less<>> credit;
  for (const auto& [name, amount] : asked.entries()) {
    const bool gpus = name == "gpus";
    if (gpus ? !devices.lacking : pool.free.get(name) >= amount) continue;
    std::vector<const Occupant*> holders;
    for (const Occupant& occupant : occupants) {
      if (occupant.held.get(name) > 0) holders.push_back(&occupant);
    }
    raise_credit(credit, asked, holders);
  }
  for (const auto& [name, amount] : asked.entries()) {
    if (name == "gpus") continue;
    Amount free = pool.free.get(name);
    if (name == "cpus") free -= lent_cpus;
    const Amount kept = std::min(free, amount - (credit.contains(name) ? credit[name] : 0));
    if (kept > 0) result.kept.set(name, kept);
  }
  const Amount gpus = asked.get("gpus");
  Amount kept_gpus = 0;
  for (const size_t at : devices.at) {
    ResourcePool::Device& device = result.left.devices[at];
    const Amount part = std::min(device.room(), part_of_device(gpus));
    device.used += part;
    kept_gpus += part;
  }
  if (kept_gpus > 0) result.kept.set("gpus", kept_gpus);
  result.left.free -= result.kept;
  result.left.used += result.kept;
  return result;
}

}  // namespace volador::head
