// What a session knows of an actor, and of the ways to it. Private to it (cluster_session.h); what of it is guarded by whom is said there.
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

// The way to one incarnation. Calls are counted without the session's lock, so that their answers need it only where something else
// hangs on them. It lives as long as somebody has it, and until its calls are answered; these share one reference, which it gets when it is
// retired.
struct ClusterSession::Link : std::enable_shared_from_this<ClusterSession::Link> {
  std::weak_ptr<ClusterSession> session;
  ActorId actor;
  uint64_t epoch = 0;
  std::shared_ptr<net::CallConnection> connection;  // Fixed before the first call.
  std::shared_ptr<Road> road;                       // Of an actor in a shared host: whose connection it is.
  std::atomic<bool> proven{false};                  // Has brought an answer.

  size_t in_flight() const { return counted_.load() & ~kRetired; }  // Sent on it, unanswered.
  bool is_retired() const { return (counted_.load() & kRetired) != 0; }
  // Under the session's lock, as retire(): a call is about to be sent.
  void count() { counted_.fetch_add(1); }
  // An answer came. Itself where it was the last one of a retired link; else it may be gone.
  std::shared_ptr<Link> settle() { return counted_.fetch_sub(1) == (kRetired | 1) ? std::move(until_settled_) : nullptr; }
  // Takes no more calls. Once.
  void retire() {
    until_settled_ = shared_from_this();
    if (counted_.fetch_or(kRetired) == 0) until_settled_ = nullptr;
  }

 private:
  static constexpr size_t kRetired = size_t{1} << 63;
  std::atomic<size_t> counted_{0};       // What is in flight, and kRetired.
  std::shared_ptr<Link> until_settled_;  // Of retire(), then of whoever settles last.
};

// One connection for all actors of a shared host.
struct ClusterSession::Road {
  std::shared_ptr<net::CallConnection> connection;
  std::vector<std::weak_ptr<Link>> links;
  size_t links_enough = 64;  // Then those that are gone are taken out.

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

// Takes the answer of a call that was sent.
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
  std::vector<std::shared_ptr<Link>> retired;  // Links with unanswered calls: until they are settled, nothing may overtake them.
  int failed_connects = 0;
  bool connect_timer = false;
  std::map<uint64_t, std::shared_ptr<Call>> waiting;  // By request id: the order in which they were made.
  size_t waiting_bytes = 0;
  std::map<uint64_t, std::shared_ptr<Call>> held;  // Cut off after they were sent; the head's word decides their error.
  uint64_t held_epoch = 0;
  std::set<uint64_t> unanswered;  // Calls whose answers a host keeps for us.
  std::set<uint64_t> cancelled;   // While links are retired: calls on them that are not to go again.
  std::map<uint64_t, std::function<void(const ActorStatus&)>> listeners;
  std::shared_ptr<const void> pins;  // What its constructor's arguments refer to, until it is dead.
};

}  // namespace volador
