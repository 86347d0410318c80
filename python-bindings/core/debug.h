// Debuggers in which actors and tasks of this process wait, and users who attach to them.
#pragma once

namespace volador::python {

// Lets users attach to this process by the operations for commands of jobs. Call before there are threads.
void install_debuggers();

}  // namespace volador::python
