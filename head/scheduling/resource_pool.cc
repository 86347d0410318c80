#include "head/scheduling/resource_pool.h"

#include <algorithm>
#include <set>
#include <utility>

namespace volador::head {
namespace {

size_t devices_needed(Amount gpus_asked) {
  return gpus_asked <= 0 ? 0 : static_cast<size_t>((gpus_asked + kUnit - 1) / kUnit);
}

}  // namespace

Amount part_of_device(Amount gpus_asked) { return std::min(gpus_asked, kUnit); }

ResourcePool ResourcePool::of_node(ResourceSet total, std::vector<int32_t> gpus) {
  std::sort(gpus.begin(), gpus.end());
  gpus.erase(std::unique(gpus.begin(), gpus.end()), gpus.end());
  total.set("gpus", static_cast<Amount>(gpus.size()) * kUnit);
  ResourcePool pool;
  for (const int32_t index : gpus) pool.devices.push_back({.index = index});
  pool.free = total;
  pool.total = std::move(total);
  return pool;
}

ResourceSet pass_cpus(ResourceSet& from, ResourceSet& to) {
  ResourceSet cpus;
  cpus.set("cpus", from.get("cpus"));
  from -= cpus;
  to += cpus;
  return cpus;
}

ResourcePool ResourcePool::of_grant(const ResourceSet& held, const std::vector<int32_t>& gpus) {
  ResourcePool pool;
  for (const int32_t index : gpus) pool.devices.push_back({.index = index, .size = part_of_device(held.get("gpus"))});
  std::sort(pool.devices.begin(), pool.devices.end(),
            [](const Device& a, const Device& b) { return a.index < b.index; });
  pool.free = pool.total = held;
  return pool;
}

std::vector<int32_t> ResourcePool::choose_devices(Amount asked) const {
  std::vector<int32_t> chosen;
  if (asked >= kUnit) {
    for (const Device& device : devices) {
      if (chosen.size() == devices_needed(asked)) break;
      if (device.room() == kUnit) chosen.push_back(device.index);
    }
    return chosen;
  }
  const Device* fullest = nullptr;
  for (const Device& device : devices) {
    if (device.room() < asked) continue;
    if (fullest == nullptr || device.room() < fullest->room()) fullest = &device;
  }
  if (fullest != nullptr) chosen.push_back(fullest->index);
  return chosen;
}

std::optional<std::vector<int32_t>> ResourcePool::take(const ResourceSet& asked) {
  if (!asked.fits_in(free)) return std::nullopt;
  std::vector<int32_t> gpus;
  if (const Amount asked_gpus = asked.get("gpus"); asked_gpus > 0) {
    gpus = choose_devices(asked_gpus);
    if (gpus.size() != devices_needed(asked_gpus)) return std::nullopt;
  }
  book(asked, gpus, +1);
  return gpus;
}

bool ResourcePool::take_these(const ResourceSet& asked, const std::vector<int32_t>& gpus) {
  ResourceSet exact = asked;
  exact.set("cpus", 0);
  exact.set("gpus", 0);
  const Amount asked_gpus = asked.get("gpus");
  if (!exact.fits_in(free) || asked_gpus > free.get("gpus") + withheld) return false;
  if (gpus.size() != devices_needed(asked_gpus)) return false;
  if (std::set<int32_t>(gpus.begin(), gpus.end()).size() != gpus.size()) return false;
  for (const int32_t index : gpus) {
    const auto device = std::find_if(devices.begin(), devices.end(), [&](const Device& d) { return d.index == index; });
    if (device == devices.end() || device->size - device->used < part_of_device(asked_gpus)) return false;
  }
  book(asked, gpus, +1);
  return true;
}

int64_t ResourcePool::devices_free() const {
  return std::count_if(devices.begin(), devices.end(), [](const Device& device) { return device.room() == kUnit; });
}

Amount ResourcePool::largest_part() const {
  Amount most = 0;
  for (const Device& device : devices) {
    if (device.used > 0 || device.size < kUnit) most = std::max(most, device.room());
  }
  return most;
}

bool ResourcePool::fits(const ResourceSet& asked) const {
  if (!asked.fits_in(free)) return false;
  const Amount gpus = asked.get("gpus");
  return gpus == 0 || choose_devices(gpus).size() == devices_needed(gpus);
}

void ResourcePool::book(const ResourceSet& held, const std::vector<int32_t>& gpus, int sign) {
  const Amount part = part_of_device(held.get("gpus"));
  for (Device& device : devices) {
    if (std::find(gpus.begin(), gpus.end(), device.index) != gpus.end()) device.used += sign * part;
  }
  if (sign > 0) {
    used += held;
    free -= held;
  } else {
    used -= held;
    free += held;
  }
  withhold();
}

// Takes the room of closed devices out of what is free.
void ResourcePool::withhold() {
  Amount closed = 0;
  for (const Device& device : devices) {
    if (device.closed) closed += device.size - device.used;
  }
  if (closed == withheld) return;
  free.set("gpus", free.get("gpus") + withheld - closed);
  withheld = closed;
}

bool ResourcePool::set_closed(const std::set<int32_t>& gpus) {
  bool changed = false;
  for (Device& device : devices) {
    const bool closed = gpus.contains(device.index);
    changed |= std::exchange(device.closed, closed) != closed;
  }
  if (changed) withhold();
  return changed;
}

}  // namespace volador::head
