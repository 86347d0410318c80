// State shared by the handlers of one event: its time, its actions and the changes to publish to live views.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "head/clients/client_ref.h"
#include "head/kernel/actions.h"
#include "head/kernel/options.h"
#include "head/read_model/live_changes.h"
#include "runtime/clock.h"
#include "runtime/random.h"
#include "runtime/result.h"

namespace volador::head {

struct Context {
  Context(const Options& options_of_head, Random& random_source) : options(options_of_head), random(random_source) {}

  const Options options;
  Random& random;
  BootTime now{};         // Time of the event.
  BootTime started_at{};  // Start of the head.
  BootTime window_end{};  // Until then nodes and drivers of an earlier head may reconnect.
  Actions actions;
  LiveChanges changes;
  std::vector<std::string> bad_rows;  // Unreadable journal rows that start() skips.
  uint64_t version = 0;               // Version of the newest actor change; grows across restarts of the head.
  // Returns the stream of the host's node; nullopt if the host is unknown or its node is disconnected.
  std::function<std::optional<NodeSession>(HostId)> session_of;

  // Returns the next sequence number for a placement request; grows across restarts of the head.
  uint64_t next_sequence() { return ++sequence_; }
  void restore_sequence(uint64_t sequence) { sequence_ = std::max(sequence_, sequence); }

  // Adds a log line.
  void event(log::Level level, std::string text, std::vector<std::pair<std::string, std::string>> fields,
             Reason why = {}, std::string_view kind = {});
  // Writes a journal row; without a value, deletes it.
  void journal(std::string_view table, std::string key, std::optional<std::string> value);
  void send(NodeSession session, protocol::HeadToWorker message);
  // Drops messages to hosts on a disconnected node; the node receives the states its hosts watch when it reconnects.
  void send(const ClientRef& client, protocol::HeadMessage message);
  void reply_error(const ClientRef& client, const std::string& request_id, const Error& error);

 private:
  uint64_t sequence_ = 0;
};

}  // namespace volador::head
