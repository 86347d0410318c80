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

 private:
  struct Nvml;
  std::unique_ptr<Nvml> nvml_;
};

}  // namespace volador::worker
