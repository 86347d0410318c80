// Free and used resources of one node, or of one bundle of a placement group; GPUs are numbered devices.
// Pure: no clock, thread, I/O or randomness.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "runtime/resources.h"

namespace volador::head {

// Share of one device for a request: a whole device, or the requested fraction.
Amount part_of_device(Amount gpus_asked);

// Moves the CPUs from one set to the other and returns them; empty if there are none.
ResourceSet pass_cpus(ResourceSet& from, ResourceSet& to);

class ResourcePool {
 public:
  struct Device {
    int32_t index = 0;
    Amount used = 0;
    Amount size = kUnit;  // Less than a unit if the pool has only a part of the device.
    bool closed = false;  // Nothing new is granted on it; what is granted stays.

    Amount room() const { return closed ? 0 : size - used; }
  };

  ResourcePool() = default;
  // Whole devices; `total["gpus"]` is adjusted to match.
  static ResourcePool of_node(ResourceSet total, std::vector<int32_t> gpus);
  // The pool of a grant: whole devices, or a fraction of one.
  static ResourcePool of_grant(const ResourceSet& held, const std::vector<int32_t>& gpus);

  // Takes whole GPUs from unused devices, a fraction from the fullest device with room; lowest index first. Returns the
  // devices; nullopt if the request does not fit.
  std::optional<std::vector<int32_t>> take(const ResourceSet& asked);
  // Takes these devices, closed ones too. Returns false, without effect, if it does not fit. CPUs may be overdrawn,
  // which makes `free` negative.
  bool take_these(const ResourceSet& asked, const std::vector<int32_t>& gpus);
  // Takes amounts without devices, even if they are not free.
  void overdraw(const ResourceSet& amounts) { book(amounts, {}, +1); }
  // Returns what was taken.
  void put_back(const ResourceSet& held, const std::vector<int32_t>& gpus) { book(held, gpus, -1); }

  // Closes these devices and opens all others. Unknown ones are ignored. Returns whether anything changed.
  bool set_closed(const std::set<int32_t>& gpus);

  int64_t devices_free() const;  // Unused whole devices that are not closed.
  Amount largest_part() const;   // Largest free part of a device that is in use or partial.
  bool fits(const ResourceSet& asked) const;

  ResourceSet total;
  ResourceSet used;
  ResourceSet free;             // total - used - withheld.
  Amount withheld = 0;          // GPUs: the unused parts of closed devices.
  std::vector<Device> devices;  // By index.

 private:
  std::vector<int32_t> choose_devices(Amount asked) const;
  void book(const ResourceSet& held, const std::vector<int32_t>& gpus, int sign);
  void withhold();
};

}  // namespace volador::head
