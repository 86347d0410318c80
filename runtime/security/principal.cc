#include "runtime/security/principal.h"

#include <utility>

namespace volador::security {
namespace {

Role role_of_bearer(TokenRole token) {
  switch (token) {
    case TokenRole::kOperator:
      return Role::kOperator;
    case TokenRole::kJoin:
      return Role::kNode;
    case TokenRole::kViewer:
      return Role::kViewer;
    case TokenRole::kDriver:
      break;
  }
  return Role::kDriver;
}

}  // namespace

Principal principal_of_token(std::string token_id, TokenRole role) {
  return {
      .role = role_of_bearer(role), .role_name = to_string(role), .name = "token " + token_id, .token_id = token_id};
}

Principal unknown_principal(std::string peer) {
  return {.role = Role::kViewer,
          .role_name = "none",
          .name = "a caller without a token",
          .token_id = {},
          .peer = std::move(peer)};
}

}  // namespace volador::security
