// User API for actors: volador::actor<T>(args…)….spawn(), handle.call<&T::method>(args…).
#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "runtime/actor/actor_class.h"
#include "runtime/actor/call_context.h"
#include "runtime/actor/future.h"
#include "runtime/actor/placement_group.h"
#include "runtime/actor/session.h"
#include "runtime/block_pool.h"
#include "runtime/store/object_store.h"

namespace volador {
namespace internal {

// A call on an actor and its reply.
class CallReply : public Reply, public OutgoingCall {
 public:
  void cancel(const CancelOptions& options) override {
    if (options.force)
      throw Exception(Error{ErrorCode::kInvalidArgument,
                            "cancel: force ends the process of a task; an actor has others' state, end it by kill()"});
    const auto session = Session::current_or_none();
    if (session && session->serial() == session_) session->cancel(target, request_id);
  }
  const char* not_there_yet() const override {
    return "the call has not ended yet; it goes on: wait longer, or make it by call_for() with a timeout";
  }

 protected:
  static void send(const std::shared_ptr<CallReply>& call) {
    auto* context = CallContext::current();
    if (context != nullptr) call->timeout = context->shorten(call->timeout);
    const auto session = Session::current();
    call->session_ = session->serial();
    session->start(call);
    if (context != nullptr) context->adopt(call);
  }

 private:
  uint64_t session_ = 0;  // Serial of the session; set before the reply is shared.
};

// A call whose reply is a Return.
template <class Return>
class CallReplyOf final : public CallReply {
 public:
  static std::shared_ptr<CallReplyOf> send(const ActorId& actor, uint64_t method, std::string arguments,
                                           std::chrono::nanoseconds timeout, std::shared_ptr<const void> pinned) {
    auto call = std::allocate_shared<CallReplyOf>(PooledAllocator<CallReplyOf>());
    call->target = actor;
    call->method = method;
    call->arguments = std::move(arguments);
    call->timeout = timeout;
    call->pins = std::move(pinned);
    CallReply::send(call);
    return call;
  }
  void on_end(Result<std::string>&& result) override {
    const auto kept_until_told = std::move(pins);
    arguments = {};
    auto references = registration::claim_references<Return>(result);
    set(std::move(result), std::move(references));
  }
};

}  // namespace internal

// Options of ActorHandle::kill().
struct KillOptions {
  bool no_restart = true;              // false: the actor may restart, as after a crash.
  std::chrono::milliseconds grace{0};  // Time for its destructor.
};

// Value type: copies refer to the same actor and can be passed to other actors, in arguments and replies. An actor that
// is neither detached nor with_creator() ends soon after its last handle in the cluster is gone and pending calls have
// ended. Handles from get_actor() or from an id do not keep the actor alive.
template <class T>
class ActorHandle {
 public:
  ActorHandle() = default;
  explicit ActorHandle(const ActorId& id) : id_(id) {}
  ActorHandle(const ActorId& id, std::shared_ptr<const ActorHold> hold) : id_(id), hold_(std::move(hold)) {}

  const ActorId& id() const { return id_; }
  bool operator==(const ActorHandle& other) const { return id_ == other.id_; }
  // Called when the handle leaves this process: the actor stays alive until the scope, or the holder of its contents,
  // is done.
  void leave(RefScope& scope) const {
    auto hold = hold_;
    if (!hold && !id_.is_nil() && Session::has_current())
      hold = Session::current()->hold(id_, Session::HandleFrom::kArgument);
    if (!hold) return;
    hold->leaves();
    scope.add(id_, std::move(hold));
  }

