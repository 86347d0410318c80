// One WebSocket client: what it has subscribed to and what of it is due. Pulls from the model when its connection can take a message, so
// a slow client gets fewer and newer rows, and costs a cursor and the one message that is on its way.
// Pure: no clock, thread or I/O. One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "dashboard/live_model.h"
#include "runtime/result.h"

namespace volador::dashboard {

class LiveClient {
 public:
  static constexpr size_t kMessageBytes = 128 << 10;  // About; what is left follows in the next one.
  static constexpr size_t kSubscriptionsMax = 64;
  static constexpr size_t kRepliesMax = 256;          // That wait to be sent: more, and the client is cut.

  // Asks for the newest lines of an actor or trial (id) or a node; give_logs() is called later, once, unless the client is gone.
  struct LogsWanted {
    int64_t subscription = 0;
    std::string id, node;
  };
  using AskLogs = std::function<void(const LogsWanted& wanted)>;

  LiveClient(const LiveModel& model, int64_t now_ms, AskLogs ask_logs);

  // A message of the client. False: cut it (why() says for what).
  bool on_text(std::string_view text);
  struct FoundLogs {
    std::string actor;  // In hex; empty for a node.
    std::vector<v1::LogLine> lines;
  };
  void give_logs(int64_t subscription, const Result<FoundLogs>& found);

  // Time to say whether the client has everything: as soon as nothing else is due, next() gives
  // {"type":"current","seq":…,"server_time_ms":…}. A client that cannot keep up gets none, and so can tell how old its rows are.
  void tell_time(int64_t now_ms) { time_ms_ = now_ms; }

  // The next message that is due.
  std::optional<std::string> next();
  // Whether another reader can go on after that one: it was no part of something longer.
  bool resumable() const { return resumable_; }
  bool follows_logs() const;
  bool wants_objects() const;
  const std::string& why() const { return why_; }

 private:
  struct Subscription {
    enum class Kind : uint8_t { kTable, kCurves, kSeries, kLogs } kind = Kind::kTable;
    Topic topic = Topic::kCluster;
    LiveTable::Wanted wanted;
    LiveTable::Cursor rows;
    LiveCurves::Cursor lines;
    std::string experiment, metric, node;
    bool waits = false;  // For its first log lines.
  };

  // Where a reader goes on: with what another one, or itself, has seen of this instance.
  struct Resume {
    std::string instance;
    uint64_t seq = 0;
  };
  using Trials = std::optional<std::set<std::string>>;  // Whose curves are wanted; none: all.
  void subscribe(int64_t id, std::string_view topic, const std::map<std::string, std::string>& filter, Trials trials, const Resume& resume);
  void want(int64_t id, Trials trials);
  void refuse(int64_t id, const Error& error);
  std::optional<std::string> read(int64_t id, Subscription& subscription);
  std::optional<std::string> read_lines(int64_t id, Subscription& subscription);

  const LiveModel& model_;
  AskLogs ask_logs_;
  std::deque<std::string> replies_;
  std::map<int64_t, Subscription> subscriptions_;
  int64_t last_served_ = 0;
  std::optional<int64_t> time_ms_;  // To be told when nothing else is due.
  std::string why_;
  bool resumable_ = false;
};

// {"type":"bye","reason":…}
std::string bye_text(std::string_view reason);

}  // namespace volador::dashboard
