#include "runtime/security/user.h"

#include <fmt/format.h>

#include <algorithm>

namespace volador::security {
namespace {

bool is_account_name(std::string_view name) {
  const auto plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  return !name.empty() && name.size() <= kUserNameBytesMax && plain(name.front()) &&
         std::all_of(name.begin(), name.end(), [&](char c) { return plain(c) || c == '-' || c == '_' || c == '.'; });
}

Result<void> check_account_name(std::string_view what, std::string_view name, std::string_view kind) {
  if (is_account_name(name)) return {};
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("{}: \"{}\" is no name of a {}; expected 1 to {} lower-case letters, digits, '-', '_' "
                                "and '.', beginning with a letter or digit",
                                what, name.substr(0, 2 * kUserNameBytesMax), kind, kUserNameBytesMax));
}

}  // namespace

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
  return check_account_name(what, name, "user");
}

Result<void> check_group_name(std::string_view what, std::string_view name) {
  return check_account_name(what, name, "group");
}

std::optional<std::string_view> group_in(std::string_view member) {
  if (!member.starts_with('@')) return std::nullopt;
  return member.substr(1);
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
