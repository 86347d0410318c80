#include "dashboard/sign_in.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "runtime/security/digest.h"
#include "runtime/security/secret.h"
#include "runtime/text.h"

namespace volador::dashboard {
namespace {

constexpr size_t kSecretBytes = 24;

// The timing of a look-up by hash reveals nothing about the secret.
std::string hash_of(std::string_view text) { return security::hex(security::sha256(text)); }

template <class Sessions>
void make_room(Sessions& sessions, size_t most, WallTime now) {
  std::erase_if(sessions, [now](const auto& entry) { return entry.second.expires <= now; });
  while (sessions.size() >= most) {
    sessions.erase(std::min_element(sessions.begin(), sessions.end(),
                                    [](const auto& a, const auto& b) { return a.second.expires < b.second.expires; }));
  }
}

}  // namespace

std::string new_secret() { return hex_text(security::Secret::random(kSecretBytes).reveal()); }

std::string_view to_string(Access access) {
  switch (access) {
    case Access::kOperator:
      return "operator";
    case Access::kUser:
      return "user";
    case Access::kViewer:
      return "viewer";
    case Access::kOpen:
      break;
  }
  return "open";
}

std::optional<Access> parse_access(std::string_view text) {
  for (const Access access : {Access::kOpen, Access::kViewer, Access::kUser, Access::kOperator}) {
    if (to_string(access) == text) return access;
  }
  return std::nullopt;
}

security::Principal principal_of(const Visitor& visitor, const std::string& peer) {
  const auto role = visitor.access == Access::kOperator ? security::TokenRole::kOperator
                    : visitor.access == Access::kUser   ? security::TokenRole::kDriver
                                                        : security::TokenRole::kViewer;
  auto principal = security::principal_of_token(visitor.token_id, role);
  principal.user = visitor.user;
  principal.peer = peer;
  return principal;
}

std::string SignIn::make_key(const Visitor& visitor, WallTime now) {
  make_room(keys_, kKeysMax, now);
  std::string text = new_secret();
  keys_[hash_of(text)] = {.visitor = visitor, .expires = now + kKeyLife};
  return text;
}

std::optional<std::string> SignIn::redeem(std::string_view key, WallTime now) {
  const auto found = keys_.find(hash_of(key));
  if (found == keys_.end()) return std::nullopt;
  const Session kept = found->second;
  keys_.erase(found);
  if (kept.expires <= now) return std::nullopt;
  return open(kept.visitor, now);
}

std::string SignIn::open(const Visitor& visitor, WallTime now) {
  make_room(sessions_, kSessionsMax, now);
  std::string text = new_secret();
  sessions_[hash_of(text)] = {.visitor = visitor, .expires = now + kSessionLife};
  return text;
}

std::optional<SignIn::Session> SignIn::find(std::string_view session, WallTime now) const {
  const auto found = sessions_.find(hash_of(session));
  if (found == sessions_.end() || found->second.expires <= now) return std::nullopt;
  return found->second;
}

void SignIn::close(std::string_view session) { sessions_.erase(hash_of(session)); }

std::string SignIn::save(WallTime now) const {
  nlohmann::json rows = nlohmann::json::array();
  for (const auto& [hash, session] : sessions_) {
    if (session.expires <= now) continue;
    rows.push_back({{"hash", hash},
                    {"token", session.visitor.token_id},
                    {"access", to_string(session.visitor.access)},
                    {"user", session.visitor.user},
                    {"expires_ns", session.expires.time_since_epoch().count()}});
  }
  return rows.dump();
}

void SignIn::load(std::string_view json, WallTime now) {
  const auto rows = nlohmann::json::parse(json, nullptr, false);
  if (!rows.is_array()) return;
  for (const auto& row : rows) {
    try {
      const std::string access = row.at("access");
      const WallTime expires{std::chrono::nanoseconds(row.at("expires_ns").get<int64_t>())};
      if (expires <= now || expires > now + kSessionLife || sessions_.size() >= kSessionsMax) continue;
      sessions_[row.at("hash").get<std::string>()] = {
          .visitor = {.token_id = row.at("token"),
                      .access = parse_access(access).value_or(Access::kViewer),
                      .user = row.value("user", "")},
          .expires = expires};
    } catch (const nlohmann::json::exception&) {
      continue;
    }
  }
}

RequestBrake::Peer& RequestBrake::of(const std::string& peer, BootTime now) {
  if (!peers_.contains(peer) && peers_.size() >= kPeersMax) {
    peers_.erase(std::min_element(peers_.begin(), peers_.end(),
                                  [](const auto& a, const auto& b) { return a.second.seen < b.second.seen; }));
  }
  Peer& known = peers_[peer];
  const double passed = known.seen == BootTime{} ? 0 : std::chrono::duration<double>(now - known.seen).count();
  known.room = std::min(kBurst, known.room + passed * kPerSecond);
  known.seen = now;
  if (now - known.first_failure >= kWindow) known.failures = 0;
  return known;
}

bool RequestBrake::may_ask(const std::string& peer, BootTime now) {
  Peer& known = of(peer, now);
  if (known.room < 1) return false;
  known.room -= 1;
  return true;
}

bool RequestBrake::may_guess(const std::string& peer, BootTime now) { return of(peer, now).failures < kFailuresMax; }

void RequestBrake::guessed_wrong(const std::string& peer, BootTime now) {
  Peer& known = of(peer, now);
  if (known.failures++ == 0) known.first_failure = now;
}

}  // namespace volador::dashboard
