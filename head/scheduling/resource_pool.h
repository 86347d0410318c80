// What is free and in use of one node, or of one bundle of a placement group; GPUs as numbered devices.
// Pure: no clock, thread, I/O or randomness.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "runtime/resources.h"

namespace volador::head {

// What one device gives to a request: a whole device, or the fraction asked.
Amount part_of_device(Amount gpus_asked);

// Passes the CPUs of one set to the other: what was lent or is taken back; empty where there are none.
ResourceSet pass_cpus(ResourceSet& from, ResourceSet& to);

class ResourcePool {
 public:
  struct Device {
    int32_t index = 0;
    Amount used = 0;
    Amount size = kUnit;  // Less where the pool has a part of it only.
  };

  ResourcePool() = default;
  // Whole devices; `total["gpus"]` is made to agree with them.
  static ResourcePool of_node(ResourceSet total, std::vector<int32_t> gpus);
  // What a request for `held` was granted: whole devices, or a part of the one.
  static ResourcePool of_grant(const ResourceSet& held, const std::vector<int32_t>& gpus);

  // Whole GPUs come from devices that nobody uses, a fraction from the fullest device that has it; lowest index first.
  // The devices taken, or nothing where it does not fit.
  std::optional<std::vector<int32_t>> take(const ResourceSet& asked);
  // Takes these devices. False where it does not fit; nothing is changed then. CPUs may be overdrawn: `free` is below zero then.
  bool take_these(const ResourceSet& asked, const std::vector<int32_t>& gpus);
  // What is there or not, of amounts without devices.
  void overdraw(const ResourceSet& amounts) { book(amounts, {}, +1); }
  // What was taken.
  void put_back(const ResourceSet& held, const std::vector<int32_t>& gpus) { book(held, gpus, -1); }

  int64_t devices_free() const;  // Whole ones that nobody uses.
  Amount largest_part() const;   // The most that is free of a device that is in use or not whole.
  bool fits(const ResourceSet& asked) const;

  ResourceSet total;
  ResourceSet used;
  ResourceSet free;             // total - used.
  std::vector<Device> devices;  // By index.

 private:
  std::vector<int32_t> choose_devices(Amount asked) const;
  void book(const ResourceSet& held, const std::vector<int32_t>& gpus, int sign);
};

}  // namespace volador::head
