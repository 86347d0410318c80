#include "python-bindings/core/gil.h"

#ifdef Py_LIMITED_API
extern "C" int PyGILState_Check(void);  // In every CPython, but not declared for extensions that serve several.
#endif

namespace volador::python {
namespace {

thread_local PyThreadState* kept_state = nullptr;

}  // namespace

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
