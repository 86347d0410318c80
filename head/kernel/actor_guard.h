// A service beside the head decides who may look into the actors that it created.
#pragma once

#include <optional>
#include <string_view>

#include "runtime/ids.h"
#include "runtime/security/principal.h"

namespace volador::head {

// Thread safe; must not block.
class ActorGuard {
 public:
  virtual ~ActorGuard() = default;
  // The token that owns the guarded actors. Actors of other tokens are not asked for.
  virtual std::string_view token_id() const = 0;
  // Whether the driver is that of the service, as which other tokens may not connect.
  virtual bool owns(DriverId driver) const = 0;
  // Whether the principal may see what the actor prints and does. nullopt: the service does not know the actor (any
  // longer). Operators see everything, and are not asked for.
  virtual std::optional<bool> shows(ActorId actor, const security::Principal& by) const = 0;
};

// Whether lines that an actor writes now may be shown to the principal. `guard`: null if there is none.
inline bool shows_lines(const ActorGuard* guard, ActorId actor, const security::Principal& by) {
  return guard == nullptr || by.role == security::Role::kOperator || guard->shows(actor, by).value_or(true);
}

}  // namespace volador::head
