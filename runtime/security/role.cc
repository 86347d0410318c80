#include "runtime/security/role.h"

#include <array>
#include <utility>

namespace volador::security {
namespace {

constexpr std::array<std::pair<Role, std::string_view>, 6> kRoles{{
    {Role::kNode, "node"},
    {Role::kDriver, "driver"},
    {Role::kOperator, "operator"},
    {Role::kHost, "host"},
    {Role::kHead, "head"},
    {Role::kViewer, "viewer"},
}};

constexpr std::array<std::pair<TokenRole, std::string_view>, 4> kTokenRoles{{
    {TokenRole::kJoin, "join"},
    {TokenRole::kDriver, "driver"},
    {TokenRole::kOperator, "operator"},
    {TokenRole::kViewer, "viewer"},
}};

template <class Table, class Value>
std::string_view name_in(const Table& table, Value value) {
  for (const auto& [known, name] : table) {
    if (known == value) return name;
  }
  return "unknown";
}

}  // namespace

std::string_view to_string(Role role) { return name_in(kRoles, role); }
std::string_view to_string(TokenRole role) { return name_in(kTokenRoles, role); }

std::optional<Role> parse_role(std::string_view text) {
  for (const auto& [role, name] : kRoles) {
    if (name == text) return role;
  }
  return std::nullopt;
}

std::optional<TokenRole> parse_token_role(std::string_view text) {
  for (const auto& [role, name] : kTokenRoles) {
    if (name == text) return role;
  }
  return std::nullopt;
}

TokenRole token_role_for(Role role) {
  switch (role) {
    case Role::kNode:
      return TokenRole::kJoin;
    case Role::kDriver:
      return TokenRole::kDriver;
    case Role::kOperator:
    case Role::kHost:
    case Role::kHead:
    case Role::kViewer:
      break;
  }
  return TokenRole::kOperator;
}

bool may_join_as(TokenRole token, Role role) {
  switch (token) {
    case TokenRole::kJoin:
      return role == Role::kNode;
    case TokenRole::kDriver:
      return role == Role::kDriver;
    case TokenRole::kOperator:
      return role == Role::kNode || role == Role::kDriver || role == Role::kOperator;
    case TokenRole::kViewer:
      return false;
  }
  return false;
}

}  // namespace volador::security
