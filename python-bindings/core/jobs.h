// Jobs: the API of a cluster for volador.jobs.
#pragma once

#include "python-bindings/core/convert.h"

namespace volador::python {

void bind_jobs(nb::module_& module);

}  // namespace volador::python
