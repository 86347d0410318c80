#include "head/shell/token_table.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>

namespace volador::head {
namespace {

constexpr std::chrono::hours kRememberExpired{30 * 24};
constexpr size_t kNoteBytesMax = 256;
constexpr size_t kRevokeDigitsMin = 4;  // A shorter prefix is as likely a typing error.

std::string utc(int64_t wall_ns) {
  return fmt::format("{:%Y-%m-%d %H:%M:%S} UTC", fmt::gmtime(static_cast<std::time_t>(wall_ns / 1'000'000'000)));
}

}  // namespace

bool TokenTable::load(std::string_view key, std::string_view value) {
  protocol::TokenRecord record;
  if (!record.ParseFromArray(value.data(), static_cast<int>(value.size())) || record.token_id() != key ||
      !security::parse_token_role(record.role())) {
    return false;
  }
  tokens_[std::string(key)] = std::move(record);
  return true;
}

Result<TokenTable::Created> TokenTable::create(const security::Fingerprint& authority, security::TokenRole role,
                                               std::chrono::milliseconds valid_for, std::string note, WallTime now,
                                               const TokenOwner& owner) {
  if (valid_for.count() < 0) {
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("token: it would be valid for {} ms; expected 0 (without end) or more", valid_for.count()));
  }
  if (note.size() > kNoteBytesMax) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("token: a note of {} bytes; at most {} fit", note.size(), kNoteBytesMax));
  }
  Created created{.token = security::make_token(authority, role), .record = {}, .journal = {}};
  const int64_t now_ns = now.time_since_epoch().count();
  std::erase_if(tokens_, [&](const auto& entry) {
    const int64_t expires = entry.second.expires_wall_ns();
    const bool old = expires != 0 && expires + std::chrono::nanoseconds(kRememberExpired).count() < now_ns;
    if (old) created.journal.push_back({std::string(kTokensTable), entry.first, std::nullopt});
    return old;
  });
  if (tokens_.size() >= kTokensMax) {
    return make_error(
        ErrorCode::kUnavailable,
        fmt::format("the cluster has {} tokens, the most it keeps. Create tokens that expire (--valid-for).",
                    kTokensMax));
  }
  if (owner.sign_in) {
    auto sign_ins = of_user(owner.user, true);
    std::erase_if(sign_ins, [&](const std::string& id) { return !counts(id, now); });
    if (sign_ins.size() >= kSignInsMax) {
      const auto oldest = std::min_element(sign_ins.begin(), sign_ins.end(), [this](const auto& a, const auto& b) {
        return tokens_.at(a).created_wall_ns() < tokens_.at(b).created_wall_ns();
      });
      auto revoked = revoke(*oldest);
      created.revoked = *oldest;
      created.journal.insert(created.journal.end(), revoked->journal.begin(), revoked->journal.end());
    }
  }
  protocol::TokenRecord& record = created.record;
  record.set_token_id(created.token.id);
  record.set_secret_sha256(security::secret_record(created.token.secret));
  record.set_role(std::string(to_string(role)));
  record.set_created_wall_ns(now_ns);
  if (valid_for.count() > 0) record.set_expires_wall_ns((now + valid_for).time_since_epoch().count());
  record.set_note(std::move(note));
  record.set_user(owner.user);
  record.set_session(owner.sign_in);
  tokens_[record.token_id()] = record;
  created.journal.push_back({std::string(kTokensTable), record.token_id(), record.SerializeAsString()});
  return created;
}

Result<TokenTable::Revoked> TokenTable::revoke(std::string_view id) {
  auto found = tokens_.lower_bound(id);
  if (id.empty() || found == tokens_.end() || !found->first.starts_with(id)) {
    return make_error(ErrorCode::kNotFound,
                      fmt::format("no token \"{}\". `volador token list` shows those that exist.", id));
  }
  if (id.size() < kRevokeDigitsMin) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("token \"{}\": give at least {} digits of its id. `volador token list` shows them.",
                                  id, kRevokeDigitsMin));
  }
  auto next = std::next(found);
  if (found->first != id && next != tokens_.end() && next->first.starts_with(id)) {
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("token \"{}\": several begin so ({}, {}, …). Give more digits.", id, found->first, next->first));
  }
  Revoked revoked{.id = found->first, .journal = {}};
  if (!found->second.revoked()) {
    found->second.set_revoked(true);
    revoked.journal.push_back({std::string(kTokensTable), found->first, found->second.SerializeAsString()});
  }
  return revoked;
}

Result<security::TokenRole> TokenTable::check(const std::string& id, std::string_view secret, WallTime now,
                                              security::TokenRole wanted) const {
  const auto found = tokens_.find(id);
  if (found == tokens_.end() || !security::secret_matches(secret, found->second.secret_sha256())) {
    return make_error(ErrorCode::kUnauthenticated,
                      fmt::format("this is no token of this cluster. Copy the whole of it again, or create one with "
                                  "`volador token create --role={}` on the head's machine.",
                                  to_string(wanted)));
  }
  const protocol::TokenRecord& record = found->second;
  if (record.revoked()) {
    return make_error(
        ErrorCode::kUnauthenticated,
        fmt::format("token {} was revoked. Create another with `volador token create --role={}` on the head's machine.",
                    id, record.role()));
  }
  const int64_t now_ns = now.time_since_epoch().count();
  if (record.expires_wall_ns() != 0 && now_ns >= record.expires_wall_ns()) {
    return make_error(ErrorCode::kUnauthenticated,
                      fmt::format("token {} expired at {} (it is {} at the head). Create another with `volador token "
                                  "create --role={}` on the head's machine.",
                                  id, utc(record.expires_wall_ns()), utc(now_ns), record.role()));
  }
  auto role = security::parse_token_role(record.role());
  if (!role)
    return make_error(ErrorCode::kInternal, fmt::format("token {} has an unknown role \"{}\"", id, record.role()));
  return *role;
}

bool TokenTable::counts(std::string_view id, WallTime now) const {
  const auto found = tokens_.find(id);
  if (found == tokens_.end() || found->second.revoked()) return false;
  return found->second.expires_wall_ns() == 0 || now.time_since_epoch().count() < found->second.expires_wall_ns();
}

const protocol::TokenRecord* TokenTable::find(std::string_view id) const {
  const auto found = tokens_.find(id);
  return found == tokens_.end() ? nullptr : &found->second;
}

std::vector<std::string> TokenTable::of_user(std::string_view user, bool sign_ins) const {
  std::vector<std::string> ids;
  for (const auto& [id, record] : tokens_) {
    if (record.user() == user && !record.revoked() && (record.session() || !sign_ins)) ids.push_back(id);
  }
  return ids;
}

std::vector<protocol::TokenRecord> TokenTable::list() const {
  std::vector<protocol::TokenRecord> all;
  for (const auto& [id, record] : tokens_) all.push_back(record);
  std::stable_sort(all.begin(), all.end(),
                   [](const auto& a, const auto& b) { return a.created_wall_ns() < b.created_wall_ns(); });
  return all;
}

}  // namespace volador::head
