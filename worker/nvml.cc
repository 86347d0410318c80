// The GPUs that the driver lists, by NVML, opened at run time: a machine without a driver needs nothing. Prototypes of
// our own: the library's C interface has been stable since its first version.
#include <dlfcn.h>

#include "worker/node_resources.h"

namespace volador::worker {
namespace {

struct NvmlMemory {
  unsigned long long total, free, used;
};
using NvmlDevice = struct NvmlDeviceTag*;

template <class F>
F symbol(void* library, const char* name) {
  return reinterpret_cast<F>(::dlsym(library, name));
}

}  // namespace

std::vector<GpuDevice> list_gpu_devices() {
  std::vector<GpuDevice> devices;
  void* library = ::dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return devices;
  const auto start = symbol<int (*)()>(library, "nvmlInit_v2");
  const auto stop = symbol<int (*)()>(library, "nvmlShutdown");
  const auto count_devices = symbol<int (*)(unsigned*)>(library, "nvmlDeviceGetCount_v2");
  const auto device_at = symbol<int (*)(unsigned, NvmlDevice*)>(library, "nvmlDeviceGetHandleByIndex_v2");
  const auto name_of = symbol<int (*)(NvmlDevice, char*, unsigned)>(library, "nvmlDeviceGetName");
  const auto uuid_of = symbol<int (*)(NvmlDevice, char*, unsigned)>(library, "nvmlDeviceGetUUID");
  const auto memory_of = symbol<int (*)(NvmlDevice, NvmlMemory*)>(library, "nvmlDeviceGetMemoryInfo");
  if (start != nullptr && stop != nullptr && count_devices != nullptr && device_at != nullptr && start() == 0) {
    unsigned count = 0;
    if (count_devices(&count) != 0) count = 0;
    for (unsigned i = 0; i < count; ++i) {
      NvmlDevice handle = nullptr;
      if (device_at(i, &handle) != 0) continue;
      GpuDevice device;
      char text[128] = {};
      if (name_of != nullptr && name_of(handle, text, sizeof text) == 0) device.model = text;
      char uuid[128] = {};
      if (uuid_of != nullptr && uuid_of(handle, uuid, sizeof uuid) == 0) device.uuid = uuid;
      NvmlMemory memory{};
      if (memory_of != nullptr && memory_of(handle, &memory) == 0)
        device.memory_bytes = static_cast<int64_t>(memory.total);
      devices.push_back(std::move(device));
    }
    stop();
  }
  ::dlclose(library);
  return devices;
}

}  // namespace volador::worker
