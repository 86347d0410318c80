// Who may look: one-time login keys, browser sessions made from them, and a brake on guessing.
// Pure: wall time comes with the call; only random secrets are drawn. One thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/clock.h"
#include "runtime/result.h"

namespace volador::dashboard {

enum class Access : uint8_t { kOpen, kViewer, kOperator };  // Each may what those before it may.
std::string_view to_string(Access access);                  // "open", "viewer", "operator".

struct Visitor {
  std::string token_id;  // Of the token behind it: where that ends, this does.
  Access access = Access::kViewer;
};

class SignIn {
 public:
  static constexpr std::chrono::minutes kKeyLife{15};
  static constexpr std::chrono::hours kSessionLife{7 * 24};
  static constexpr size_t kKeysMax = 100;      // The oldest goes.
  static constexpr size_t kSessionsMax = 1000;  // The one that ends first goes.

  struct Session {
    Visitor visitor;
    WallTime expires;
  };

  // The text of a key that opens one session.
  std::string make_key(const Visitor& visitor, WallTime now);
  // The text of a new session; none: the key is unknown, used or old. A key that was found is spent.
  std::optional<std::string> redeem(std::string_view key, WallTime now);
  std::string open(const Visitor& visitor, WallTime now);
  std::optional<Session> find(std::string_view session, WallTime now) const;
  void close(std::string_view session);

  // Sessions survive a restart of the head; secrets are kept as hashes. JSON.
  std::string save(WallTime now) const;
  // What cannot be read is left out: its owner signs in again.
  void load(std::string_view json, WallTime now);

 private:
  std::map<std::string, Session> keys_;      // By the hash of the text.
  std::map<std::string, Session> sessions_;
};

// So many requests a second for each peer, with a burst; and a peer that guesses secrets has to wait.
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
