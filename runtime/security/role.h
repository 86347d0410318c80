// Who a certificate or a token speaks for.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace volador::security {

// Of a certificate: its subject's OU.
enum class Role : uint8_t { kNode, kDriver, kOperator, kHost, kHead };

// Of a token: what may be joined with it.
enum class TokenRole : uint8_t {
  kJoin = 1,      // Nodes only.
  kDriver = 2,    // Drivers only.
  kOperator = 3,  // Everything: an operator may make the other tokens anyway.
  kViewer = 4,    // Nothing: its holder looks at the cluster through the API.
};

std::string_view to_string(Role role);       // "node", "driver", "operator", "host", "head".
std::string_view to_string(TokenRole role);  // "join", "driver", "operator", "viewer".
std::optional<Role> parse_role(std::string_view text);
std::optional<TokenRole> parse_token_role(std::string_view text);

// The role of a token that lets its bearer join as this and no more.
TokenRole token_role_for(Role role);
// kHost and kHead are never joined with a token.
bool may_join_as(TokenRole token, Role role);

}  // namespace volador::security
