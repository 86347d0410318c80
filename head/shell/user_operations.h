// The operations of volador.v1.Users: users, sign-in by password, and tokens of users.
#pragma once

#include <functional>
#include <string>

#include "runtime/clock.h"

namespace volador::operations {
class Registry;
}
namespace volador::security {
class Authority;
}

namespace volador::head {

class AuditModule;
class Authorizer;
class CoreRunner;
class PasswordWorker;

struct UserOperations {
  CoreRunner& runner;
  AuditModule& audit;  // Used on the runner's loop only.
  Authorizer& authorizer;
  const security::Authority& authority;
  const Clock& clock;
  PasswordWorker& passwords;
  // Both run on the runner's loop. The second: the token's user was disabled, or lost a role.
  std::function<void(const std::string& token_id)> on_revoked;
  std::function<void(const std::string& token_id)> on_limited;
};

// Registers the handlers, which use the parts until withdraw("Users").
void serve_users(operations::Registry& registry, UserOperations parts);

}  // namespace volador::head
