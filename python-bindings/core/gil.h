// The interpreter lock for threads that the runtime created.
#pragma once

#include <Python.h>

namespace volador::python {

// Holds the lock during its lifetime. The thread keeps its Python state for ever: a state of its own for each call would
// cost 7 µs. Nests. On a thread that the interpreter created it uses that thread's state.
class WithGil {
 public:
  WithGil();
  ~WithGil();
  WithGil(const WithGil&) = delete;
  WithGil& operator=(const WithGil&) = delete;

 private:
  bool nested_ = false;
};

// Takes the lock again with PyEval_RestoreThread(). A thread that is not the main one stays here for ever once the
// interpreter ends: CPython before 3.14 would unwind it through destructors, which ends the process.
void take_gil(PyThreadState* state);

// Called at the interpreter's end, by its main thread with the lock: see take_gil().
void end_of_interpreter();

// A short call of the head, inside WithoutGil. The end of the interpreter waits a moment for it: the end of the process
// destroys what the call uses.
class ShortCall {
 public:
  ShortCall();
  ~ShortCall();
  ShortCall(const ShortCall&) = delete;
  ShortCall& operator=(const ShortCall&) = delete;
};

// Releases the lock during its lifetime.
class WithoutGil {
 public:
  WithoutGil() : state_(PyEval_SaveThread()) {}
  ~WithoutGil() { take_gil(state_); }
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* const state_;
};

}  // namespace volador::python
