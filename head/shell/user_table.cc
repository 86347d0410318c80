#include "head/shell/user_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/protocol/volador/v1/users.pb.h"
#include "runtime/result.h"

namespace volador::head {
namespace {

constexpr size_t kFullNameBytesMax = 256;
constexpr size_t kMailBytesMax = 254;
constexpr size_t kSubjectBytesMax = 255;

Result<void> check_text(std::string_view what, std::string_view text, size_t bytes_max) {
  const bool plain = std::all_of(text.begin(), text.end(), [](char c) { return static_cast<uint8_t>(c) >= 0x20; });
  if (text.size() <= bytes_max && plain) return {};
  return make_error(
      ErrorCode::kInvalidArgument,
      fmt::format("{}: {} bytes; expected at most {}, without control characters", what, text.size(), bytes_max));
}

Result<void> check_mail(std::string_view mail) {
  VOLADOR_TRY(check_text("mail", mail, kMailBytesMax));
  const size_t at = mail.find('@');
  const bool fits =
      mail.empty() || (at != 0 && at != std::string_view::npos && at + 1 < mail.size() &&
                       mail.find('@', at + 1) == std::string_view::npos && mail.find(' ') == std::string_view::npos);
  if (fits) return {};
  return make_error(ErrorCode::kInvalidArgument, fmt::format("mail: \"{}\" is no address; expected name@host", mail));
}

}  // namespace

security::UserRole role_of(const protocol::UserRecord& user) {
  return security::parse_user_role(user.role()).value_or(security::UserRole::kViewer);
}

v1::User to_api(const protocol::UserRecord& user) {
  v1::User shown;
  shown.set_name(user.name());
  shown.set_role(user.role());
  shown.set_disabled(user.disabled());
  shown.set_full_name(user.full_name());
  shown.set_mail(user.mail());
  shown.set_password_set(!user.password().empty());
  shown.set_created_ms(user.created_wall_ns() / 1'000'000);
  shown.set_subject(user.subject());
  return shown;
}

bool UserTable::load(std::string_view key, std::string_view value) {
  protocol::UserRecord record;
  if (!record.ParseFromArray(value.data(), static_cast<int>(value.size())) || record.name() != key ||
      !security::parse_user_role(record.role())) {
    return false;
  }
  users_[std::string(key)] = std::move(record);
  return true;
}

Result<void> UserTable::check(const v1::User& user) const {
  VOLADOR_TRY(security::check_user_name("user", user.name()));
  if (!user.role().empty() && !security::parse_user_role(user.role())) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("role: expected user, operator or viewer, got \"{}\"", user.role()));
  }
  VOLADOR_TRY(check_text("full_name", user.full_name(), kFullNameBytesMax));
  VOLADOR_TRY(check_mail(user.mail()));
  VOLADOR_TRY(check_text("subject", user.subject(), kSubjectBytesMax));
  for (const auto& [name, other] : users_) {
    if (!user.subject().empty() && name != user.name() && other.subject() == user.subject()) {
      return make_error(ErrorCode::kInvalidArgument, fmt::format("subject: \"{}\" is that of user {}; each user has "
                                                                 "another one",
                                                                 user.subject(), name));
    }
  }
  if (users_.size() >= kUsersMax && !users_.contains(user.name())) {
    return make_error(ErrorCode::kUnavailable,
                      fmt::format("the cluster has {} users, the most it keeps; delete some first", kUsersMax));
  }
  return {};
}

Result<UserTable::Changed> UserTable::put(const v1::User& user, const std::string& password_hash, WallTime now) {
  VOLADOR_TRY(check(user));
  const auto [found, created] = users_.try_emplace(user.name());
  protocol::UserRecord& record = found->second;
  if (created) record.set_created_wall_ns(now.time_since_epoch().count());
  record.set_name(user.name());
  record.set_role(user.role().empty() ? std::string(to_string(security::UserRole::kUser)) : user.role());
  record.set_disabled(user.disabled());
  record.set_full_name(user.full_name());
  record.set_mail(user.mail());
  record.set_subject(user.subject());
  if (!password_hash.empty()) record.set_password(password_hash);
  return Changed{.record = record,
                 .journal = {{std::string(kUsersTable), record.name(), record.SerializeAsString()}},
                 .created = created};
}

Result<protocol::UserRecord*> UserTable::known(std::string_view name) {
  VOLADOR_TRY(check_known(name));
  return &users_.find(name)->second;
}

Result<void> UserTable::check_known(std::string_view name) const {
  if (users_.contains(name)) return {};
  return make_error(ErrorCode::kNotFound,
                    fmt::format("there is no user \"{}\"; `volador user list` shows the users", name));
}

const protocol::UserRecord* UserTable::find_subject(std::string_view subject) const {
  const auto found =
      std::find_if(users_.begin(), users_.end(), [&](const auto& entry) { return entry.second.subject() == subject; });
  return subject.empty() || found == users_.end() ? nullptr : &found->second;
}

Result<UserTable::Changed> UserTable::set_password(std::string_view name, const std::string& password_hash) {
  auto record = known(name);
  if (!record) return make_error(record.error());
  (*record)->set_password(password_hash);
  return Changed{.record = **record,
                 .journal = {{std::string(kUsersTable), (*record)->name(), (*record)->SerializeAsString()}}};
}

Result<UserTable::Changed> UserTable::remove(std::string_view name) {
  auto record = known(name);
  if (!record) return make_error(record.error());
  Changed removed{.record = **record, .journal = {{std::string(kUsersTable), std::string(name), std::nullopt}}};
  users_.erase(users_.find(name));
  return removed;
}

const protocol::UserRecord* UserTable::find(std::string_view name) const {
  const auto found = users_.find(name);
  return found == users_.end() ? nullptr : &found->second;
}

std::vector<protocol::UserRecord> UserTable::list() const {
  std::vector<protocol::UserRecord> all;
  for (const auto& [name, record] : users_) all.push_back(record);
  return all;
}

}  // namespace volador::head