  // Starts a call and returns at once. Calls of one process on one actor run in the order of the calls.
  template <auto M, class... A>
  auto call(A&&... arguments) const {
    return call_for<M>(std::chrono::nanoseconds(0), std::forward<A>(arguments)...);
  }
  // As call(), but ends with kTimeout if `timeout` passes first; the method is then cancelled.
  template <auto M, class... A>
  auto call_for(std::chrono::nanoseconds timeout, A&&... arguments) const {
    using S = registration::Signature<decltype(M)>;
    static_assert(registration::Actor<T>, "volador: put VOLADOR_ACTOR(Type, &Type::method…) beside the class");
    static_assert(registration::lists<M, decltype(volador_actor_methods(static_cast<const T*>(nullptr)))>,
                  "volador: this method is not listed in the VOLADOR_ACTOR of its class");
    static_assert(!registration::SinkOf<typename S::Arguments>::exists,
                  "volador: this method streams its results: handle.stream<&T::method>(…)");
    using Return = typename Future<typename S::Return>::Value;
    RefScope scope(RefScope::Kind::kSend);
    std::string packed = registration::TupleCodec<typename S::Arguments>::encode(std::forward<A>(arguments)...);
    return Future<typename S::Return>(
        internal::CallReplyOf<Return>::send(id_, function_id<M>(), std::move(packed), timeout, scope.take()));
  }

  // Starts a call of a method whose last parameter is a Sink; items arrive while it runs. Omit the sink argument.
  template <auto M, class... A>
  auto stream(A&&... arguments) const {
    return stream_for<M>(std::chrono::nanoseconds(0), std::forward<A>(arguments)...);
  }
  // As stream(), but ends with kTimeout if `timeout` passes before the method returns.
  template <auto M, class... A>
  auto stream_for(std::chrono::nanoseconds timeout, A&&... arguments) const {
    using S = registration::Signature<decltype(M)>;
    using Sinks = registration::SinkOf<typename S::Arguments>;
    static_assert(registration::lists<M, decltype(volador_actor_methods(static_cast<const T*>(nullptr)))>,
                  "volador: this method is not listed in the VOLADOR_ACTOR of its class");
    static_assert(Sinks::exists, "volador: only a method whose last parameter is a volador::Sink<T>& streams");
    RefScope scope(RefScope::Kind::kSend);
    std::string packed = registration::TupleCodec<typename Sinks::Others>::encode(std::forward<A>(arguments)...);
    if (hold_) scope.keep(hold_);  // Items may be read after the call has ended.
    return Stream<typename Sinks::Item>(internal::StreamReader::open(
        id_, function_id<M>(), std::move(packed), timeout,
        [](const Result<std::string>& item) { return registration::claim_references<typename Sinks::Item>(item); },
        scope.take()));
  }

  // Permanently ends the actor. With grace its destructor may run; 0 ends it at once. Throws kUnavailable if the head
  // is unreachable.
  void kill(std::chrono::milliseconds grace = std::chrono::milliseconds(0)) const { kill(KillOptions{.grace = grace}); }
  // kill({.no_restart = false}) ends only the process: the actor restarts if max_restarts allows it, otherwise it has
  // ended.
  void kill(const KillOptions& options) const {
    auto done = Session::current()->kill(id_, options.no_restart, options.grace);
    if (!done) throw Exception(std::move(done).error());
    if (hold_ && options.no_restart) hold_->ended();
  }
  // Returns the head's current state. Throws kNotFound (it ended long ago), kUnavailable.
  ActorStatus status() const {
    auto status = Session::current()->status(id_);
    if (!status) throw Exception(std::move(status).error());
    return std::move(*status);
  }

