// Volador in one include: init, actors, queues, placement groups, tasks, futures, actor context (self), and tune.
#pragma once

#include "runtime/actor/actor_class.h"
#include "runtime/actor/actor_pool.h"
#include "runtime/actor/call_context.h"
#include "runtime/actor/deferred.h"
#include "runtime/actor/future.h"
#include "runtime/actor/handle.h"
#include "runtime/actor/metrics.h"
#include "runtime/actor/placement_group.h"
#include "runtime/actor/queue.h"
#include "runtime/actor/ref.h"
#include "runtime/actor/ref_wait.h"
#include "runtime/actor/self.h"
#include "runtime/actor/stream.h"
#include "runtime/actor/wait.h"
#include "runtime/resources.h"
#include "runtime/result.h"
#include "runtime/serialize/codec.h"
#include "runtime/task/task.h"
#include "tune/tune.h"
#include "volador/init.h"

// Allows tune::run, tune::loguniform… in programs.
namespace tune = volador::tune;
