// Preloaded into the processes of one simulated machine: their wall clock is ahead of the kernel's by the nanoseconds
// in the file named by VOLADOR_FAULT_CLOCK, an int64_t that the test changes at run time. Monotonic and boot clocks are
// unaffected.
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <ctime>

namespace {

using ClockGettime = int (*)(clockid_t, timespec*);

const volatile int64_t* ahead_ns = nullptr;
ClockGettime real_clock_gettime = nullptr;

__attribute__((constructor)) void find_clock() {
  real_clock_gettime = reinterpret_cast<ClockGettime>(dlsym(RTLD_NEXT, "clock_gettime"));
  const char* name = std::getenv("VOLADOR_FAULT_CLOCK");
  if (name == nullptr) return;
  const int fd = open(name, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return;
  void* memory = mmap(nullptr, sizeof(int64_t), PROT_READ, MAP_SHARED, fd, 0);
  close(fd);
  if (memory != MAP_FAILED) ahead_ns = static_cast<const volatile int64_t*>(memory);
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* now) noexcept {
  if (real_clock_gettime == nullptr) find_clock();
  const int result = real_clock_gettime(clock, now);
  if (result != 0 || ahead_ns == nullptr || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)) return result;
  const int64_t ns = int64_t{now->tv_sec} * 1'000'000'000 + now->tv_nsec + *ahead_ns;
  now->tv_sec = ns / 1'000'000'000;
  now->tv_nsec = ns % 1'000'000'000;
  return 0;
}

int gettimeofday(timeval* now, void*) noexcept {
  timespec at{};
  const int result = clock_gettime(CLOCK_REALTIME, &at);
  now->tv_sec = at.tv_sec;
  now->tv_usec = at.tv_nsec / 1000;
  return result;
}

time_t time(time_t* out) noexcept {
  timespec at{};
  clock_gettime(CLOCK_REALTIME, &at);
  if (out != nullptr) *out = at.tv_sec;
  return at.tv_sec;
}

}  // extern "C"
