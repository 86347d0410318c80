// Training for Python programs: the elastic policy of train/core and the report of train/report.
#pragma once

#include <nanobind/nanobind.h>

namespace volador::python {

void bind_train(nanobind::module_& module);

}  // namespace volador::python
