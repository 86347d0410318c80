#include "runtime/actor/cluster_session.h"

#include <fmt/format.h>

#include <ctime>
#include <utility>

#include "runtime/actor/cluster_remote.h"
#include "runtime/actor/death_cause.h"
#include "runtime/log.h"
#include "runtime/protocol/error_info.h"
#include "runtime/protocol/resource_map.h"
#include "runtime/quantities.h"
#include "runtime/standard_streams.h"
#include "runtime/store/store_client.h"

namespace volador {

using std::chrono::milliseconds;

struct ClusterSession::Ask {
  protocol::ClientMessage message;
  std::optional<protocol::Reply> reply;
  std::function<void(Result<protocol::Reply>)> done;  // Replaces a blocking waiter.
};

namespace {

// Formats local time: "2026-11-23 14:02:11".
std::string clock_text(int64_t unix_ms) {
  const auto seconds = static_cast<std::time_t>(unix_ms / 1000);
  std::tm parts{};
  ::localtime_r(&seconds, &parts);
  char buffer[32];
  return std::string(buffer, std::strftime(buffer, sizeof buffer, "%Y-%m-%d %H:%M:%S", &parts));
}

Result<void> outcome_of(const protocol::Reply& reply) {
  if (reply.error().code() == 0) return {};
  return make_error(protocol::error_from(reply.error()));
}

}  // namespace

ClusterSession::ClusterSession(ClusterSessionOptions options)
    : options_(std::move(options)),
      caller_(new_id<net::CallerId>(*options_.random)),
      store_path_(options_.store_path) {}

ClusterSession::~ClusterSession() { close(); }

void ClusterSession::run(DeferredCallbacks& later) {
  for (auto& function : later) function();
  later.clear();
}

void ClusterSession::on_connected() {
  std::vector<protocol::ClientMessage> messages;
  {
    const std::lock_guard hold(mutex_);
    if (closed_) return;
    connected_ = true;
    lost_.reset();
    outages_.back(options_.clock->now());
    if (options_.hello) {
      protocol::ClientMessage message;
      *message.mutable_hello() = *options_.hello;
      messages.push_back(std::move(message));
    }
    for (auto& [id, asked] : asks_) messages.push_back(asked->message);
    for (auto& [id, remote] : remotes_) {
      // A restarted head counts versions from the start.
      if (remote->info) remote->info->set_version(0);
      protocol::ClientMessage message;
      message.mutable_watch()->set_actor_id(raw(id));
      messages.push_back(std::move(message));
    }
    if (has_lent_) messages.emplace_back().mutable_waits()->set_waits(lending_);
    for (const auto& update : unkept_.all()) *messages.emplace_back().mutable_experiment() = update;
  }
  for (auto& message : messages) options_.send(std::move(message));
  std::shared_ptr<HandleHolds> known;
  {
    const std::lock_guard<std::mutex> hold(holds_mutex_);
    known = holds_;
  }
  if (known) known->tell_all();
}

void ClusterSession::on_lost(const Error& error) {
  bool shut_out = false;
  {
    const std::lock_guard hold(mutex_);
    shut_out = error.code == ErrorCode::kUnauthenticated && welcomed_ && !closed_;
  }
  if (shut_out) {
    log::error("driver", "the cluster lets this program in no more", {{"error", error.message}});
    leave(error);
  }
  const std::lock_guard hold(mutex_);
  if (connected_) outages_.lost(options_.clock->now());
  connected_ = false;
  lost_ = error;
  changed_.notify_all();
}

std::chrono::nanoseconds ClusterSession::time_without_head() {
  const std::lock_guard hold(mutex_);
  return outages_.total(options_.clock->now());
}

Result<void> ClusterSession::wait_welcome(milliseconds timeout) {
  std::unique_lock hold(mutex_);
  const bool heard = changed_.wait_for(hold, timeout, [this] { return welcomed_ || refused_ || closed_; });
  if (refused_) return make_error(*refused_);
  if (!heard || !welcomed_) {
    return make_error(ErrorCode::kUnavailable,
                      lost_ ? lost_->message : fmt::format("the head did not answer within {} ms", timeout.count()));
  }
  return {};
}

void ClusterSession::close() {
  if (leave({ErrorCode::kCancelled, kHasLeft})) say_goodbye();
}

void ClusterSession::say_goodbye() {
  if (!options_.hello) return;
  protocol::ClientMessage message;
  message.mutable_goodbye();
  options_.send(std::move(message));
}

// The head shuts down permanently and waits briefly for the goodbye.
void ClusterSession::on_stopped(const protocol::ClusterStopped& stopped) {
  const Error why{ErrorCode::kCancelled,
                  fmt::format("the cluster {} was stopped{}{}; it does not come back", cluster_name(),
                              stopped.wall_ms() == 0 ? "" : " at " + clock_text(stopped.wall_ms()),
                              stopped.by().empty() ? "" : " by " + stopped.by())};
  if (!leave(why)) return;
  log::warn("driver", "the cluster was stopped", {{"by", stopped.by()}});
  say_goodbye();
}

std::optional<Error> ClusterSession::left() {
  const std::lock_guard hold(mutex_);
  return closed_;
}

// Ends all pending and later requests with `why`. Returns false if already called.
bool ClusterSession::leave(const Error& why) {
  DeferredCallbacks later;
  std::vector<std::shared_ptr<net::CallConnection>> connections;
  {
    const std::lock_guard hold(mutex_);
    if (closed_) return false;
    closed_ = why;
    for (auto& [id, remote] : remotes_) {
      fail_all(*remote, why, later);
      remote->retire_link();
      for (const auto& link : remote->retired) connections.push_back(link->connection);
      remote->retired.clear();
      remote->listeners.clear();
    }
    for (auto& [id, asked] : asks_) {
      if (asked->done) later.push_back([done = std::move(asked->done), why] { done(make_error(why)); });
    }
    asks_.clear();
    for (auto& done : rebuilds_.take_all())
      later.push_back([done = std::move(done), why] { done(make_error(ErrorCode::kObjectLost, why.message)); });
    changed_.notify_all();
  }
  run(later);
  for (auto& connection : connections) connection->close();
  {
    std::shared_ptr<ObjectStore> objects;
    const std::lock_guard<std::mutex> hold(objects_mutex_);
    objects.swap(objects_);
  }
  return true;
}

// ---- requests to the head ----

// Adds the sender's host id to requests that belong to one actor of a shared host.
void ClusterSession::sign(protocol::ClientMessage& message) const {
  if (options_.asking_host &&
      (message.has_spawn() || message.has_find() || message.has_checkpoint() || message.has_create_group())) {
    message.set_from_host(options_.asking_host());
  }
}

Result<protocol::Reply> ClusterSession::ask(const RequestId& id, protocol::ClientMessage message) {
  sign(message);
  auto asked = std::make_shared<Ask>();
  asked->message = std::move(message);
  {
    const std::lock_guard hold(mutex_);
    if (closed_) return make_error(*closed_);
    asks_[id] = asked;
  }
  options_.send(asked->message);
  std::unique_lock hold(mutex_);
  const bool answered =
      changed_.wait_for(hold, options_.head_patience, [&] { return asked->reply.has_value() || closed_; });
  asks_.erase(id);
  if (asked->reply) {
    VOLADOR_TRY(outcome_of(*asked->reply));
    return std::move(*asked->reply);
  }
  if (answered) return make_error(*closed_);
  return make_error(
      ErrorCode::kUnknownOutcome,
      fmt::format("the head did not answer within {} s{}; the request may be done: ask again, repeating it is harmless",
                  options_.head_patience.count() / 1000, lost_ ? " (" + lost_->message + ")" : ""));
}

void ClusterSession::ask_later(const RequestId& id, protocol::ClientMessage message,
                               std::function<void(Result<protocol::Reply>)> answer) {
  sign(message);
  auto asked = std::make_shared<Ask>();
  asked->message = std::move(message);
  asked->done = std::move(answer);
  std::optional<Error> refusal;
  {
    const std::lock_guard hold(mutex_);
    if (closed_) {
      refusal = *closed_;
    } else if (asks_.size() >= options_.asks_max) {
      refusal =
          Error{ErrorCode::kUnavailable,
                fmt::format("{} for the head, its limit; wait for some of them",
                            counted(asks_.size(), "request of this process waits", "requests of this process wait"))};
    } else {
      asks_[id] = asked;
    }
  }
  if (refusal) return asked->done(make_error(*refusal));
  options_.send(asked->message);
}

// Sent under its own lock, so that the last message matches the final state.
void ClusterSession::lend_cpus(bool lend) {
  const std::lock_guard<std::mutex> in_order(lending_mutex_);
  {
    const std::lock_guard hold(mutex_);
    if (closed_ || lending_ == lend) return;
    lending_ = lend;
    has_lent_ = true;
  }
  protocol::ClientMessage message;
  message.mutable_waits()->set_waits(lend);
  options_.send(std::move(message));
}

std::shared_ptr<GroupSession> ClusterSession::groups() {
  const std::lock_guard<std::mutex> hold(objects_mutex_);
  if (groups_) return groups_;
  ClusterGroups::Options options{.random = options_.random,
                                 .driver = options_.driver,
                                 .program_sha256 = options_.program_sha256,
                                 .ask = {},
                                 .patience = options_.head_patience};
  options.ask = [weak = weak_from_this()](const RequestId& id, protocol::ClientMessage message,
                                          std::function<void(Result<protocol::Reply>)> answer) {
    const auto self = weak.lock();
    if (!self) return answer(make_error(ErrorCode::kCancelled, kHasLeft));
    self->ask_later(id, std::move(message), std::move(answer));
  };
  groups_ = std::make_shared<ClusterGroups>(std::move(options));
  return groups_;
}

std::shared_ptr<ObjectStore> ClusterSession::objects() {
  const std::lock_guard<std::mutex> hold(objects_mutex_);
  if (!objects_) {
    StoreClientOptions options;
    options.who = options_.who;
    options.on_lost = options_.on_store_lost;
    options.find_store = [weak = weak_from_this()]() -> Result<std::string> {
      const auto self = weak.lock();
      if (!self) return make_error(ErrorCode::kUnavailable, kHasLeft);
      const std::lock_guard in_session(self->mutex_);
      if (self->closed_) return make_error(ErrorCode::kUnavailable, self->closed_->message);
      if (!self->store_path_.empty()) return self->store_path_;
      return make_error(
          ErrorCode::kUnavailable,
          "large objects need a worker of the cluster on this machine: run `volador start --address=… --token=…` here");
    };
    objects_ = std::make_shared<StoreClient>(std::move(options));
    uses_objects_.store(true, std::memory_order_release);
  }
  return objects_;
}

void ClusterSession::keep_checkpoint(protocol::Checkpoint checkpoint, std::function<void(Result<void>)> done) {
  const auto request = new_id<RequestId>(*options_.random);
  auto asked = std::make_shared<Ask>();
  asked->message.mutable_checkpoint()->set_request_id(raw(request));
  *asked->message.mutable_checkpoint()->mutable_checkpoint() = std::move(checkpoint);
  sign(asked->message);
  asked->done = [done = std::move(done)](const Result<protocol::Reply>& reply) {
    done(reply ? Result<void>() : make_error(reply.error()));
  };
  {
    const std::lock_guard hold(mutex_);
    if (closed_) return;  // The process ends.
    asks_[request] = asked;
  }
  options_.send(asked->message);
}

// ---- messages from the head ----

void ClusterSession::on_message(const protocol::HeadMessage& message) {
  DeferredCallbacks later;
  switch (message.kind_case()) {
    case protocol::HeadMessage::kWelcome: {
      bool again = false;
      {
        const std::lock_guard hold(mutex_);
        welcomed_ = true;
        // Empty: a shared host is to resend its requests, nothing else.
        if (!message.welcome().cluster_name().empty()) {
          cluster_name_ = message.welcome().cluster_name();
          totals_.total = resources_of(message.welcome().total());
          totals_.nodes = message.welcome().nodes();
        }
        if (!message.welcome().store_socket().empty()) store_path_ = message.welcome().store_socket();
        again = !options_.hello;  // A host's worker forwards Welcome when the head is back: resend what may be lost.
        changed_.notify_all();
      }
      if (again) on_connected();
      break;
    }
    case protocol::HeadMessage::kRefused: {
      const std::lock_guard hold(mutex_);
      refused_ = Error{error_code_from(static_cast<int64_t>(message.refused().code())), message.refused().message()};
      changed_.notify_all();
      break;
    }
    case protocol::HeadMessage::kReply: {
      const std::lock_guard hold(mutex_);
      const auto found = asks_.find(id_from_raw<RequestId>(message.reply().request_id()));
      if (found == asks_.end() || found->second->reply) break;
      if (found->second->done) {
        const auto outcome = outcome_of(message.reply());
        later.push_back([done = std::move(found->second->done),
                         reply = outcome ? Result<protocol::Reply>(message.reply()) : make_error(outcome.error())] {
          done(reply);
        });
        asks_.erase(found);
        break;
      }
      found->second->reply = message.reply();
      changed_.notify_all();
      break;
    }
    case protocol::HeadMessage::kActor: {
      const std::lock_guard hold(mutex_);
      apply(message.actor(), later);
      break;
    }
    case protocol::HeadMessage::kLog: {
      std::function<void(const LogLine&)> receiver;
      {
        const std::lock_guard hold(mutex_);
        receiver = log_receiver_;
      }
      LogLine line;
      line.actor = id_from_raw<ActorId>(message.log().actor_id());
      line.display = message.log().display();
      line.node_name = message.log().node_name();
      line.is_stderr = message.log().is_stderr();
      const auto emit = [&](std::string text) {
        line.text = std::move(text);
        if (receiver) {
          receiver(line);
        } else {
          write_to_stderr(fmt::format("({}, node {}) {}\n", line.display, line.node_name, line.text));
        }
      };
      if (message.log().dropped() > 0)
        emit(fmt::format("… {} left out by the rate limit; see the node's log files",
                         counted(message.log().dropped(), "line")));
      for (const std::string& text : message.log().lines()) emit(text);
      break;
    }
    case protocol::HeadMessage::kRequest: {
      std::function<void(const ExperimentRequest&)> receiver;
      {
        const std::lock_guard hold(mutex_);
        const auto found = request_receivers_.find(message.request().experiment());
        if (found != request_receivers_.end()) receiver = found->second;
      }
      const protocol::ExperimentRequest& request = message.request();
      if (receiver) receiver({request.act(), request.trial(), request.config(), request.request_id()});
      break;
    }
    case protocol::HeadMessage::kRebuild:
      on_rebuild(message.rebuild());
      break;
    case protocol::HeadMessage::kRebuilt: {
      const std::lock_guard hold(mutex_);
      if (auto done = rebuilds_.take(message.rebuilt().request_id()))
        later.push_back([done = std::move(done), outcome = outcome_of(message.rebuilt())] { done(outcome); });
      break;
    }
    case protocol::HeadMessage::kEndLights:
      end_lights(message.end_lights());
      break;
    case protocol::HeadMessage::kStopped:
      on_stopped(message.stopped());
      break;
    case protocol::HeadMessage::kKept: {
      const std::lock_guard hold(mutex_);
      unkept_.kept(message.kept().experiment(), message.kept().number());
      break;
    }
    case protocol::HeadMessage::kNeedProgram:
      if (options_.upload_program) options_.upload_program(message.need_program().sha256());
      break;
    case protocol::HeadMessage::kReadRunFiles:
      if (options_.read_run_files) options_.read_run_files(message.read_run_files());
      break;
    case protocol::HeadMessage::kCluster: {
      const std::lock_guard hold(mutex_);
      totals_.total = resources_of(message.cluster().total());
      totals_.used = resources_of(message.cluster().used());
      totals_.nodes = message.cluster().nodes();
      totals_.waiting = message.cluster().waiting();
      store_path_ = message.cluster().store_socket();
      break;
    }
    default:
      break;
  }
  run(later);
}

void ClusterSession::apply(const protocol::ActorInfo& info, DeferredCallbacks& later) {
  const auto id = id_from_raw<ActorId>(info.actor_id());
  const auto found = remotes_.find(id);
  if (found == remotes_.end() || closed_) return;
  Remote& remote = *found->second;
  if (remote.info && (info.epoch() < remote.info->epoch() ||
                      (info.epoch() == remote.info->epoch() && info.version() < remote.info->version())))
    return;
  if (remote.info && remote.info->state() == protocol::DEAD) return;
  const bool is_new = !remote.info || remote.info->epoch() != info.epoch() || remote.info->version() != info.version();
  remote.info = info;

  const bool alive = info.state() == protocol::ALIVE;
  if (remote.link && (!alive || remote.link->epoch != info.epoch())) {
    // The incarnation of this connection has ended.
    retire_connection(remote);
  }
  if (info.state() == protocol::DEAD) {
    fail_all(remote, death_error(info), later);
    if (remote.pins) later.push_back([pins = std::exchange(remote.pins, nullptr)]() mutable { pins.reset(); });
  } else {
    count_retries(remote, later);
    if (!remote.held.empty() && (info.epoch() > remote.held_epoch || info.state() == protocol::RESTARTING))
      settle_held(remote, later);
    // A repeated report (after a failed connection) does not shorten the reconnect timer.
    if (alive && !remote.link && (is_new || !remote.connect_timer)) {
      remote.failed_connects = 0;
      connect(remote);
    }
  }
  if (!remote.listeners.empty()) {
    const ActorStatus status = status_of(remote);
    for (const auto& [number, listener] : remote.listeners) later.push_back([listener, status] { listener(status); });
  }
  changed_.notify_all();
}

}  // namespace volador
