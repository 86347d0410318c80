#include "runtime/actor/math_threads.h"

#include <dlfcn.h>
#include <sched.h>

#include <algorithm>
#include <cstdlib>

namespace volador {

namespace {

thread_local int granted = 0;

int usable_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return ::sched_getaffinity(0, sizeof set, &set) == 0 ? std::max(1, CPU_COUNT(&set)) : 1;
}

using SetThreads = void (*)(int);
struct MathLibraries {
  SetThreads openmp = nullptr;
  // at::set_num_threads(int). Without it LibTorch calls MKL, which uses all of the machine's cores, at the first
  // operation on a thread.
  SetThreads torch = nullptr;
};

// Searches the program's libraries once.
const MathLibraries& math_libraries() {
  static const MathLibraries libraries{
      .openmp = reinterpret_cast<SetThreads>(dlsym(RTLD_DEFAULT, "omp_set_num_threads")),
      .torch = reinterpret_cast<SetThreads>(dlsym(RTLD_DEFAULT, "_ZN2at15set_num_threadsEi"))};
  return libraries;
}

}  // namespace

int granted_threads() { return granted > 0 ? granted : usable_cpus(); }

void set_math_threads(int threads) {
  granted = std::max(1, threads);
  if (std::getenv("OMP_NUM_THREADS") != nullptr) return;
  for (const SetThreads set : {math_libraries().openmp, math_libraries().torch}) {
    if (set != nullptr) set(granted);
  }
}

void find_math_libraries() { (void)math_libraries(); }

void set_math_threads_of_thread(int threads) {
  thread_local int last = -1;
  if (last == threads) return;
  last = threads;
  set_math_threads(threads);
}

}  // namespace volador
