// ClusterSession: queued and sent calls, and calls whose connection was lost.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/actor/cluster_remote.h"
#include "runtime/actor/death_cause.h"
#include "runtime/actor/light_home.h"
#include "runtime/quantities.h"

namespace volador {

ClusterSession::Remote& ClusterSession::remote(const ActorId& actor) {
  auto& entry = remotes_[actor];
  if (!entry) {
    entry = std::make_unique<Remote>();
    entry->id = actor;
    protocol::ClientMessage message;
    message.mutable_watch()->set_actor_id(raw(actor));
    options_.send(std::move(message));
  }
  return *entry;
}

void ClusterSession::watch(const ActorId& actor) {
  const std::lock_guard hold(mutex_);
  if (!closed_) remote(is_light(actor) ? home_of(actor) : actor);
}

void ClusterSession::start(std::shared_ptr<Call> call) {
  call->actor = is_light(call->target) ? home_of(call->target) : call->target;
  if (call->timeout.count() > 0) call->deadline = options_.clock->now() + call->timeout;
  DeferredCallbacks later;
  Link* link = nullptr;
  {
    const std::lock_guard hold(mutex_);
    call->request_id = next_request_++;
    if (closed_) {
      finish(call, make_error(*closed_), later);
    } else if (Remote& target = remote(call->actor); target.info && target.info->state() == protocol::DEAD) {
      finish(call, make_error(death_error(*target.info)), later);
    } else if (target.link && target.waiting.empty() && is_settled(target)) {
      link = target.link.get();
      prepare(target, *call);
      link->count();  // From here on no later call overtakes it.
    } else if (target.waiting.size() >= options_.waiting_calls_max ||
               (!target.waiting.empty() &&
                target.waiting_bytes + call->arguments.size() > options_.waiting_bytes_max)) {
      finish(call,
             make_error(ErrorCode::kUnavailable,
                        fmt::format("{} ({}) {} for actor {}, which is {}; the limit is {} or {}. Wait for some of "
                                    "them before you make more.",
                                    counted(target.waiting.size(), "call"),
                                    format_bytes(static_cast<int64_t>(target.waiting_bytes)),
                                    target.waiting.size() == 1 ? "waits" : "wait", short_id(call->target),
                                    to_string(status_of(target).state), counted(options_.waiting_calls_max, "call"),
                                    format_bytes(static_cast<int64_t>(options_.waiting_bytes_max)))),
             later);
    } else {
      wait_again(target, call);
    }
  }
  if (link != nullptr) transmit(*link, std::move(call));
  run(later);
}

// Requeues a call in its original order.
void ClusterSession::wait_again(Remote& remote, const std::shared_ptr<Call>& call) {
  remote.waiting_bytes += call->arguments.size();
  if (call->deadline && call->timer == 0) {
    call->timer = options_.loop->add_timer(*call->deadline,
                                           [weak = weak_from_this(), actor = remote.id, request = call->request_id] {
                                             if (const auto self = weak.lock()) self->expire(actor, request);
                                           });
  }
  remote.waiting.emplace(call->request_id, call);
}

// Called before sending: whether the host keeps the reply, and which replies are acknowledged.
void ClusterSession::prepare(Remote& remote, Call& call) {
  if (remote.info->max_task_retries() == 0 || !call.may_repeat) return;
  if (!call.kept) {
    call.kept = true;
    call.retries_left = remote.info->max_task_retries();
    remote.unanswered.insert(call.request_id);
  }
  call.sent_epoch = remote.link->epoch;
  call.acknowledged = *remote.unanswered.begin();
}

// Retries a call whose connection was lost: on the same incarnation, which runs it only once, or on the next one while
// retries are left.
void ClusterSession::make_again(Remote& remote, const std::shared_ptr<Call>& call, DeferredCallbacks& later) {
  const bool replaced = remote.info && remote.info->epoch() > call->sent_epoch;
  if (call->sent_epoch != 0 && replaced) {
    if (call->retries_left == 0) {
      const std::string why =
          remote.info->has_cause() ? death_error(*remote.info).message : std::string("its actor started anew");
      finish(call,
             make_error(
                 ErrorCode::kUnknownOutcome,
                 fmt::format("the call was sent, and may have been executed, but {}; max_task_retries ({}) is used up",
                             why, remote.info->max_task_retries())),
             later);
      return;
    }
    if (call->retries_left > 0) --call->retries_left;
    call->sent_epoch = 0;
  }
  wait_again(remote, call);
}

// Called for a new incarnation: each call that the old one may have run uses a retry.
void ClusterSession::count_retries(Remote& remote, DeferredCallbacks& later) {
  std::vector<std::shared_ptr<Call>> sent;
  for (const auto& [request, call] : remote.waiting) {
    if (call->sent_epoch != 0 && call->sent_epoch < remote.info->epoch()) sent.push_back(call);
  }
  for (const auto& call : sent) {
    remote.waiting_bytes -= call->arguments.size();
    remote.waiting.erase(call->request_id);
    make_again(remote, call, later);
  }
}

void ClusterSession::cancel(const ActorId& actor, uint64_t number) {
  DeferredCallbacks later;
  std::vector<std::shared_ptr<net::CallConnection>> connections;
  {
    const std::lock_guard hold(mutex_);
    const auto found = remotes_.find(is_light(actor) ? home_of(actor) : actor);
    if (found == remotes_.end()) return;
    Remote& remote = *found->second;
    if (const auto waiting = remote.waiting.find(number); waiting != remote.waiting.end()) {
      const auto call = waiting->second;
      remote.waiting_bytes -= call->arguments.size();
      remote.waiting.erase(waiting);
      finish(call,
             make_error(ErrorCode::kCancelled, call->sent_epoch != 0
                                                   ? "the call was cancelled by its caller; it may have been executed"
                                                   : "the call was cancelled by its caller before it was sent"),
             later);
    } else if (const auto held = remote.held.find(number); held != remote.held.end()) {
      const auto call = held->second;
      remote.held.erase(held);
      finish(call, make_error(ErrorCode::kCancelled, "the call was cancelled by its caller; it may have been executed"),
             later);
    } else {
      if (!is_settled(remote)) remote.cancelled.insert(number);
      if (remote.link) connections.push_back(remote.link->connection);
      for (const auto& link : remote.retired) connections.push_back(link->connection);
    }
  }
  run(later);
  for (const auto& connection : connections) connection->cancel(number);
}

void ClusterSession::give_back(const ActorId& actor) {
  std::shared_ptr<net::CallConnection> connection;
  {
    const std::lock_guard hold(mutex_);
    const auto found = remotes_.find(actor);
    if (found != remotes_.end() && found->second->link) connection = found->second->link->connection;
  }
  if (connection) connection->give_back();
}

bool ClusterSession::is_settled(Remote& remote) {
  std::erase_if(remote.retired, [](const std::shared_ptr<Link>& link) { return link->in_flight() == 0; });
  if (remote.retired.empty()) remote.cancelled.clear();
  return remote.retired.empty();
}

bool ClusterSession::has_calls(const ActorId& actor) {
  const std::lock_guard hold(mutex_);
  const auto found = remotes_.find(actor);
  if (found == remotes_.end()) return false;
  Remote& remote = *found->second;
  return !remote.waiting.empty() || !remote.held.empty() || !is_settled(remote) ||
         (remote.link && remote.link->in_flight() > 0);
}

bool ClusterSession::follow(const ActorId& actor) {
  const std::lock_guard hold(mutex_);
  if (closed_) return false;
  const Remote& known = remote(actor);
  return !known.info || known.info->ends_with_handles();
}

// The call is already counted on the link.
void ClusterSession::transmit(Link& link, std::shared_ptr<Call> call) {
  net::CallRequest request;
  request.request_id = call->request_id;
  request.actor = call->target;
  request.epoch = link.epoch;
  request.method = call->method;
  request.body = call->arguments;
  request.keep_answer = call->kept;
  request.acknowledged = call->acknowledged;
  if (call->deadline) request.timeout = std::max(std::chrono::nanoseconds(1), *call->deadline - options_.clock->now());
  const auto connection = link.connection;  // The reply may arrive, and the link end, before call() returns.
  connection->call(std::move(request), Sent(link, std::move(call)));
}

// Handles a reply. Most replies need no lock.
void ClusterSession::on_done(Link& link, const std::shared_ptr<Call>& call, Result<std::string>&& result) {
  // A reply that the host keeps is recorded under the lock.
  const bool executed = !call->kept && (result || (result.error().code != ErrorCode::kUnavailable &&
                                                   result.error().code != ErrorCode::kUnknownOutcome &&
                                                   result.error().code != ErrorCode::kCancelled));
  const auto self = executed && link.proven.load() ? nullptr : link.session.lock();
  if (self) return self->on_doubtful(link, call, std::move(result));
  const auto retired = link.settle();
  if (!std::exchange(call->ended, true)) call->on_end(std::move(result));
  if (!retired) return;
  if (const auto session = retired->session.lock()) session->go_on(retired->actor);
}

// Sends the calls that waited for those of an earlier connection.
void ClusterSession::go_on(const ActorId& actor) {
  const std::lock_guard hold(mutex_);
  const auto found = remotes_.find(actor);
  if (found != remotes_.end() && !closed_) flush(*found->second);
}

// Handles a call that may not have reached its actor, or the first reply of a link.
void ClusterSession::on_doubtful(Link& link, const std::shared_ptr<Call>& call, Result<std::string>&& result) {
  const auto keep = link.shared_from_this();
  DeferredCallbacks later;
  {
    const std::lock_guard hold(mutex_);
    link.settle();  // Under the lock, so that no call overtakes one that is requeued.
    const auto found = remotes_.find(link.actor);
    if (found == remotes_.end() || closed_) {
      finish(call, std::move(result), later);
    } else {
      Remote& remote = *found->second;
      const bool dead = remote.info && remote.info->state() == protocol::DEAD;
      const bool current = remote.link.get() == &link;
      // kCancelled by our own close() of an ended incarnation's connection is handled as a lost connection.
      const bool dropped = !result && result.error().code == ErrorCode::kCancelled && !current &&
                           remote.cancelled.erase(call->request_id) == 0;
      if (!result && result.error().code == ErrorCode::kUnavailable && !dead) {
        wait_again(remote, call);  // Not executed: waits for the next connection at its old position.
        if (current) lose_connection(remote);
      } else if (!result && result.error().code == ErrorCode::kUnavailable && link.road) {
        // A shared host reports that an ended actor has not run the call.
        finish(call, make_error(death_error(*remote.info)), later);
      } else if (!result && call->kept && !dead && (result.error().code == ErrorCode::kUnknownOutcome || dropped)) {
        make_again(remote, call, later);
        if (current) lose_connection(remote);
      } else if (!result && (result.error().code == ErrorCode::kUnknownOutcome || dropped)) {
        if (dead) {
          finish(call, make_error(death_error(*remote.info)), later);
        } else {
          await_verdict(remote, call, dropped, later);
        }
      } else {
        remote.failed_connects = 0;
        link.proven.store(true);
        finish(call, std::move(result), later);
      }
      flush(remote);
    }
  }
  run(later);
}

void ClusterSession::await_verdict(Remote& remote, const std::shared_ptr<Call>& call, bool dropped,
                                   DeferredCallbacks& later) {
  remote.held.emplace(call->request_id, call);
  if (remote.held.size() == 1) {
    options_.loop->add_timer(options_.clock->now() + options_.verdict_patience,
                             [weak = weak_from_this(), actor = remote.id] {
                               const auto self = weak.lock();
                               if (!self) return;
                               DeferredCallbacks expired;
                               {
                                 const std::lock_guard again(self->mutex_);
                                 if (const auto it = self->remotes_.find(actor); it != self->remotes_.end())
                                   self->settle_held(*it->second, expired);
                               }
                               run(expired);
                             });
  }
  const uint64_t connected_epoch = remote.link ? remote.link->epoch : 0;
  const bool replaced =
      remote.info && remote.info->epoch() > remote.held_epoch && remote.info->epoch() > connected_epoch;
  if (dropped || replaced) settle_held(remote, later);
}

void ClusterSession::settle_held(Remote& remote, DeferredCallbacks& later) {
  std::string why = "the connection to its host was lost";
  if (remote.info && remote.info->has_cause() &&
      remote.info->cause().kind() != protocol::DeathCause::KIND_UNSPECIFIED) {
    why = death_error(*remote.info).message;
  }
  auto held = std::move(remote.held);
  remote.held.clear();
  for (auto& [request, call] : held) {
    finish(call,
           make_error(ErrorCode::kUnknownOutcome,
                      fmt::format("the call was sent, and may have been executed, but {}", why)),
           later);
  }
}

void ClusterSession::fail_all(Remote& remote, const Error& error, DeferredCallbacks& later) {
  auto waiting = std::move(remote.waiting);
  auto held = std::move(remote.held);
  remote.waiting.clear();
  remote.held.clear();
  remote.waiting_bytes = 0;
  for (auto& [request, call] : held) finish(call, make_error(error), later);
  for (auto& [request, call] : waiting) finish(call, make_error(error), later);
}

void ClusterSession::finish(const std::shared_ptr<Call>& call, Result<std::string> result, DeferredCallbacks& later) {
  if (std::exchange(call->ended, true)) return;
  if (call->kept) {
    if (const auto found = remotes_.find(call->actor); found != remotes_.end())
      found->second->unanswered.erase(call->request_id);
  }
  if (call->timer != 0) options_.loop->cancel_timer(std::exchange(call->timer, 0));
  later.push_back([call, result = std::move(result)]() mutable { call->on_end(std::move(result)); });
}

void ClusterSession::expire(const ActorId& actor, uint64_t request_id) {
  DeferredCallbacks later;
  {
    const std::lock_guard hold(mutex_);
    const auto found = remotes_.find(actor);
    if (found == remotes_.end()) return;
    Remote& remote = *found->second;
    const auto waiting = remote.waiting.find(request_id);
    if (waiting == remote.waiting.end()) return;
    const auto call = waiting->second;
    call->timer = 0;
    remote.waiting_bytes -= call->arguments.size();
    remote.waiting.erase(waiting);
    const ActorStatus status = status_of(remote);
    finish(call,
           make_error(ErrorCode::kTimeout,
                      fmt::format("the call's timeout passed before actor {} could be reached: it is {}{}; the call {}",
                                  short_id(actor), to_string(status.state),
                                  status.reason.empty() ? "" : " (" + status.reason + ")",
                                  call->sent_epoch != 0 ? "may have been executed" : "was not executed")),
           later);
  }
  run(later);
}

}  // namespace volador
