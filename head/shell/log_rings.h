// Recent output of every actor, for `volador logs`: bounded, in memory, lost with the head. Single-threaded.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/ids.h"

namespace volador::protocol {
class LogLines;
}

namespace volador::head {

// Limits of the stored lines.
struct LogRingLimits {
  size_t actor_lines = 2000;  // Beyond it the oldest lines are dropped.
  size_t actor_bytes = size_t{256} << 10;
  size_t bytes = size_t{16} << 20;  // Total; beyond it the actor with the oldest output is dropped first.
  size_t line_bytes = 16 << 10;     // Longer lines are truncated.
};

// One stored line of output.
struct KeptLine {
  std::string source;  // Name of the actor in logs.
  std::string node;
  bool is_stderr = false;
  std::string text;
  int64_t time_ms = 0;  // Unix time at which the worker read it; 0: unknown.
  uint64_t number = 0;  // Order of arrival over all actors.
};

// Adds a line for lines that were left out.
std::vector<KeptLine> kept_lines(const protocol::LogLines& lines);

class LogRings {
 public:
  explicit LogRings(const LogRingLimits& limits = {}) : limits_(limits) {}

  void add(const protocol::LogLines& lines);
  // The newest `count` lines of these actors together, oldest first. nullopt: no lines of these actors are stored.
  std::optional<std::vector<KeptLine>> tail(const std::vector<ActorId>& actors, size_t count) const;

  // The newest `count` lines of one output stream of the actor whose id starts with `short_id`, written on this node,
  // oldest first.
  std::vector<const KeptLine*> stream_tail(std::string_view short_id, std::string_view node, bool is_stderr,
                                           size_t count) const;

  // Calls on_line for every further line of these actors until unfollow(). on_line must not block.
  uint64_t follow(const std::vector<ActorId>& actors, std::function<void(const KeptLine&)> on_line);
  void unfollow(uint64_t follower);

  size_t bytes() const { return bytes_; }

 private:
  struct Ring {
    std::deque<KeptLine> lines;
    size_t bytes = 0;
    std::list<ActorId>::iterator order;
  };
  struct Follower {
    std::set<ActorId> actors;
    std::function<void(const KeptLine&)> on_line;
  };
  void drop_oldest(Ring& ring);

  LogRingLimits limits_;
  std::unordered_map<ActorId, Ring> rings_;
  std::list<ActorId> order_;  // Front: oldest output.
  std::map<uint64_t, Follower> followers_;
  uint64_t next_follower_ = 1;
  uint64_t next_line_ = 1;
  size_t bytes_ = 0;
};

}  // namespace volador::head
