// Limits the threads of math libraries to the CPUs granted to an actor.
#pragma once

namespace volador {

// Sets the number of threads that OpenMP (and MKL and LibTorch) use for work of the calling thread; at least 1.
// OMP_NUM_THREADS is read when the library is loaded, before the grant is known, so every thread calls this before user
// code. No effect without OpenMP, or if the user set OMP_NUM_THREADS.
void set_math_threads(int threads);
// Searches the libraries now instead of in the first set_math_threads(): 0.04 ms in a program with LibTorch. Forks
// inherit the result.
void find_math_libraries();
// Returns the number set for the calling thread; if none is set, as outside of actors and tasks, the CPUs available to
// the process.
int granted_threads();
// For a thread that serves several actors in turn: no effect if the number is unchanged.
void set_math_threads_of_thread(int threads);

}  // namespace volador
