// Threads of math libraries follow the CPUs that an actor was granted.
#pragma once

namespace volador {

// Sets how many threads OpenMP (and with it MKL and LibTorch) uses for work begun by the calling thread; at least 1. OMP_NUM_THREADS
// was read when the library was loaded, long before the grant was known, so every thread that enters user code calls this first.
// Does nothing where the program has no OpenMP, or where the user set OMP_NUM_THREADS.
void set_math_threads(int threads);
// Looks for those libraries, which otherwise the first call of set_math_threads does: 0.04 ms in a program with LibTorch. Forks have what
// was found.
void find_math_libraries();
// That number, of the calling thread; where none was set, which is so outside of actors and tasks: the CPUs that the process may use.
int granted_threads();
// The same on a thread that serves several actors in turn: does nothing where the number is that of the last time.
void set_math_threads_of_thread(int threads);

}  // namespace volador
