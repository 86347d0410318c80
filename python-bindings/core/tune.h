// The tuner for Python programs: trainables in Python, runs started from Python.
#pragma once

#include <nanobind/nanobind.h>

namespace volador::python {

// Lets this process run trials of Python trainables. Call before the first trial.
void install_trainables();
void bind_tune(nanobind::module_& module);

}  // namespace volador::python
