#include "runtime/security/user.h"

#include <fmt/format.h>

#include <algorithm>

namespace volador::security {

std::string_view to_string(UserRole role) {
  return role == UserRole::kOperator ? "operator" : role == UserRole::kUser ? "user" : "viewer";
}

std::optional<UserRole> parse_user_role(std::string_view text) {
  for (const UserRole role : {UserRole::kViewer, UserRole::kUser, UserRole::kOperator}) {
    if (to_string(role) == text) return role;
  }
  return std::nullopt;
}

TokenRole token_role_of(UserRole role) {
  return role == UserRole::kOperator ? TokenRole::kOperator
         : role == UserRole::kUser   ? TokenRole::kDriver
                                     : TokenRole::kViewer;
}

TokenRole token_role_within(UserRole user, TokenRole token) {
  if (token == TokenRole::kOperator) return token_role_of(user);
  if (token == TokenRole::kDriver && user != UserRole::kViewer) return token;
  return TokenRole::kViewer;
}

Result<void> check_user_name(std::string_view what, std::string_view name) {
  const auto plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  const bool fits =
      !name.empty() && name.size() <= kUserNameBytesMax && plain(name.front()) &&
      std::all_of(name.begin(), name.end(), [&](char c) { return plain(c) || c == '-' || c == '_' || c == '.'; });
  if (fits) return {};
  return make_error(
      ErrorCode::kInvalidArgument,
      fmt::format("{}: \"{}\" is no name of a user; expected 1 to {} lower-case letters, digits, '-', '_' "
                  "and '.', beginning with a letter or digit",
                  what, name.substr(0, 2 * kUserNameBytesMax), kUserNameBytesMax));
}

Result<void> check_new_password(std::string_view password) {
  if (password.size() < kPasswordBytesMin || password.size() > kPasswordBytesMax) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("password: {} bytes; expected {} to {}", password.size(),
                                                               kPasswordBytesMin, kPasswordBytesMax));
  }
  if (password.find('\0') != std::string_view::npos)
    return make_error(ErrorCode::kInvalidArgument, "password: it has a NUL byte; use a text");
  return {};
}

}  // namespace volador::security
