// GPUs listed through NVML, which is opened at run time, so that machines without a driver work. The prototypes are
// declared here: the library's C interface is stable.
#include <dlfcn.h>

#include "worker/resources/gpu_meter.h"
#include "worker/resources/node_resources.h"

namespace volador::worker {
namespace {

struct NvmlMemory {
  unsigned long long total, free, used;
};
struct NvmlUtilization {
  unsigned gpu, memory;  // Percent of the sample period.
};
using NvmlDevice = struct NvmlDeviceTag*;

constexpr const char* kLibrary = "libnvidia-ml.so.1";

// The loaded and initialized library; empty if unavailable.
class Library {
 public:
  explicit Library(const char* name) : handle_(::dlopen(name, RTLD_NOW | RTLD_LOCAL)) {
    if (handle_ == nullptr) return;
    const auto start = symbol<int (*)()>("nvmlInit_v2");
    stop_ = symbol<int (*)()>("nvmlShutdown");
    count_ = symbol<int (*)(unsigned*)>("nvmlDeviceGetCount_v2");
    device_at_ = symbol<int (*)(unsigned, NvmlDevice*)>("nvmlDeviceGetHandleByIndex_v2");
    started_ = start != nullptr && stop_ != nullptr && count_ != nullptr && device_at_ != nullptr && start() == 0;
  }
  ~Library() {
    if (started_) stop_();
    if (handle_ != nullptr) ::dlclose(handle_);
  }
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  template <class F>
  F symbol(const char* name) const {
    return reinterpret_cast<F>(::dlsym(handle_, name));
  }

  std::vector<NvmlDevice> devices() const {
    std::vector<NvmlDevice> found;
    unsigned count = 0;
    if (!started_ || count_(&count) != 0) return found;
    for (unsigned i = 0; i < count; ++i) {
      NvmlDevice handle = nullptr;
      if (device_at_(i, &handle) == 0) found.push_back(handle);
    }
    return found;
  }

 private:
  void* handle_;
  bool started_ = false;
  int (*stop_)() = nullptr;
  int (*count_)(unsigned*) = nullptr;
  int (*device_at_)(unsigned, NvmlDevice*) = nullptr;
};

using TextOf = int (*)(NvmlDevice, char*, unsigned);
using MemoryOf = int (*)(NvmlDevice, NvmlMemory*);
using UtilizationOf = int (*)(NvmlDevice, NvmlUtilization*);
using TemperatureOf = int (*)(NvmlDevice, unsigned sensor, unsigned* celsius);
using PowerOf = int (*)(NvmlDevice, unsigned* milliwatts);
constexpr unsigned kGpuSensor = 0;  // NVML_TEMPERATURE_GPU.

std::string read_text(TextOf function, NvmlDevice device) {
  char text[128] = {};
  return function != nullptr && function(device, text, sizeof text) == 0 ? text : "";
}

NvmlMemory read_memory(MemoryOf function, NvmlDevice device) {
  NvmlMemory memory{};
  return function != nullptr && function(device, &memory) == 0 ? memory : NvmlMemory{};
}

std::optional<double> read_watts(PowerOf function, NvmlDevice device) {
  unsigned milliwatts = 0;
  if (function == nullptr || function(device, &milliwatts) != 0) return std::nullopt;
  return static_cast<double>(milliwatts) / 1000;
}

std::optional<double> read_celsius(TemperatureOf function, NvmlDevice device) {
  unsigned celsius = 0;
  if (function == nullptr || function(device, kGpuSensor, &celsius) != 0) return std::nullopt;
  return static_cast<double>(celsius);
}

}  // namespace

std::vector<GpuDevice> list_gpu_devices() {
  std::vector<GpuDevice> devices;
  const Library library(kLibrary);
  for (const NvmlDevice handle : library.devices()) {
    const NvmlMemory memory = read_memory(library.symbol<MemoryOf>("nvmlDeviceGetMemoryInfo"), handle);
    devices.push_back({.uuid = read_text(library.symbol<TextOf>("nvmlDeviceGetUUID"), handle),
                       .model = read_text(library.symbol<TextOf>("nvmlDeviceGetName"), handle),
                       .memory_bytes = static_cast<int64_t>(memory.total)});
  }
  return devices;
}

struct GpuMeter::Nvml {
  explicit Nvml(const char* name) : library(name) {
    const auto uuid_of = library.symbol<TextOf>("nvmlDeviceGetUUID");
    for (const NvmlDevice handle : library.devices()) devices.emplace_back(handle, read_text(uuid_of, handle));
    memory_of = library.symbol<MemoryOf>("nvmlDeviceGetMemoryInfo");
    utilization_of = library.symbol<UtilizationOf>("nvmlDeviceGetUtilizationRates");
    temperature_of = library.symbol<TemperatureOf>("nvmlDeviceGetTemperature");
    power_of = library.symbol<PowerOf>("nvmlDeviceGetPowerUsage");
    power_limit_of = library.symbol<PowerOf>("nvmlDeviceGetEnforcedPowerLimit");
  }

  Library library;
  std::vector<std::pair<NvmlDevice, std::string>> devices;  // With their UUIDs.
  MemoryOf memory_of = nullptr;
  UtilizationOf utilization_of = nullptr;
  TemperatureOf temperature_of = nullptr;
  PowerOf power_of = nullptr, power_limit_of = nullptr;
};

GpuMeter::GpuMeter(const char* library) : nvml_(std::make_unique<Nvml>(library)) {}
GpuMeter::~GpuMeter() = default;

std::vector<GpuMeter::Reading> GpuMeter::read() {
  std::vector<Reading> readings;
  for (const auto& [device, uuid] : nvml_->devices) {
    NvmlUtilization utilization{};
    if (nvml_->utilization_of == nullptr || nvml_->utilization_of(device, &utilization) != 0) continue;
    const NvmlMemory memory = read_memory(nvml_->memory_of, device);
    readings.push_back({.uuid = uuid,
                        .utilization = static_cast<double>(utilization.gpu) / 100,
                        .memory_bytes = static_cast<int64_t>(memory.used),
                        .memory_total_bytes = static_cast<int64_t>(memory.total),
                        .temperature_celsius = read_celsius(nvml_->temperature_of, device),
                        .power_watts = read_watts(nvml_->power_of, device),
                        .power_limit_watts = read_watts(nvml_->power_limit_of, device)});
  }
  return readings;
}

}  // namespace volador::worker
