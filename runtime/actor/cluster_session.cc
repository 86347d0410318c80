#include "runtime/actor/cluster_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <deque>
#include <set>

#include "runtime/actor/death_cause.h"
#include "runtime/actor/experiment_update.h"
#include "runtime/actor/light_home.h"
#include "runtime/log.h"
#include "runtime/protocol/node_wishes.h"
#include "runtime/protocol/resource_map.h"
#include "runtime/store/store_client.h"

namespace volador {

using std::chrono::milliseconds;

constexpr const char* kHasLeft = "this process has left the cluster";

// The way to one incarnation. Calls are counted without the session's lock, so that their answers need it only where something else
// hangs on them.
struct ClusterSession::Link {
  std::weak_ptr<ClusterSession> session;
  ActorId actor;
  uint64_t epoch = 0;
  std::shared_ptr<net::CallConnection> connection;  // Fixed before the first call.
  std::shared_ptr<Road> road;                       // Of an actor in a shared host: whose connection it is.
  std::atomic<size_t> in_flight{0};                 // Sent on it, unanswered.
  std::atomic<bool> retired{false};                 // Takes no more calls.
  std::atomic<bool> proven{false};                  // Has brought an answer.

  // An answer came. True: it was the last one of a retired link.
  bool settle() { return in_flight.fetch_sub(1) == 1 && retired.load(); }
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
      return link && !link->retired.load();
    });
  }
};

// Takes the answer of a call that was sent.
struct ClusterSession::Sent {
  Sent(std::shared_ptr<Link> over, std::shared_ptr<Call> sent) : link(std::move(over)), call(std::move(sent)) {}
  Sent(Sent&&) noexcept = default;
  Sent(const Sent&) = delete;
  ~Sent() {  // Dropped by a loop that ended first.
    if (call) operator()(make_error(ErrorCode::kCancelled, kHasLeft));
  }
  void operator()(Result<std::string> result) { on_done(link, std::exchange(call, nullptr), std::move(result)); }

  std::shared_ptr<Link> link;
  std::shared_ptr<Call> call;
};

