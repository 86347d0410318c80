// Who makes a request: fixed when the call is authenticated, and passed along with the request.
#pragma once

#include <string>
#include <string_view>

#include "runtime/security/role.h"

namespace volador::security {

struct Principal {
  Role role = Role::kDriver;
  std::string_view role_name;  // For messages: the role of the certificate, or of the token.
  std::string name;            // For messages: the certificate's, or "token ID".
  std::string token_id;        // The token that the certificate was issued for, or that came with the call.
  std::string user = {};       // Whose token it is; empty: it has no user.
  std::string peer = {};       // The caller's address without a port, for throttles; empty: unknown.
};

// The bearer of a token. A join token makes its bearer a node, which may not read the API.
Principal principal_of_token(std::string token_id, TokenRole role);
// The caller of an operation that is open to all, whose credentials are not looked at.
Principal unknown_principal(std::string peer);

}  // namespace volador::security
