// Storages for checkpoints: volador.storage.
#pragma once

#include <nanobind/nanobind.h>

namespace volador::python {

void bind_storage(nanobind::module_& module);

}  // namespace volador::python