 private:
  ActorId id_;
  std::shared_ptr<const ActorHold> hold_;  // Null: does not keep the actor alive.
};

template <class T>
void volador_encode(Encoder& encoder, const ActorHandle<T>& handle) {
  encode(encoder, handle.id());
  if (RefScope* scope = RefScope::current()) handle.leave(*scope);
}
template <class T>
void volador_decode(Decoder& decoder, ActorHandle<T>& handle) {
  ActorId id;
  decode(decoder, id);
  handle = ActorHandle<T>(id);
  if (decoder.failed() || id.is_nil() || !Session::has_current()) return;
  RefScope* scope = RefScope::current();
  const bool claims = scope != nullptr && scope->claims(id);
  handle = ActorHandle<T>(
      id, Session::current()->hold(id, claims ? Session::HandleFrom::kAnswer : Session::HandleFrom::kArgument));
}

// Interval and limits of an actor's health check.
struct HealthCheck {
  std::chrono::milliseconds period{10'000};   // Time between two checks, and from the constructor to the first one.
  std::chrono::milliseconds timeout{30'000};  // Limit of a running check: beyond it the actor is hung and is ended.
  std::chrono::milliseconds turn_timeout{0};  // Limit of a check that waits behind calls; 0: none.
  int failures = 3;                           // Consecutive failures that end the actor.
};

// Options of an actor, then spawn(). Returned by actor<T>(…).
template <class T>
class ActorBuilder {
 public:
  ActorBuilder(std::string arguments, std::shared_ptr<const void> pins) {
    request_.class_name = type_name<T>();
    request_.arguments = std::move(arguments);
    request_.pins = std::move(pins);
  }

  // Resources that the actor reserves; it waits for a node that has them. Default: none.
  ActorBuilder&& resources(const Resources& resources) && {
    resources_ = resources;
    return std::move(*this);
  }
  // Name, unique in its namespace while the actor is not dead.
  ActorBuilder&& name(std::string name) && {
    request_.name = std::move(name);
    return std::move(*this);
  }
  // Namespace of its name, and the default namespace of actors that it creates or looks up. Default: the creator's.
  ActorBuilder&& in_namespace(std::string actor_namespace) && {
    request_.actor_namespace = std::move(actor_namespace);
    return std::move(*this);
  }
  // -1: unlimited.
  ActorBuilder&& max_restarts(int restarts) && {
    request_.max_restarts = restarts;
    return std::move(*this);
  }
  // The actor outlives its driver and needs no handle.
  ActorBuilder&& detached() && {
    request_.detached = true;
    return std::move(*this);
  }
  // The actor needs no handle and ends with the program or actor that created it: for actors that are found by name.
  ActorBuilder&& with_creator() && {
    with_creator_ = true;
    return std::move(*this);
  }
  // Higher goes first when resources are short.
  ActorBuilder&& priority(int priority) && {
    request_.priority = priority;
    return std::move(*this);
  }
  // Restricts the actor to nodes whose label has this value, or matches label_in, label_not_in, label_exists or
  // label_absent. Repeatable; all must match.
  ActorBuilder&& label(std::string key, LabelValue value) && {
    request_.wishes.labels.push_back({std::move(key), std::move(value)});
    return std::move(*this);
  }
  // Restricts the actor to the node of this name.
  ActorBuilder&& node(std::string name) && {
    request_.wishes.node = std::move(name);
    request_.wishes.node_preferred = false;
    return std::move(*this);
  }
  // Prefers this node while it has room.
  ActorBuilder&& prefer_node(std::string name) && {
    request_.wishes.node = std::move(name);
    request_.wishes.node_preferred = true;
    return std::move(*this);
  }
  // Anti-affinity: two actors of the cluster with the same key never share a node, so that replicas are not lost
  // together.
  ActorBuilder&& apart(std::string word) && {
    request_.wishes.apart = std::move(word);
    return std::move(*this);
  }
  // Runs the actor in a bundle of the group, whose resources it uses. It waits until the bundle is placed and has room.
  ActorBuilder&& in(const PlacementGroup& group, int bundle = kAnyBundle) && {
    request_.group = group.id();
    request_.bundle = bundle;
    return std::move(*this);
  }
  // Sets an environment variable of its process. Rejected for shared actors.
  ActorBuilder&& env(std::string key, std::string value) && {
    request_.env.insert_or_assign(std::move(key), std::move(value));
    return std::move(*this);
  }
  // Waits for a larger node to join instead of being rejected.
  ActorBuilder&& wait_if_infeasible() && {
    request_.wait_if_infeasible = true;
    return std::move(*this);
  }
  // Checkpoints a class with save_checkpoint and load_checkpoint after every `calls` calls, before the last of them is
  // answered. With 1 no answered call is lost, at the cost of a round trip to the head and its disk. 0: never.
  ActorBuilder&& checkpoint_every(int64_t calls) && {
    static_assert(registration::HasCheckpoints<T>,
                  "volador: checkpoint_every needs save_checkpoint(path) and load_checkpoint(path) in the class");
    static_assert(!registration::defers_any<decltype(volador_actor_methods(static_cast<const T*>(nullptr)))>,
                  "volador: checkpoint_every(calls) saves before each answer; a method that returns a "
                  "volador::Deferred answers later. Use "
                  "checkpoint_every(interval)");
    request_.checkpoint_calls = calls;
    request_.checkpoint_interval = std::chrono::milliseconds(0);
    checkpoints_chosen_ = true;
    return std::move(*this);
  }
  // Checkpoints between calls, at most this often; actors with restarts default to 1 s.
  ActorBuilder&& checkpoint_every(std::chrono::milliseconds interval) && {
    static_assert(registration::HasCheckpoints<T>,
                  "volador: checkpoint_every needs save_checkpoint(path) and load_checkpoint(path) in the class");
    request_.checkpoint_calls = 0;
    request_.checkpoint_interval = interval;
    checkpoints_chosen_ = true;
    return std::move(*this);
  }
  // Runs up to this number of calls concurrently, started in order, on separate threads: the class must synchronize its
  // members. Default: 1, sequential.
  ActorBuilder&& max_concurrency(int calls) && {
    request_.max_concurrency = calls;
    return std::move(*this);
  }
  // Gives these methods their own threads, so that they and the other methods do not wait for one another. With 1
  // thread they run in order: actor<Store>().concurrency_group<&Store::health>("health", 1).
  template <auto... Methods>
  ActorBuilder&& concurrency_group(std::string name, int threads) && {
    static_assert(sizeof...(Methods) > 0,
                  "volador: concurrency_group needs its methods: concurrency_group<&T::method, …>(name, threads)");
    static_assert(
        (registration::lists<Methods, decltype(volador_actor_methods(static_cast<const T*>(nullptr)))> && ...),
        "volador: a method of this group is not listed in the VOLADOR_ACTOR of its class");
    request_.groups.push_back({std::move(name), threads, {function_id<Methods>()...}});
    return std::move(*this);
  }
  // Periodic health check by a method without arguments: if it throws, returns false or hangs, the actor dies and
  // restarts by its max_restarts. It runs among the calls, so that the class needs no synchronization; with its own
  // concurrency group it runs concurrently: actor<Store>().concurrency_group<&Store::alive>("health",
  // 1).health_check<&Store::alive>({.period = 5s}).
  template <auto M>
  ActorBuilder&& health_check(const HealthCheck& check = {}) && {
    using S = registration::Signature<decltype(M)>;
    static_assert(registration::lists<M, decltype(volador_actor_methods(static_cast<const T*>(nullptr)))>,
                  "volador: the health check's method is not listed in the VOLADOR_ACTOR of its class");
    static_assert(std::tuple_size_v<typename S::Arguments> == 0, "volador: a health check's method takes no arguments");
    static_assert(std::is_void_v<typename S::Declared> || std::is_same_v<typename S::Declared, bool>,
                  "volador: a health check's method returns bool, or nothing and throws");
    request_.health = {.method = function_id<M>(),
                       .tells = std::is_same_v<typename S::Return, bool>,
                       .period = check.period,
                       .timeout = check.timeout,
                       .turn_timeout = check.turn_timeout,
                       .failures = check.failures};
    return std::move(*this);
  }
  // Number of retries of a call that was running when the actor died or its connection was lost (-1: unlimited). Each
  // incarnation runs a call at most once: its host keeps the reply until the caller has it. Default: 0, such a call
  // ends with kUnknownOutcome.
  ActorBuilder&& max_task_retries(int retries) && {
    static_assert(!registration::defers_any<decltype(volador_actor_methods(static_cast<const T*>(nullptr)))>,
                  "volador: max_task_retries keeps the answers of calls; a method that returns a volador::Deferred has "
                  "none to keep");
    request_.max_task_retries = retries;
    return std::move(*this);
  }
  // kShared: many small actors in one process. Default: kProcess.
  ActorBuilder&& isolation(Isolation isolation) && {
    request_.isolation = isolation;
    return std::move(*this);
  }
  // Limit for the start of the host and the constructor.
  ActorBuilder&& start_timeout(std::chrono::milliseconds timeout) && {
    request_.start_timeout = timeout;
    return std::move(*this);
  }

  // Returns when the head has accepted the request. Throws kInfeasible, kInvalidArgument (name in use), kUnavailable.
  ActorHandle<T> spawn() && {
    auto set = ResourceSet::from(resources_);
    if (!set) throw Exception(std::move(set).error());
    request_.resources = std::move(*set);
    if (auto checked = check_concurrency(request_); !checked) throw Exception(std::move(checked).error());
    if (auto checked = check_isolation(request_); !checked) throw Exception(std::move(checked).error());
    if (auto checked = check_health(request_); !checked) throw Exception(std::move(checked).error());
    if (auto checked = check(request_.wishes); !checked) throw Exception(std::move(checked).error());
    if (registration::HasCheckpoints<T> && !checkpoints_chosen_ && request_.max_restarts != 0)
      request_.checkpoint_interval = kCheckpointInterval;
    request_.ends_with_handles = !request_.detached && !with_creator_;
    const auto session = Session::current();
    auto id = session->spawn(request_);
    if (!id) throw Exception(std::move(id).error());
    return ActorHandle<T>(*id, request_.ends_with_handles ? session->hold(*id, Session::HandleFrom::kSpawn) : nullptr);
  }
  // Returns the living actor of this name, or creates it. Concurrent callers get the same actor; only its creator gets
  // a handle that keeps it alive. Throws as spawn(), and kInvalidArgument without a name.
  ActorHandle<T> get_or_create() && {
    if (request_.name.empty())
      throw Exception(Error{ErrorCode::kInvalidArgument,
                            "get_or_create: the actor needs a name by which others find it; call .name(…) first"});
    const std::string name = request_.name, where = request_.actor_namespace;
    const std::string class_name = request_.class_name;
    auto known = Session::current()->find(name, where, class_name);
    if (known) return ActorHandle<T>(*known);
    // It has another class.
    if (known.error().code == ErrorCode::kInvalidArgument) throw Exception(std::move(known).error());
    try {
      return std::move(*this).spawn();
    } catch (const Exception&) {
      if (auto found = Session::current()->find(name, where, class_name)) return ActorHandle<T>(*found);
      throw;
    }
  }

 private:
  static constexpr std::chrono::milliseconds kCheckpointInterval{1000};

  SpawnRequest request_;
  Resources resources_;
  bool checkpoints_chosen_ = false;
  bool with_creator_ = false;
};

namespace registration {
template <class A>
using Owned = std::conditional_t<std::is_same_v<std::decay_t<A>, const char*> || std::is_same_v<std::decay_t<A>, char*>,
                                 std::string, std::decay_t<A>>;
}  // namespace registration

// actor<Counter>(10).name("hits").resources({.cpus = 0.5}).spawn(). String literals are sent as std::string.
template <class T, class... A>
ActorBuilder<T> actor(A&&... arguments) {
  static_assert(registration::Actor<T>, "volador: put VOLADOR_ACTOR(Type, &Type::method…) beside the class");
  using Constructor = registration::Constructor<T, registration::Owned<A>...>;
  (void)Constructor::enlisted;
  RefScope scope(RefScope::Kind::kSend);
  std::string packed = to_bytes<uint64_t, registration::Owned<A>...>(
      Constructor::id(), registration::Owned<A>(std::forward<A>(arguments))...);
  return ActorBuilder<T>(std::move(packed), scope.take());
}

// Returns the living actor of this name, by default in the caller's namespace; the handle does not keep it alive.
// Throws kNotFound, and kInvalidArgument if it has another class.
template <class T>
ActorHandle<T> get_actor(const std::string& name, const std::string& actor_namespace = {}) {
  auto id = Session::current()->find(name, actor_namespace, std::string(type_name<T>()));
  if (!id) throw Exception(std::move(id).error());
  return ActorHandle<T>(*id);
}

}  // namespace volador
