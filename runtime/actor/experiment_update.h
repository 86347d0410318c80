// Conversion of a driver's experiment report into its message to the head.
#pragma once

#include "runtime/actor/session.h"
#include "runtime/protocol/control.pb.h"

namespace volador {

protocol::ExperimentUpdate to_update(const ExperimentReport& report);

}  // namespace volador
