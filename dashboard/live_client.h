// One WebSocket client: its subscriptions and the updates due. Pulls from the model when its connection can take a
// message, so that a slow client gets fewer and newer rows and costs only a cursor and the message being sent.
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
  static constexpr size_t kMessageBytes = 128 << 10;  // Approximate; the rest follows in the next message.
  static constexpr size_t kSubscriptionsMax = 64;
  static constexpr size_t kRepliesMax = 256;  // Queued replies; beyond it the client is disconnected.

  // A request for the newest lines of an actor or trial (id) or a node; followed by one give_logs() call, unless the
  // client is gone.
  struct LogsWanted {
    int64_t subscription = 0;
    std::string id, node;
  };
  using AskLogs = std::function<void(const LogsWanted& wanted)>;

  LiveClient(const LiveModel& model, int64_t now_ms, AskLogs ask_logs);

  // Handles a message of the client. Returns false if it must be disconnected (why() gives the reason).
  bool on_text(std::string_view text);
  struct FoundLogs {
    std::string actor;  // In hex; empty for a node.
    std::vector<v1::LogLine> lines;
    // Whether the client may see later lines of the actor, in hex. Null: of all actors.
    std::function<bool(std::string_view actor)> shows = {};
  };
  void give_logs(int64_t subscription, const Result<FoundLogs>& found);

  // Requests a time message: once no other update is due, next() returns {"type":"current","seq":…,"server_time_ms":…}.
  // A client that cannot keep up gets none, and can thus tell how old its rows are.
  void tell_time(int64_t now_ms) { time_ms_ = now_ms; }

  // Returns the next due message.
  std::optional<std::string> next();
  // Whether another reader can resume after that message: it was not part of a longer one.
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
    bool waits = false;  // Waits for its first log lines.
  };

  // The position from which a reader resumes, within one instance.
  struct Resume {
    std::string instance;
    uint64_t seq = 0;
  };
  using Trials = std::optional<std::set<std::string>>;  // Trials whose curves are wanted; nullopt: all.
  void subscribe(int64_t id, std::string_view topic, const std::map<std::string, std::string>& filter, Trials trials,
                 const Resume& resume);
  void want(int64_t id, Trials trials);
  void refuse(int64_t id, const Error& error);
  std::optional<std::string> read(int64_t id, Subscription& subscription);
  std::optional<std::string> read_lines(int64_t id, Subscription& subscription);

  const LiveModel& model_;
  AskLogs ask_logs_;
  std::deque<std::string> replies_;
  std::map<int64_t, Subscription> subscriptions_;
  int64_t last_served_ = 0;
  std::optional<int64_t> time_ms_;  // Time to send once nothing else is due.
  std::string why_;
  bool resumable_ = false;
};

// {"type":"bye","reason":…}
std::string bye_text(std::string_view reason);

}  // namespace volador::dashboard
