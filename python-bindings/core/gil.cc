#include "python-bindings/core/gil.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <thread>

#ifdef Py_LIMITED_API
extern "C" int PyGILState_Check(void);  // In every CPython, but not declared for extensions that serve several.
#endif

namespace volador::python {
namespace {

thread_local PyThreadState* kept_state = nullptr;

std::atomic<int> taking = 0;      // Threads in take_gil() that may still enter the interpreter.
std::atomic<pid_t> ended_in = 0;  // A forked process begins anew.
std::atomic<int> short_calls = 0;
constexpr std::chrono::milliseconds kShortCallMax{100};

}  // namespace

void take_gil(PyThreadState* state) {
  ++taking;
  if (ended_in == getpid() && getpid() != gettid()) {
    --taking;
    while (true) pause();
  }
  PyEval_RestoreThread(state);
  --taking;
}

void end_of_interpreter() {
  ended_in = getpid();
  PyThreadState* const state = PyEval_SaveThread();
  while (taking > 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  PyEval_RestoreThread(state);
  // No thread begins another call while this one has the lock.
  const auto end = std::chrono::steady_clock::now() + kShortCallMax;
  while (short_calls > 0 && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

ShortCall::ShortCall() { ++short_calls; }
ShortCall::~ShortCall() { --short_calls; }

WithGil::WithGil() {
  if (PyGILState_Check() == 1) {
    nested_ = true;
  } else if (kept_state == nullptr && PyGILState_GetThisThreadState() != nullptr) {
    kept_state = PyGILState_GetThisThreadState();
    PyEval_RestoreThread(kept_state);
  } else if (kept_state == nullptr) {
    PyGILState_Ensure();  // Never released: the state stays with the thread.
    kept_state = PyGILState_GetThisThreadState();
  } else {
    PyEval_RestoreThread(kept_state);
  }
}

WithGil::~WithGil() {
  if (!nested_) PyEval_SaveThread();
}

}  // namespace volador::python
