#include "runtime/actor/light_home.h"

#include "runtime/actor/actor_class.h"
#include "runtime/actor/session.h"
#include "runtime/actor/type_name.h"

namespace volador {

std::string light_home_class() { return std::string(type_name<LightHome>()); }

std::string light_home_arguments() {
  using Constructor = registration::Constructor<LightHome>;
  (void)Constructor::enlisted;
  return to_bytes<uint64_t>(Constructor::id());
}

bool may_be_light(const SpawnRequest& request) {
  return request.isolation == Isolation::kShared && request.resources.empty() && request.name.empty() &&
         request.max_restarts == 0 && !request.detached && request.wishes.empty() && request.group.is_nil() &&
         request.actor_namespace.empty() && request.health.method == 0 && request.env.empty() &&
         request.display.empty() && request.checkpoint_calls == 0 && request.checkpoint_interval.count() == 0 &&
         request.max_concurrency == 1 && request.groups.empty() && request.max_task_retries == 0 &&
         !request.retriable && request.start_timeout == SpawnRequest{}.start_timeout;
}

}  // namespace volador
