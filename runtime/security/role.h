// Roles of certificates and tokens.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace volador::security {

// Role of a certificate, its subject's OU, or of a token's bearer. No certificate has role kViewer.
enum class Role : uint8_t { kNode, kDriver, kOperator, kHost, kHead, kViewer };

// Role of a token: what it allows to join.
enum class TokenRole : uint8_t {
  kJoin = 1,      // Nodes only.
  kDriver = 2,    // Drivers only.
  kOperator = 3,  // Everything: an operator can create the other tokens.
  kViewer = 4,    // Nothing: read access to the cluster through the API.
};

std::string_view to_string(Role role);       // "node", "driver", "operator", "host", "head", "viewer".
std::string_view to_string(TokenRole role);  // "join", "driver", "operator", "viewer".
std::optional<Role> parse_role(std::string_view text);
std::optional<TokenRole> parse_token_role(std::string_view text);

// Returns the token role with which one can join as this role only.
TokenRole token_role_for(Role role);
// kHost and kHead never join with a token.
bool may_join_as(TokenRole token, Role role);

}  // namespace volador::security
