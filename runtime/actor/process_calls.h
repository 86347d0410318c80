// Calls that the process of an actor answers itself: whatever the actor's class, and while its methods run.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "runtime/ids.h"
#include "runtime/net/channel.h"

namespace volador::internal {

// Runs on the thread that receives calls; must not wait. Replies once, at any time.
using ProcessCall =
    std::function<void(ActorId actor, const net::CallRequest& request, std::shared_ptr<net::Responder> responder)>;

// Called before there are threads; a forked process keeps it. A class with a method of this id answers it itself.
void set_process_call(uint64_t method, ProcessCall answer);
// Null: there is none of this id.
const ProcessCall* find_process_call(uint64_t method);

}  // namespace volador::internal
