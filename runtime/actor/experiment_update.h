// What a driver says of its experiment, as the head takes it.
#pragma once

#include "runtime/actor/session.h"
#include "runtime/protocol/control.pb.h"

namespace volador {

protocol::ExperimentUpdate to_update(const ExperimentReport& report);

}  // namespace volador
