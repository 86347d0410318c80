// Current usage of this machine's GPUs, as reported by the driver.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace volador::worker {

// Keeps NVML open, since opening it takes longer than a hundred readings. One thread.
class GpuMeter {
 public:
  struct Reading {
    std::string uuid;
    double utilization = 0;  // 0 to 1, over the driver's last sample period (at most a second).
    int64_t memory_bytes = 0;
    int64_t memory_total_bytes = 0;
    std::optional<double> temperature_celsius;
    std::optional<double> power_watts;
    std::optional<double> power_limit_watts;  // The driver throttles the device above it.
  };

  // If the library cannot be opened or initialized, read() returns nothing.
  explicit GpuMeter(const char* library = "libnvidia-ml.so.1");
  ~GpuMeter();

  // Reads all GPUs that answer, in the driver's order. About a millisecond each.
  std::vector<Reading> read();

  struct Health {
    std::string uuid;
    std::string error;           // Why the driver does not reach it; empty: it does.
    uint64_t memory_errors = 0;  // Not corrected, since the driver was loaded.
    bool remap_failed = false;
    bool reset_due = false;  // Faulty memory is replaced at the next reset.
    bool too_hot = false;    // The hardware slows it down because of its temperature.
    std::optional<double> temperature_celsius;
    std::vector<int> xids;  // Critical errors since the last call.
  };
  // The health of all GPUs that the driver listed at the start. A GPU without an ability has none of its problems.
  std::vector<Health> inspect();

 private:
  struct Nvml;
  std::unique_ptr<Nvml> nvml_;
};

}  // namespace volador::worker
