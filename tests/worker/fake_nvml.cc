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
bool lost = false;    // Whether the first device is.
int events_left = 0;  // The second device has them.
int event_sets = 0;

struct Event {
  Device* device;
  unsigned long long type, data;
  unsigned gpu_instance, compute_instance;
};

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
void fake_nvml_lose(bool now) { lost = now; }
int fake_nvml_event_sets() { return event_sets; }
const char* nvmlErrorString(int result) { return result == 15 ? "GPU is lost" : "another"; }
int nvmlDeviceGetMemoryInfo(Device* device, Memory* memory) {
  if (lost && device == &devices[0]) return 15;  // NVML_ERROR_GPU_IS_LOST
  return *memory = device->memory, 0;
}
int nvmlDeviceGetTotalEccErrors(Device* device, int type, int counter, unsigned long long* count) {
  if (type != 1 || counter != 0) return 2;
  return *count = device == &devices[1] ? 5 : 0, 0;
}
int nvmlDeviceGetRemappedRows(Device* device, unsigned* corrected, unsigned* uncorrected, unsigned* pending,
                              unsigned* failed) {
  *corrected = *uncorrected = 1;
  *pending = device == &devices[1] ? 1 : 0;
  return *failed = 0, 0;
}
int nvmlDeviceGetRetiredPagesPendingStatus(Device*, int*) { return 3; }
int nvmlDeviceGetCurrentClocksThrottleReasons(Device* device, unsigned long long* bits) {
  return *bits = device == &devices[1] ? 0x41 : 0x1, 0;
}
int nvmlEventSetCreate(void** set) {
  events_left = 2;
  return ++event_sets, *set = &event_sets, 0;
}
int nvmlEventSetFree(void*) { return --event_sets, 0; }
int nvmlDeviceRegisterEvents(Device*, unsigned long long types, void*) { return types == 8 ? 0 : 2; }
int nvmlEventSetWait_v2(void*, Event* event, unsigned timeout_ms) {
  if (events_left == 0 || timeout_ms != 0) return 10;  // NVML_ERROR_TIMEOUT
  return *event = {&devices[1], 8, static_cast<unsigned long long>(events_left-- == 2 ? 79 : 13), 0, 0}, 0;
}
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
