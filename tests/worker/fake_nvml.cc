// The subset of NVML's interface used by the worker, with two simulated devices, for the tests of the code that reads
// it.
#include <cstring>

namespace {

struct Memory {
  unsigned long long total, free, used;
};
struct Utilization {
  unsigned gpu, memory;
};
struct Device {
  const char* uuid;
  const char* name;
  Memory memory;
  Utilization utilization;
  bool answers;
};
Device devices[] = {{"GPU-1111", "Heron 80", {80ULL << 30, 60ULL << 30, 20ULL << 30}, {75, 30}, true},
                    {"GPU-2222", "Heron 80", {80ULL << 30, 80ULL << 30, 0}, {0, 0}, false}};
int opened = 0;

int copy(const char* text, char* to, unsigned size) {
  if (std::strlen(text) >= size) return 7;
  std::strcpy(to, text);
  return 0;
}

}  // namespace

extern "C" {
int nvmlInit_v2() { return ++opened, 0; }
int nvmlShutdown() { return --opened, 0; }
int fake_nvml_opened() { return opened; }
int nvmlDeviceGetCount_v2(unsigned* count) { return *count = 2, 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device** device) { return *device = &devices[index], 0; }
int nvmlDeviceGetName(Device* device, char* text, unsigned size) { return copy(device->name, text, size); }
int nvmlDeviceGetUUID(Device* device, char* text, unsigned size) { return copy(device->uuid, text, size); }
int nvmlDeviceGetMemoryInfo(Device* device, Memory* memory) { return *memory = device->memory, 0; }
int nvmlDeviceGetTemperature(Device*, unsigned sensor, unsigned* celsius) {
  return sensor == 0 ? (*celsius = 64, 0) : 2;
}
int nvmlDeviceGetPowerUsage(Device*, unsigned* milliwatts) { return *milliwatts = 312'500, 0; }
int nvmlDeviceGetEnforcedPowerLimit(Device*, unsigned*) { return 3; }
int nvmlDeviceGetUtilizationRates(Device* device, Utilization* rates) {
  if (!device->answers) return 3;  // NVML_ERROR_NOT_SUPPORTED
  return *rates = device->utilization, 0;
}
}
