// The operations of volador.v1.Users: users, their groups, sign-in by password or provider, and tokens of users.
#pragma once

#include <chrono>
#include <functional>
#include <string>

#include "runtime/clock.h"
#include "runtime/protocol/volador/v1/users.pb.h"
#include "runtime/result.h"

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
class BoundedWorker;
class SignOn;
struct SignOnIdentity;
struct SignOnOptions;

struct UserOperations {
  CoreRunner& runner;
  AuditModule& audit;  // Used on the runner's loop only.
  Authorizer& authorizer;
  const security::Authority& authority;
  const Clock& clock;
  BoundedWorker& passwords;
  SignOn* sign_on;  // Null: no provider is configured.
  // Both run on the runner's loop. The second: the token's user was disabled, or lost a role.
  std::function<void(const std::string& token_id)> on_revoked;
  std::function<void(const std::string& token_id)> on_limited;
};

// What the sign-in by a provider needs; see SignOn::Parts.
struct SignOnAdmission {
  std::function<void(const SignOnIdentity& who, const SignOnOptions& options, std::chrono::seconds valid,
                     const std::string& peer, std::function<void(Result<v1::LoginReply>)> done)>
      admit;
  std::function<void(const std::string& user, const std::string& peer, const Error& error)> on_refused;
};

// Registers the handlers, which use the parts until withdraw("Users").
SignOnAdmission serve_users(operations::Registry& registry, UserOperations parts);

}  // namespace volador::head
