// Access to the dashboard: one-time login keys, browser sessions created from them, and rate limits against guessing.
// Pure: wall time is an argument; only random secrets are drawn. Single-threaded.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/clock.h"
#include "runtime/result.h"
#include "runtime/security/principal.h"

namespace volador::dashboard {

// Each level includes the previous ones. A user also submits jobs, and changes jobs as their access allows.
enum class Access : uint8_t { kOpen, kViewer, kUser, kOperator };
std::string_view to_string(Access access);  // "open", "viewer", "user", "operator".
std::optional<Access> parse_access(std::string_view text);

// An authenticated user of the dashboard.
struct Visitor {
  std::string token_id;  // The underlying token; access ends with it.
  Access access = Access::kViewer;
  std::string user = {};  // Whose token it is; empty: it has no user.
};

// The sender of a request that the visitor makes. `peer`: its address without a port; empty: unknown.
security::Principal principal_of(const Visitor& visitor, const std::string& peer);

// 24 random bytes in hex.
std::string new_secret();

// Login keys and sessions.
class SignIn {
 public:
  static constexpr std::chrono::minutes kKeyLife{15};
  static constexpr std::chrono::hours kSessionLife{7 * 24};
  static constexpr size_t kKeysMax = 100;       // Beyond it the oldest is dropped.
  static constexpr size_t kSessionsMax = 1000;  // Beyond it the session that ends first is dropped.

  struct Session {
    Visitor visitor;
    WallTime expires;
  };

  // Creates a key that opens one session, and returns its text.
  std::string make_key(const Visitor& visitor, WallTime now);
  // Exchanges a key for a new session and returns its text; nullopt: the key is unknown, used or expired. A known key
  // is used up by the first try.
  std::optional<std::string> redeem(std::string_view key, WallTime now);
  std::string open(const Visitor& visitor, WallTime now);
  std::optional<Session> find(std::string_view session, WallTime now) const;
  void close(std::string_view session);

  // Serializes sessions as JSON, so that they survive a restart; secrets are stored as hashes.
  std::string save(WallTime now) const;
  // Unreadable sessions are skipped; their users sign in again.
  void load(std::string_view json, WallTime now);

 private:
  std::map<std::string, Session> keys_;  // By hash of the text.
  std::map<std::string, Session> sessions_;
};

// Rate limit per peer with a burst, and a delay for peers that guess secrets.
class RequestBrake {
 public:
  static constexpr double kPerSecond = 500;
  static constexpr double kBurst = 2000;
  static constexpr int kFailuresMax = 20;  // Within kWindow.
  static constexpr std::chrono::seconds kWindow{60};
  static constexpr size_t kPeersMax = 4096;

  bool may_ask(const std::string& peer, BootTime now);
  bool may_guess(const std::string& peer, BootTime now);
  void guessed_wrong(const std::string& peer, BootTime now);

 private:
  struct Peer {
    double room = kBurst;
    BootTime seen{};
    int failures = 0;
    BootTime first_failure{};
  };
  Peer& of(const std::string& peer, BootTime now);
  std::map<std::string, Peer> peers_;
};

}  // namespace volador::dashboard
