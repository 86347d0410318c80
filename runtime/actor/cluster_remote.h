// ClusterSession's state of an actor and its connections. Private to ClusterSession (cluster_session.h), which
// documents the locking.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "runtime/actor/cluster_session.h"

namespace volador {

inline constexpr const char* kHasLeft = "this process has left the cluster";

// Connection to one incarnation. Calls are counted without the session's lock, so that replies need the lock only in
// special cases. A link lives while it is referenced and until its calls are answered; after retire() those calls share
// one reference.
struct ClusterSession::Link : std::enable_shared_from_this<ClusterSession::Link> {
  std::weak_ptr<ClusterSession> session;
  ActorId actor;
  uint64_t epoch = 0;
  std::shared_ptr<net::CallConnection> connection;  // Set before the first call.
  std::shared_ptr<SharedHostConnection> road;       // For an actor in a shared host: the shared connection.
  std::atomic<bool> proven{false};                  // A reply has arrived.

  size_t in_flight() const { return counted_.load() & ~kRetired; }  // Calls sent and not answered.
  bool is_retired() const { return (counted_.load() & kRetired) != 0; }
  // Call before sending, under the session's lock, as for retire().
  void count() { counted_.fetch_add(1); }
  // Records a reply. Returns the link itself if this was the last reply of a retired link; otherwise null, and the link
  // may be gone.
  std::shared_ptr<Link> settle() {
    return counted_.fetch_sub(1) == (kRetired | 1) ? std::move(until_settled_) : nullptr;
  }
  // Stops accepting calls. Call once.
  void retire() {
    until_settled_ = shared_from_this();
    if (counted_.fetch_or(kRetired) == 0) until_settled_ = nullptr;
  }

 private:
  static constexpr size_t kRetired = size_t{1} << 63;
  std::atomic<size_t> counted_{0};       // Calls in flight, and the kRetired flag.
  std::shared_ptr<Link> until_settled_;  // Set by retire(), released by the last settle().
};

// Connection shared by all actors of a shared host.
struct ClusterSession::SharedHostConnection {
  std::shared_ptr<net::CallConnection> connection;
  std::vector<std::weak_ptr<Link>> links;
  size_t links_enough = 64;  // Size at which expired links are removed.

  void add(const std::shared_ptr<Link>& link) {
    if (links.size() >= links_enough) {
      std::erase_if(links, [](const auto& one) { return one.expired(); });
      links_enough = std::max<size_t>(64, 2 * links.size());
    }
    links.push_back(link);
  }
  bool in_use() const {
    return std::any_of(links.begin(), links.end(), [](const auto& one) {
      const auto link = one.lock();
      return link && !link->is_retired();
    });
  }
};

// Completes a sent call when its reply arrives.
struct ClusterSession::Sent {
  Sent(Link& over, std::shared_ptr<Call> sent) : link(&over), call(std::move(sent)) {}
  Sent(Sent&&) noexcept = default;
  Sent(const Sent&) = delete;
  ~Sent() {  // Dropped by a loop that ended first.
    if (call) operator()(make_error(ErrorCode::kCancelled, kHasLeft));
  }
  void operator()(Result<std::string>&& result) { on_done(*link, std::exchange(call, nullptr), std::move(result)); }

  Link* link;  // Counts the call.
  std::shared_ptr<Call> call;
};

// State of one remote actor: its last report, link and calls.
struct ClusterSession::Remote {
  ~Remote() { retire_link(); }
  void retire_link() {
    if (!link) return;
    link->retire();
    retired.push_back(std::move(link));
    link = nullptr;
  }

  ActorId id;
  std::optional<protocol::ActorInfo> info;
  std::shared_ptr<Link> link;
  std::vector<std::shared_ptr<Link>> retired;  // Links with unanswered calls, which later calls must not overtake.
  int failed_connects = 0;
  bool connect_timer = false;
  std::map<uint64_t, std::shared_ptr<Call>> waiting;  // By request id, which is the order of the calls.
  size_t waiting_bytes = 0;
  std::map<uint64_t, std::shared_ptr<Call>> held;  // Cut off after sending; the head's report determines their error.
  uint64_t held_epoch = 0;
  std::set<uint64_t> unanswered;  // Calls whose replies the host keeps for this process.
  std::set<uint64_t> cancelled;   // Cancelled calls on retired links; not retried.
  std::map<uint64_t, std::function<void(const ActorStatus&)>> listeners;
  std::shared_ptr<const void> pins;  // References of its constructor's arguments, held until it is dead.
};

}  // namespace volador
