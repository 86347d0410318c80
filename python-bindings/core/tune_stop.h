// Stop conditions of the tuner's core, made by volador.tune._stop.
#pragma once

#include <nanobind/nanobind.h>

namespace volador::python {

// Before bind_tune(), whose options hold them.
void bind_stop(nanobind::module_& module);

}  // namespace volador::python
