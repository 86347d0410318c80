// Users of a cluster: rules for their names, groups, roles and passwords.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/result.h"
#include "runtime/security/role.h"

namespace volador::security {

// What a user may do.
enum class UserRole : uint8_t { kViewer, kUser, kOperator };  // Each includes the previous ones.

std::string_view to_string(UserRole role);  // "viewer", "user", "operator".
std::optional<UserRole> parse_user_role(std::string_view text);
// The role of the most powerful tokens that a user of this role may have: viewer, driver, operator.
TokenRole token_role_of(UserRole role);
// The role that a token of a user has: its own, but never more than the user's. A join token, which no user has, becomes
// a viewer token.
TokenRole token_role_within(UserRole user, TokenRole token);

inline constexpr size_t kUserNameBytesMax = 64;
inline constexpr size_t kPasswordBytesMin = 8;
inline constexpr size_t kPasswordBytesMax = 1024;

// 1 to 64 lower-case letters, digits, '-', '_' and '.', beginning with a letter or digit. kInvalidArgument: names
// `what`, the name and the rule.
[[nodiscard]] Result<void> check_user_name(std::string_view what, std::string_view name);
// The same for a group of users.
[[nodiscard]] Result<void> check_group_name(std::string_view what, std::string_view name);
// Where users are named, "@name" stands for a group. nullopt: it is a user.
std::optional<std::string_view> group_in(std::string_view member);
// Whether the user, or one of the user's groups, is among the members. No user is in no list.
template <class Members>
bool is_member(const Members& members, const std::string& user, const std::vector<std::string>& groups) {
  if (user.empty()) return false;
  return std::any_of(members.begin(), members.end(), [&](const std::string& member) {
    const auto group = group_in(member);
    return group ? std::find(groups.begin(), groups.end(), *group) != groups.end() : member == user;
  });
}
// kInvalidArgument: shorter or longer than the limits, or with a NUL byte; the message does not have the password.
[[nodiscard]] Result<void> check_new_password(std::string_view password);

}  // namespace volador::security
