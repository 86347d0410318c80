// What the GPUs of this machine do now, as their driver tells.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace volador::worker {

// Keeps NVML open: opening it takes longer than a hundred readings. One thread.
class GpuMeter {
 public:
  struct Reading {
    std::string uuid;
    double utilization = 0;  // 0 to 1, over the driver's last sample period (a second at most).
    int64_t memory_bytes = 0;
    int64_t memory_total_bytes = 0;
    std::optional<double> temperature_celsius;
    std::optional<double> power_watts;
    std::optional<double> power_limit_watts;  // Above it the driver slows the device down.
  };

  // Where the library cannot be opened or does not start, nothing is ever read.
  explicit GpuMeter(const char* library = "libnvidia-ml.so.1");
  ~GpuMeter();

  // Of all that answer, in the driver's order. A millisecond or so each.
  std::vector<Reading> read();

 private:
  struct Nvml;
  std::unique_ptr<Nvml> nvml_;
};

}  // namespace volador::worker
