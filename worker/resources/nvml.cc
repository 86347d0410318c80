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

struct NvmlEvent {
  NvmlDevice device;
  unsigned long long type, data;
  unsigned gpu_instance, compute_instance;
};
using NvmlEventSet = struct NvmlEventSetTag*;
using ErrorsOf = int (*)(NvmlDevice, int type, int counter, unsigned long long* count);
using RowsOf = int (*)(NvmlDevice, unsigned* corrected, unsigned* uncorrected, unsigned* pending, unsigned* failed);
using PendingOf = int (*)(NvmlDevice, int* pending);
using SlowdownsOf = int (*)(NvmlDevice, unsigned long long* bits);
constexpr int kUncorrected = 1;                        // NVML_MEMORY_ERROR_TYPE_UNCORRECTED.
constexpr int kSinceLoad = 0;                          // NVML_VOLATILE_ECC.
constexpr unsigned long long kThermalSlowdown = 0x40;  // nvmlClocksThrottleReasonHwThermalSlowdown.
constexpr unsigned long long kXidEvent = 0x8;          // nvmlEventTypeXidCriticalError.
constexpr int kNotSupported = 3, kNoPermission = 4;    // Results that tell nothing about a device.
constexpr int kEventsMax = 64;                         // Read at once.

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
    errors_of = library.symbol<ErrorsOf>("nvmlDeviceGetTotalEccErrors");
    rows_of = library.symbol<RowsOf>("nvmlDeviceGetRemappedRows");
    pending_of = library.symbol<PendingOf>("nvmlDeviceGetRetiredPagesPendingStatus");
    slowdowns_of = library.symbol<SlowdownsOf>("nvmlDeviceGetCurrentClocksThrottleReasons");
    text_of = library.symbol<const char* (*)(int)>("nvmlErrorString");
    watch_events();
  }
  ~Nvml() {
    const auto free = library.symbol<int (*)(NvmlEventSet)>("nvmlEventSetFree");
    if (events != nullptr && free != nullptr) free(events);
  }
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  void watch_events() {
    const auto create = library.symbol<int (*)(NvmlEventSet*)>("nvmlEventSetCreate");
    const auto add = library.symbol<int (*)(NvmlDevice, unsigned long long, NvmlEventSet)>("nvmlDeviceRegisterEvents");
    next_event = library.symbol<int (*)(NvmlEventSet, NvmlEvent*, unsigned)>("nvmlEventSetWait_v2");
    if (create == nullptr || add == nullptr || next_event == nullptr || devices.empty() || create(&events) != 0) return;
    for (const auto& [device, uuid] : devices) add(device, kXidEvent, events);
  }
  // Critical errors since the last call.
  std::vector<std::pair<NvmlDevice, int>> read_events() const {
    std::vector<std::pair<NvmlDevice, int>> found;
    NvmlEvent event{};
    while (events != nullptr && found.size() < kEventsMax && next_event(events, &event, 0) == 0) {
      if (event.type == kXidEvent) found.emplace_back(event.device, static_cast<int>(event.data));
    }
    return found;
  }
  // Asks for something that every device has; returns the error, empty: none.
  std::string error_of(NvmlDevice device) const {
    NvmlMemory memory{};
    if (memory_of == nullptr) return {};
    const int result = memory_of(device, &memory);
    if (result == 0 || result == kNotSupported || result == kNoPermission) return {};
    const char* text = text_of == nullptr ? nullptr : text_of(result);
    return text == nullptr ? "NVML error " + std::to_string(result) : text;
  }

  Library library;
  std::vector<std::pair<NvmlDevice, std::string>> devices;  // With their UUIDs.
  MemoryOf memory_of = nullptr;
  UtilizationOf utilization_of = nullptr;
  TemperatureOf temperature_of = nullptr;
  PowerOf power_of = nullptr, power_limit_of = nullptr;
  ErrorsOf errors_of = nullptr;
  RowsOf rows_of = nullptr;
  PendingOf pending_of = nullptr;
  SlowdownsOf slowdowns_of = nullptr;
  const char* (*text_of)(int) = nullptr;
  int (*next_event)(NvmlEventSet, NvmlEvent*, unsigned timeout_ms) = nullptr;
  NvmlEventSet events = nullptr;
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

std::vector<GpuMeter::Health> GpuMeter::inspect() {
  std::vector<Health> found;
  const Nvml& nvml = *nvml_;
  const auto events = nvml.read_events();
  for (const auto& [device, uuid] : nvml.devices) {
    Health& health = found.emplace_back(Health{.uuid = uuid, .error = nvml.error_of(device)});
    for (const auto& [of, xid] : events) {
      if (of == device) health.xids.push_back(xid);
    }
    if (!health.error.empty()) continue;
    health.temperature_celsius = read_celsius(nvml.temperature_of, device);
    unsigned long long count = 0, slowdowns = 0;
    if (nvml.errors_of != nullptr && nvml.errors_of(device, kUncorrected, kSinceLoad, &count) == 0)
      health.memory_errors = count;
    unsigned corrected = 0, uncorrected = 0, pending = 0, failed = 0;
    if (nvml.rows_of != nullptr && nvml.rows_of(device, &corrected, &uncorrected, &pending, &failed) == 0) {
      health.remap_failed = failed != 0;
      health.reset_due = pending != 0;
    }
    int pages_pending = 0;
    if (nvml.pending_of != nullptr && nvml.pending_of(device, &pages_pending) == 0)
      health.reset_due |= pages_pending != 0;
    if (nvml.slowdowns_of != nullptr && nvml.slowdowns_of(device, &slowdowns) == 0)
      health.too_hot = (slowdowns & kThermalSlowdown) != 0;
  }
  return found;
}

}  // namespace volador::worker
