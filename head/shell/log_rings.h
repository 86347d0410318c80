// The last output of every actor, for `volador logs`: bounded, in memory, forgotten with the head. One thread.
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

struct LogRingLimits {
  size_t actor_lines = 2000;                    // The oldest go first.
  size_t actor_bytes = size_t{256} << 10;
  size_t bytes = size_t{16} << 20;              // Of all; the actor that wrote longest ago goes first.
  size_t line_bytes = 16 << 10;                 // The rest of a longer line is cut.
};

struct KeptLine {
  std::string source;  // What logs call the actor.
  std::string node;
  bool is_stderr = false;
  std::string text;
  int64_t time_ms = 0;  // Unix time at which its worker read it; 0: not known.
  uint64_t number = 0;  // In the order in which they came, of all actors.
};

// With a line for those that were left out.
std::vector<KeptLine> kept_lines(const protocol::LogLines& lines);

class LogRings {
 public:
  explicit LogRings(const LogRingLimits& limits = {}) : limits_(limits) {}

  void add(const protocol::LogLines& lines);
  // The newest `count` lines of these actors together, oldest first. None: nothing of any of them is held.
  std::optional<std::vector<KeptLine>> tail(const std::vector<ActorId>& actors, size_t count) const;

  // The newest `count` lines of one stream of the actor whose id begins with `short_id`, as it wrote them on this node, oldest first.
  std::vector<const KeptLine*> stream_tail(std::string_view short_id, std::string_view node, bool is_stderr, size_t count) const;

  // Gets every line of these from now on, until unfollow. The function returns at once.
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
  std::list<ActorId> order_;  // Front: wrote longest ago.
  std::map<uint64_t, Follower> followers_;
  uint64_t next_follower_ = 1;
  uint64_t next_line_ = 1;
  size_t bytes_ = 0;
};

}  // namespace volador::head