struct ClusterSession::Remote {
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

struct ClusterSession::Ask {
  protocol::ClientMessage message;
  std::optional<protocol::Reply> reply;
  std::function<void(Result<protocol::Reply>)> done;  // Instead of somebody who waits for the reply.
};

namespace {

// "2026-11-23 14:02:11", as clocks of this machine have it.
std::string clock_text(int64_t unix_ms) {
  const auto seconds = static_cast<std::time_t>(unix_ms / 1000);
  std::tm parts{};
  ::localtime_r(&seconds, &parts);
  char buffer[32];
  return std::string(buffer, std::strftime(buffer, sizeof buffer, "%Y-%m-%d %H:%M:%S", &parts));
}

Result<void> outcome_of(const protocol::Reply& reply) {
  if (reply.error().code() == 0) return {};
  return make_error(error_code_from(static_cast<int64_t>(reply.error().code())), reply.error().message());
}

}  // namespace

ClusterSession::ClusterSession(ClusterSessionOptions options)
    : options_(std::move(options)), caller_(new_id<net::CallerId>(*options_.random)), store_path_(options_.store_path) {}

ClusterSession::~ClusterSession() { close(); }

void ClusterSession::run(Later& later) {
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
      // A restarted head counts versions anew.
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
    return make_error(ErrorCode::kUnavailable, lost_ ? lost_->message : fmt::format("the head did not answer within {} ms", timeout.count()));
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

// Its head ends for good, and waits a moment for the goodbye.
void ClusterSession::on_stopped(const protocol::ClusterStopped& stopped) {
  const Error why{ErrorCode::kCancelled, fmt::format("the cluster {} was stopped{}{}; it does not come back", cluster_name(), stopped.wall_ms() == 0 ? "" : " at " + clock_text(stopped.wall_ms()),
                                                     stopped.by().empty() ? "" : " by " + stopped.by())};
  if (!leave(why)) return;
  log::warn("driver", "the cluster was stopped", {{"by", stopped.by()}});
  say_goodbye();
}

std::optional<Error> ClusterSession::left() {
  const std::lock_guard hold(mutex_);
  return closed_;
}

// Once: whatever waits ends with `why`, and so does what is asked later. False: it was so before.
bool ClusterSession::leave(const Error& why) {
  Later later;
  std::vector<std::shared_ptr<net::CallConnection>> connections;
  {
    const std::lock_guard hold(mutex_);
    if (closed_) return false;
    closed_ = why;
    for (auto& [id, remote] : remotes_) {
      fail_all(*remote, why, later);
      if (remote->link) remote->retired.push_back(std::move(remote->link));
      for (const auto& link : remote->retired) connections.push_back(link->connection);
      remote->link = nullptr;
      remote->retired.clear();
      remote->listeners.clear();
    }
    for (auto& [id, asked] : asks_) {
      if (asked->done) later.push_back([done = std::move(asked->done), why] { done(make_error(why)); });
    }
    asks_.clear();
    for (auto& done : rebuilds_.take_all()) later.push_back([done = std::move(done), why] { done(make_error(ErrorCode::kObjectLost, why.message)); });
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

// What belongs to one actor of a shared host bears its name.
void ClusterSession::sign(protocol::ClientMessage& message) const {
  if (options_.asking_host && (message.has_spawn() || message.has_find() || message.has_checkpoint() || message.has_create_group())) {
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
  const bool answered = changed_.wait_for(hold, options_.head_patience, [&] { return asked->reply.has_value() || closed_; });
  asks_.erase(id);
  if (asked->reply) {
    VOLADOR_TRY(outcome_of(*asked->reply));
    return std::move(*asked->reply);
  }
  if (answered) return make_error(*closed_);
  return make_error(ErrorCode::kUnknownOutcome, fmt::format("the head did not answer within {} s{}; the request may be done: ask again, repeating it is harmless",
                                                            options_.head_patience.count() / 1000, lost_ ? " (" + lost_->message + ")" : ""));
}

void ClusterSession::ask_later(const RequestId& id, protocol::ClientMessage message, std::function<void(Result<protocol::Reply>)> answer) {
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
      refusal = Error{ErrorCode::kUnavailable, fmt::format("{} requests of this process wait for the head, its limit; wait for some of them", asks_.size())};
    } else {
      asks_[id] = asked;
    }
  }
  if (refusal) return asked->done(make_error(*refusal));
  options_.send(asked->message);
}

// Sent under a lock of its own: what the head hears last must be how it is.
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
  ClusterGroups::Options options{.random = options_.random, .driver = options_.driver, .program_sha256 = options_.program_sha256, .ask = {}, .patience = options_.head_patience};
  options.ask = [weak = weak_from_this()](const RequestId& id, protocol::ClientMessage message, std::function<void(Result<protocol::Reply>)> answer) {
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
    options.find_store = [weak = weak_from_this()]() -> Result<std::string> {
      const auto self = weak.lock();
      if (!self) return make_error(ErrorCode::kUnavailable, kHasLeft);
      const std::lock_guard in_session(self->mutex_);
      if (self->closed_) return make_error(ErrorCode::kUnavailable, self->closed_->message);
      if (!self->store_path_.empty()) return self->store_path_;
      return make_error(ErrorCode::kUnavailable, "large objects need a worker of the cluster on this machine: run `volador start --address=… --token=…` here");
    };
    objects_ = std::make_shared<StoreClient>(std::move(options));
    uses_objects_.store(true, std::memory_order_release);
  }
  return objects_;
}

bool ClusterSession::is_dead(const Remote& remote) { return remote.info && remote.info->state() == protocol::DEAD; }

Result<ActorId> ClusterSession::spawn(const SpawnRequest& request) {
  if (may_be_light(request)) return spawn_light(request);
  auto id = new_id<ActorId>(*options_.random);
  while (has_light_mark(id)) id = new_id<ActorId>(*options_.random);
  return spawn_as(id, request);
}

Result<ActorId> ClusterSession::spawn_as(const ActorId& id, const SpawnRequest& request) {
  protocol::ClientMessage message;
  auto& spawn = *message.mutable_spawn();
  spawn.set_request_id(raw(id));
  auto& spec = *spawn.mutable_spec();
  spec.set_actor_id(raw(id));
  spec.set_class_name(request.class_name);
  spec.set_arguments(request.arguments);
  *spec.mutable_resources() = to_message(request.resources);
  spec.set_name(request.name);
  spec.set_namespace_(request.actor_namespace);
  spec.set_max_restarts(request.max_restarts);
  spec.set_detached(request.detached);
  spec.set_ends_with_handles(request.ends_with_handles && !request.detached);
  spec.set_priority(request.priority);
  spec.set_wait_if_infeasible(request.wait_if_infeasible);
  spec.set_driver_id(raw(options_.driver));
  spec.set_program_sha256(options_.program_sha256);
  if (!request.wishes.empty()) *spec.mutable_wishes() = to_message(request.wishes);
  if (!request.group.is_nil()) spec.set_group_id(raw(request.group));
  spec.set_bundle(request.bundle);
  for (const auto& [key, value] : request.env) (*spec.mutable_env())[key] = value;
  spec.set_display(request.display);
  spec.set_start_timeout_ms(request.start_timeout.count());
  spec.set_checkpoint_calls(request.checkpoint_calls);
  spec.set_checkpoint_interval_ms(request.checkpoint_interval.count());
  spec.set_max_concurrency(request.max_concurrency);
  spec.set_max_task_retries(request.max_task_retries);
  spec.set_retriable(request.retriable);
  spec.set_isolation(request.isolation == Isolation::kShared ? protocol::ISOLATION_SHARED : protocol::ISOLATION_PROCESS);
  if (request.health.method != 0) {
    auto& health = *spec.mutable_health_check();
    health.set_method(request.health.method);
    health.set_tells(request.health.tells);
    health.set_period_ms(request.health.period.count());
    health.set_timeout_ms(request.health.timeout.count());
    health.set_turn_timeout_ms(request.health.turn_timeout.count());
    health.set_failures(request.health.failures);
  }
  for (const SpawnRequest::ConcurrencyGroup& group : request.groups) {
    auto& one = *spec.add_concurrency_groups();
    one.set_name(group.name);
    one.set_threads(group.threads);
    one.mutable_methods()->Add(group.methods.begin(), group.methods.end());
  }
  {
    // Known before the head answers, so that no update is missed.
    const std::lock_guard hold(mutex_);
    auto& entry = remotes_[id];
    entry = std::make_unique<Remote>();
    entry->id = id;
    entry->pins = request.pins;
    add_opening(*entry, request.opening, spec);
  }
  const auto held = spec.ends_with_handles() ? holds()->hold_new(id) : nullptr;
  auto reply = ask(RequestId(id.bytes()), std::move(message));
  Later later;
  if (!reply) {
    const std::lock_guard hold(mutex_);
    if (reply.error().code != ErrorCode::kUnknownOutcome) remotes_.erase(id);
    return make_error(std::move(reply).error());
  }
  {
    const std::lock_guard hold(mutex_);
    if (!reply->actor().actor_id().empty()) apply(reply->actor(), later);
  }
  run(later);
  if (options_.asking_host) {  // The one that asked may end before others here are done with it.
    protocol::ClientMessage again;
    again.mutable_watch()->set_actor_id(raw(id));
    options_.send(std::move(again));
    if (held) holds()->pass_on(id, options_.asking_host());
  }
  return id;
}

// They travel with the order to start, and wait here for the address like any other: the host knows them again by their ids.
void ClusterSession::add_opening(Remote& remote, const std::vector<std::shared_ptr<OutgoingCall>>& calls, protocol::ActorSpec& spec) {
  if (calls.empty()) return;
  spec.set_opening_caller(raw(caller_));
  for (const auto& call : calls) {
    call->target = call->actor = remote.id;
    call->request_id = next_request_++;
    call->kept = true;
    auto& sent = *spec.add_opening();
    sent.set_request_id(call->request_id);
    sent.set_method(call->method);
    sent.set_arguments(call->arguments);
    wait_again(remote, call);
  }
}

Result<ActorId> ClusterSession::find(const std::string& name, const std::string& actor_namespace) {
  const auto request = new_id<RequestId>(*options_.random);
  protocol::ClientMessage message;
  message.mutable_find()->set_request_id(raw(request));
  message.mutable_find()->set_name(name);
  message.mutable_find()->set_namespace_(actor_namespace);
  auto reply = ask(request, std::move(message));
  if (!reply) return make_error(std::move(reply).error());
  const auto id = id_from_raw<ActorId>(reply->actor().actor_id());
  watch(id);
  return id;
}

namespace {

protocol::ClientMessage kill_message(const RequestId& request, const ActorId& actor, bool no_restart, milliseconds grace) {
  protocol::ClientMessage message;
  auto& kill = *message.mutable_kill();
  kill.set_request_id(raw(request));
  kill.set_actor_id(raw(actor));
  kill.set_no_restart(no_restart);
  kill.set_grace_ms(grace.count());
  return message;
}

}  // namespace

Result<void> ClusterSession::kill(const ActorId& actor, bool no_restart, milliseconds grace) {
  if (is_light(actor)) return kill_light(actor, grace);
  const auto request = new_id<RequestId>(*options_.random);
  return on_kill_reply(ask(request, kill_message(request, actor, no_restart, grace)));
}

void ClusterSession::kill_later(const ActorId& actor, bool no_restart, milliseconds grace, std::function<void(Result<void>)> done) {
  if (is_light(actor)) return done(kill_light(actor, grace));
  const auto request = new_id<RequestId>(*options_.random);
  ask_later(request, kill_message(request, actor, no_restart, grace),
            [weak = weak_from_this(), done = std::move(done)](Result<protocol::Reply> reply) {
              const auto self = weak.lock();
              done(self ? self->on_kill_reply(std::move(reply)) : make_error(ErrorCode::kCancelled, kHasLeft));
            });
}

Result<void> ClusterSession::on_kill_reply(Result<protocol::Reply> reply) {
  if (!reply) return make_error(std::move(reply).error());
  Later later;
  {
    // What the reply says the head tells this watcher no second time.
    const std::lock_guard hold(mutex_);
    if (!reply->actor().actor_id().empty()) apply(reply->actor(), later);
  }
  run(later);
  return {};
}

void ClusterSession::keep_checkpoint(protocol::Checkpoint checkpoint, std::function<void(Result<void>)> done) {
  const auto request = new_id<RequestId>(*options_.random);
  auto asked = std::make_shared<Ask>();
  asked->message.mutable_checkpoint()->set_request_id(raw(request));
  *asked->message.mutable_checkpoint()->mutable_checkpoint() = std::move(checkpoint);
  sign(asked->message);
  asked->done = [done = std::move(done)](const Result<protocol::Reply>& reply) { done(reply ? Result<void>() : make_error(reply.error())); };
  {
    const std::lock_guard hold(mutex_);
    if (closed_) return;  // The process ends.
    asks_[request] = asked;
  }
  options_.send(asked->message);
}

// ---- messages from the head ----

void ClusterSession::on_message(const protocol::HeadMessage& message) {
  Later later;
  switch (message.kind_case()) {
    case protocol::HeadMessage::kWelcome: {
      bool again = false;
      {
        const std::lock_guard hold(mutex_);
        welcomed_ = true;
        if (!message.welcome().cluster_name().empty()) {  // Empty: a shared host is to ask again, nothing else.
          cluster_name_ = message.welcome().cluster_name();
          totals_.total = resources_of(message.welcome().total());
          totals_.nodes = message.welcome().nodes();
        }
        if (!message.welcome().store_socket().empty()) store_path_ = message.welcome().store_socket();
        again = !options_.hello;  // A host's worker says so when its head is back: repeat what may be lost.
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
        later.push_back([done = std::move(found->second->done), reply = outcome ? Result<protocol::Reply>(message.reply()) : make_error(outcome.error())] { done(reply); });
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
          fmt::print(stderr, "({}, node {}) {}\n", line.display, line.node_name, line.text);
        }
      };
      if (message.log().dropped() > 0) emit(fmt::format("… {} lines left out by the rate limit; the node's log files have them", message.log().dropped()));
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
    case protocol::HeadMessage::kRebuild: on_rebuild(message.rebuild()); break;
    case protocol::HeadMessage::kRebuilt: {
      const std::lock_guard hold(mutex_);
      if (auto done = rebuilds_.take(message.rebuilt().request_id())) later.push_back([done = std::move(done), outcome = outcome_of(message.rebuilt())] { done(outcome); });
      break;
    }
    case protocol::HeadMessage::kEndLights: end_lights(message.end_lights()); break;
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
    default: break;
  }
  run(later);
}

void ClusterSession::apply(const protocol::ActorInfo& info, Later& later) {
  const auto id = id_from_raw<ActorId>(info.actor_id());
  const auto found = remotes_.find(id);
  if (found == remotes_.end() || closed_) return;
  Remote& remote = *found->second;
  if (remote.info && (info.epoch() < remote.info->epoch() || (info.epoch() == remote.info->epoch() && info.version() < remote.info->version()))) return;
  if (remote.info && remote.info->state() == protocol::DEAD) return;
  const bool is_new = !remote.info || remote.info->epoch() != info.epoch() || remote.info->version() != info.version();
  remote.info = info;

  const bool alive = info.state() == protocol::ALIVE;
  if (remote.link && (!alive || remote.link->epoch != info.epoch())) {
    // The incarnation behind this connection is gone.
    retire_connection(remote);
  }
  if (info.state() == protocol::DEAD) {
    fail_all(remote, death_error(info), later);
    if (remote.pins) later.push_back([pins = std::exchange(remote.pins, nullptr)]() mutable { pins.reset(); });
  } else {
    count_retries(remote, later);
    if (!remote.held.empty() && (info.epoch() > remote.held_epoch || info.state() == protocol::RESTARTING)) settle_held(remote, later);
    // What the head says again, as after a connection that failed, is no reason to try sooner than the timer does.
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

// ---- calls ----

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
  Later later;
  std::shared_ptr<Link> link;
  {
    const std::lock_guard hold(mutex_);
    call->request_id = next_request_++;
    if (closed_) {
      finish(call, make_error(*closed_), later);
    } else if (Remote& target = remote(call->actor); target.info && target.info->state() == protocol::DEAD) {
      finish(call, make_error(death_error(*target.info)), later);
    } else if (target.link && target.waiting.empty() && is_settled(target)) {
      link = target.link;
      prepare(target, *call);
      ++link->in_flight;  // From here on nothing that comes later overtakes it.
    } else if (target.waiting.size() >= options_.waiting_calls_max || (!target.waiting.empty() && target.waiting_bytes + call->arguments.size() > options_.waiting_bytes_max)) {
      finish(call,
             make_error(ErrorCode::kUnavailable,
                        fmt::format("{} calls ({}) wait for actor {}, which is {}; the limit is {} calls or {}. Wait for some of them before you make more.",
                                    target.waiting.size(), format_bytes(static_cast<int64_t>(target.waiting_bytes)), short_id(call->target),
                                    to_string(status_of(target).state), options_.waiting_calls_max, format_bytes(static_cast<int64_t>(options_.waiting_bytes_max)))),
             later);
    } else {
      wait_again(target, call);
    }
  }
  if (link) transmit(std::move(link), std::move(call));
  run(later);
}

// It stands among the waiting calls in the order in which they were made.
void ClusterSession::wait_again(Remote& remote, const std::shared_ptr<Call>& call) {
  remote.waiting_bytes += call->arguments.size();
  if (call->deadline && call->timer == 0) {
    call->timer = options_.loop->add_timer(*call->deadline, [weak = weak_from_this(), actor = remote.id, request = call->request_id] {
      if (const auto self = weak.lock()) self->expire(actor, request);
    });
  }
  remote.waiting.emplace(call->request_id, call);
}

// Before it is sent: whether its answer is kept, and what we have of the others.
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

// A call that was cut off goes again: to the same incarnation, which runs it only once, or to the next one as often as it may.
void ClusterSession::make_again(Remote& remote, const std::shared_ptr<Call>& call, Later& later) {
  const bool replaced = remote.info && remote.info->epoch() > call->sent_epoch;
  if (call->sent_epoch != 0 && replaced) {
    if (call->retries_left == 0) {
      const std::string why = remote.info->has_cause() ? death_error(*remote.info).message : std::string("its actor started anew");
      finish(call, make_error(ErrorCode::kUnknownOutcome, fmt::format("the call was sent, and may have been executed, but {}; max_task_retries ({}) is used up", why,
                                                                      remote.info->max_task_retries())), later);
      return;
    }
    if (call->retries_left > 0) --call->retries_left;
    call->sent_epoch = 0;
  }
  wait_again(remote, call);
}

// A new incarnation: what the old one may have run costs a retry.
void ClusterSession::count_retries(Remote& remote, Later& later) {
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
  Later later;
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
      finish(call, make_error(ErrorCode::kCancelled, call->sent_epoch != 0 ? "the call was cancelled by its caller; the actor may have executed it"
                                                                            : "the call was cancelled by its caller before it was sent"), later);
    } else if (const auto held = remote.held.find(number); held != remote.held.end()) {
      const auto call = held->second;
      remote.held.erase(held);
      finish(call, make_error(ErrorCode::kCancelled, "the call was cancelled by its caller; the actor may have executed it"), later);
    } else {
      if (!is_settled(remote)) remote.cancelled.insert(number);
      if (remote.link) connections.push_back(remote.link->connection);
      for (const auto& link : remote.retired) connections.push_back(link->connection);
    }
  }
  run(later);
  for (const auto& connection : connections) connection->cancel(number);
}

bool ClusterSession::is_settled(Remote& remote) {
  std::erase_if(remote.retired, [](const std::shared_ptr<Link>& link) { return link->in_flight.load() == 0; });
  if (remote.retired.empty()) remote.cancelled.clear();
  return remote.retired.empty();
}

bool ClusterSession::has_calls(const ActorId& actor) {
  const std::lock_guard hold(mutex_);
  const auto found = remotes_.find(actor);
  if (found == remotes_.end()) return false;
  Remote& remote = *found->second;
  return !remote.waiting.empty() || !remote.held.empty() || !is_settled(remote) || (remote.link && remote.link->in_flight.load() > 0);
}

bool ClusterSession::follow(const ActorId& actor) {
  const std::lock_guard hold(mutex_);
  if (closed_) return false;
  const Remote& known = remote(actor);
  return !known.info || known.info->ends_with_handles();
}

// The call is counted on the link already.
void ClusterSession::transmit(std::shared_ptr<Link> link, std::shared_ptr<Call> call) {
  net::CallRequest request;
  request.request_id = call->request_id;
  request.actor = call->target;
  request.epoch = link->epoch;
  request.method = call->method;
  request.body = call->arguments;
  request.keep_answer = call->kept;
  request.acknowledged = call->acknowledged;
  if (call->deadline) request.timeout = std::max(std::chrono::nanoseconds(1), *call->deadline - options_.clock->now());
  const auto connection = link->connection;  // The answer may come, and let go of the link, before call() returns.
  connection->call(std::move(request), Sent(std::move(link), std::move(call)));
}

// Most answers concern nobody but their caller.
void ClusterSession::on_done(const std::shared_ptr<Link>& link, const std::shared_ptr<Call>& call, Result<std::string> result) {
  // An answer that its host keeps is noted under the lock.
  const bool executed = !call->kept && (result || (result.error().code != ErrorCode::kUnavailable && result.error().code != ErrorCode::kUnknownOutcome &&
                                        result.error().code != ErrorCode::kCancelled));
  const auto self = executed && link->proven.load() ? nullptr : link->session.lock();
  if (self) return self->on_doubtful(*link, call, std::move(result));
  const bool last_of_retired = link->settle();
  if (!std::exchange(call->ended, true)) call->on_end(std::move(result));
  if (!last_of_retired) return;
  if (const auto session = link->session.lock()) session->go_on(link->actor);
}

// The calls that waited for those of an earlier connection.
void ClusterSession::go_on(const ActorId& actor) {
  const std::lock_guard hold(mutex_);
  const auto found = remotes_.find(actor);
  if (found != remotes_.end() && !closed_) flush(*found->second);
}

// The call may not have reached its actor, or the answer is the first one of its link.
void ClusterSession::on_doubtful(Link& link, const std::shared_ptr<Call>& call, Result<std::string> result) {
  Later later;
  {
    const std::lock_guard hold(mutex_);
    link.settle();  // Under the lock: a call that goes back to the waiting ones is overtaken by none.
    const auto found = remotes_.find(link.actor);
    if (found == remotes_.end() || closed_) {
      finish(call, std::move(result), later);
    } else {
      Remote& remote = *found->second;
      const bool dead = remote.info && remote.info->state() == protocol::DEAD;
      const bool current = remote.link.get() == &link;
      // kCancelled by our own close() of a connection whose incarnation ended: the same as a lost one.
      const bool dropped = !result && result.error().code == ErrorCode::kCancelled && !current && remote.cancelled.erase(call->request_id) == 0;
      if (!result && result.error().code == ErrorCode::kUnavailable && !dead) {
        wait_again(remote, call);  // Not executed: it waits for the next connection, in its old place.
        if (current) lose_connection(remote);
      } else if (!result && result.error().code == ErrorCode::kUnavailable && link.road) {
        finish(call, make_error(death_error(*remote.info)), later);  // A shared host says of an actor that ended that it has not run it.
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

void ClusterSession::await_verdict(Remote& remote, const std::shared_ptr<Call>& call, bool dropped, Later& later) {
  remote.held.emplace(call->request_id, call);
  if (remote.held.size() == 1) {
    options_.loop->add_timer(options_.clock->now() + options_.verdict_patience, [weak = weak_from_this(), actor = remote.id] {
      const auto self = weak.lock();
      if (!self) return;
      Later expired;
      {
        const std::lock_guard again(self->mutex_);
        if (const auto it = self->remotes_.find(actor); it != self->remotes_.end()) self->settle_held(*it->second, expired);
      }
      run(expired);
    });
  }
  const uint64_t connected_epoch = remote.link ? remote.link->epoch : 0;
  const bool replaced = remote.info && remote.info->epoch() > remote.held_epoch && remote.info->epoch() > connected_epoch;
  if (dropped || replaced) settle_held(remote, later);
}

void ClusterSession::settle_held(Remote& remote, Later& later) {
  std::string why = "the connection to its host was lost";
  if (remote.info && remote.info->has_cause() && remote.info->cause().kind() != protocol::DeathCause::KIND_UNSPECIFIED) {
    why = death_error(*remote.info).message;
  }
  auto held = std::move(remote.held);
  remote.held.clear();
  for (auto& [request, call] : held) {
    finish(call, make_error(ErrorCode::kUnknownOutcome, fmt::format("the call was sent, and may have been executed, but {}", why)), later);
  }
}

void ClusterSession::fail_all(Remote& remote, const Error& error, Later& later) {
  auto waiting = std::move(remote.waiting);
  auto held = std::move(remote.held);
  remote.waiting.clear();
  remote.held.clear();
  remote.waiting_bytes = 0;
  for (auto& [request, call] : held) finish(call, make_error(error), later);
  for (auto& [request, call] : waiting) finish(call, make_error(error), later);
}

void ClusterSession::finish(const std::shared_ptr<Call>& call, Result<std::string> result, Later& later) {
  if (std::exchange(call->ended, true)) return;
  if (call->kept) {
    if (const auto found = remotes_.find(call->actor); found != remotes_.end()) found->second->unanswered.erase(call->request_id);
  }
  if (call->timer != 0) options_.loop->cancel_timer(std::exchange(call->timer, 0));
  later.push_back([call, result = std::move(result)]() mutable { call->on_end(std::move(result)); });
}

void ClusterSession::expire(const ActorId& actor, uint64_t request_id) {
  Later later;
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
           make_error(ErrorCode::kTimeout, fmt::format("the call's timeout passed before actor {} could be reached: it is {}{}; the call {}",
                                                       short_id(actor), to_string(status.state), status.reason.empty() ? "" : " (" + status.reason + ")",
                                                       call->sent_epoch != 0 ? "may have been executed" : "was not executed")),
           later);
  }
  run(later);
}

std::shared_ptr<net::CallConnection> ClusterSession::open(const Remote& remote, std::function<void(Error)> on_down) {
  const protocol::HostAddress& address = remote.info->address();
  net::ConnectionOptions connection;
  connection.caller = caller_;
  net::Endpoint endpoint;
  if (address.machine_id() == options_.machine_id) {
    if (options_.connect_here) {
      if (auto here = options_.connect_here(address.unix_path(), connection, on_down)) return here;
    }
    endpoint = net::UnixEndpoint{address.unix_path()};
  } else {
    net::TlsEndpoint tls;
    const std::string& where = address.tcp_address();
    const size_t colon = where.rfind(':');
    tls.host = where.substr(0, colon);
    if (tls.host.size() > 2 && tls.host.front() == '[') tls.host = tls.host.substr(1, tls.host.size() - 2);
    tls.port = colon == std::string::npos ? uint16_t{0} : static_cast<uint16_t>(std::strtoul(where.c_str() + colon + 1, nullptr, 10));
    tls.server_name = to_string(id_from_raw<HostId>(address.host_id()));
    tls.tls = options_.tls;
    endpoint = std::move(tls);
  }
  return net::CallConnection::connect(*options_.loop, std::move(endpoint), connection, std::move(on_down));
}

void ClusterSession::connect(Remote& remote) {
  const auto link = std::make_shared<Link>();
  link->session = weak_from_this();
  link->actor = remote.id;
  link->epoch = remote.info->epoch();
  if (remote.info->isolation() == protocol::ISOLATION_SHARED) {
    link->road = road_to(remote);
    link->road->add(link);
    link->connection = link->road->connection;
  } else {
    link->connection = open(remote, [weak = std::weak_ptr<Link>(link)](const Error& error) {
      const auto lost = weak.lock();
      const auto self = lost ? lost->session.lock() : nullptr;
      if (self) self->on_down(*lost, error);
    });
  }
  remote.link = link;
  flush(remote);
}

std::shared_ptr<ClusterSession::Road> ClusterSession::road_to(const Remote& remote) {
  const auto host = id_from_raw<HostId>(remote.info->address().host_id());
  if (auto there = roads_[host].lock()) return there;
  std::erase_if(roads_, [](const auto& entry) { return entry.second.expired(); });
  auto road = std::make_shared<Road>();
  road->connection = open(remote, [session = weak_from_this(), host, weak = std::weak_ptr<Road>(road)](const Error& error) {
    const auto self = session.lock();
    const auto lost = weak.lock();
    if (self && lost) self->on_road_down(host, lost, error);
  });
  roads_[host] = road;
  return road;
}

void ClusterSession::on_road_down(const HostId& host, const std::shared_ptr<Road>& road, const Error& error) {
  std::vector<std::weak_ptr<Link>> links;
  {
    const std::lock_guard hold(mutex_);
    if (const auto found = roads_.find(host); found != roads_.end() && found->second.lock() == road) roads_.erase(found);
    links.swap(road->links);
  }
  for (const auto& one : links) {
    if (const auto link = one.lock()) on_down(*link, error);
  }
}

// Sends what waits, unless nothing may be sent yet.
void ClusterSession::flush(Remote& remote) {
  if (!remote.link || remote.waiting.empty() || !is_settled(remote)) return;  // go_on() comes back here.
  auto waiting = std::move(remote.waiting);
  remote.waiting.clear();
  remote.waiting_bytes = 0;
  for (auto& [request, call] : waiting) {
    if (call->timer != 0) options_.loop->cancel_timer(std::exchange(call->timer, 0));
    prepare(remote, *call);
    ++remote.link->in_flight;
    transmit(remote.link, call);
  }
}

void ClusterSession::on_down(const Link& link, const Error& error) {
  const std::lock_guard hold(mutex_);
  const auto found = remotes_.find(link.actor);
  if (found == remotes_.end() || closed_) return;
  log::debug("session", "a connection to an actor's host ended", {{"actor", short_id(link.actor)}, {"error", error.message}});
  if (found->second->link.get() == &link) lose_connection(*found->second);
}

// No more calls over this connection: it normally ends by itself at once and says for each call whether it had been sent; the timer is
// for a frozen host.
void ClusterSession::retire_connection(Remote& remote) {
  options_.loop->add_timer(options_.clock->now() + std::chrono::seconds(1), [weak = weak_from_this(), old = remote.link->connection, road = remote.link->road] {
    if (road) {  // Others may still use it.
      const auto self = weak.lock();
      if (!self) return;
      const std::lock_guard hold(self->mutex_);
      if (road->in_use()) return;
    }
    old->close();
  });
  remote.held_epoch = std::max(remote.held_epoch, remote.link->epoch);
  remote.link->retired.store(true);  // Before is_settled() looks: then the last answer comes back to go_on().
  remote.retired.push_back(std::move(remote.link));
  remote.link = nullptr;
}

// The connection is gone, or the host does not take our calls, while the head still believes in it: try again, slower each time; tell
// the head once.
void ClusterSession::lose_connection(Remote& remote) {
  if (!remote.link) return;
  const uint64_t epoch = remote.link->epoch;
  retire_connection(remote);
  if (!remote.info || remote.info->state() != protocol::ALIVE || remote.info->epoch() != epoch) return;
  if (remote.failed_connects == 0) {
    protocol::ClientMessage message;
    message.mutable_failed_call()->set_actor_id(raw(remote.id));
    message.mutable_failed_call()->set_epoch(epoch);
    options_.send(std::move(message));
  }
  const auto delay = std::min(milliseconds(2000), milliseconds(50 << std::min(remote.failed_connects, 6)));
  ++remote.failed_connects;
  if (remote.connect_timer) return;
  remote.connect_timer = true;
  options_.loop->add_timer(options_.clock->now() + delay, [weak = weak_from_this(), actor = remote.id] {
    const auto self = weak.lock();
    if (!self) return;
    const std::lock_guard again(self->mutex_);
    const auto it = self->remotes_.find(actor);
    if (it == self->remotes_.end() || self->closed_) return;
    it->second->connect_timer = false;
    if (!it->second->link && it->second->info && it->second->info->state() == protocol::ALIVE) self->connect(*it->second);
  });
}

// ---- looking ----

ActorStatus ClusterSession::status_of(const Remote& remote) const {
  ActorStatus status;
  status.id = remote.id;
  if (!remote.info) {
    status.reason = "the head has not said anything about it yet";
    return status;
  }
  const protocol::ActorInfo& info = *remote.info;
  switch (info.state()) {
    case protocol::STARTING: status.state = ActorState::kStarting; break;
    case protocol::ALIVE: status.state = ActorState::kAlive; break;
    case protocol::RESTARTING: status.state = ActorState::kRestarting; break;
    case protocol::DEAD: status.state = ActorState::kDead; break;
    default: status.state = ActorState::kPending; break;
  }
  status.epoch = info.epoch();
  status.node_name = info.node_name();
  status.pid = info.pid();
  status.restarts = info.restarts();
  status.class_name = info.class_name();
  status.name = info.name();
  status.actor_namespace = info.namespace_();
  status.reason = info.reason();
  if (info.has_cause() && info.cause().kind() != protocol::DeathCause::KIND_UNSPECIFIED) {
    status.death = death_error(info);
    status.lost = info.cause().kind() == protocol::DeathCause::NODE_LOST || info.cause().kind() == protocol::DeathCause::LEASE_LOST;
  }
  return status;
}

Result<ActorStatus> ClusterSession::status(const ActorId& actor) {
  if (is_light(actor)) return status_of_light(actor);
  std::unique_lock hold(mutex_);
  if (closed_) return make_error(*closed_);
  remote(actor);
  changed_.wait_for(hold, options_.head_patience, [&] {
    const auto found = remotes_.find(actor);
    return closed_ || found == remotes_.end() || found->second->info.has_value();
  });
  const auto found = remotes_.find(actor);
  if (found == remotes_.end() || !found->second->info) {
    return make_error(ErrorCode::kUnavailable, fmt::format("the head did not say anything about actor {} within {} s{}", short_id(actor),
                                                           options_.head_patience.count() / 1000, lost_ ? " (" + lost_->message + ")" : ""));
  }
  return status_of(*found->second);
}

std::shared_ptr<void> ClusterSession::on_status(const ActorId& actor, std::function<void(const ActorStatus&)> function) {
  if (is_light(actor)) {  // As far as the head knows.
    return on_status(home_of(actor), [actor, function = std::move(function)](ActorStatus status) {
      status.id = actor;
      function(status);
    });
  }
  const std::lock_guard hold(mutex_);
  const uint64_t number = next_listener_++;
  if (!closed_) remote(actor).listeners.emplace(number, std::move(function));
  return std::shared_ptr<void>(nullptr, [weak = weak_from_this(), actor, number](void*) {
    const auto self = weak.lock();
    if (!self) return;
    const std::lock_guard again(self->mutex_);
    if (const auto found = self->remotes_.find(actor); found != self->remotes_.end()) found->second->listeners.erase(number);
  });
}

ClusterTotals ClusterSession::totals() {
  const std::lock_guard hold(mutex_);
  return totals_;
}

std::string ClusterSession::cluster_name() {
  const std::lock_guard hold(mutex_);
  return cluster_name_;
}

void ClusterSession::on_log(std::function<void(const LogLine&)> function) {
  const std::lock_guard hold(mutex_);
  log_receiver_ = std::move(function);
}

void ClusterSession::on_request(const std::string& experiment, std::function<void(const ExperimentRequest&)> function) {
  const std::lock_guard hold(mutex_);
  if (function) {
    request_receivers_[experiment] = std::move(function);
  } else {
    request_receivers_.erase(experiment);
  }
}

void ClusterSession::report(const ExperimentReport& report) {
  protocol::ClientMessage message;
  *message.mutable_experiment() = to_update(report);
  if (options_.hello) {
    const std::lock_guard hold(mutex_);
    unkept_.add(*message.mutable_experiment());
  }
  options_.send(std::move(message));
}

}  // namespace volador
