#include "runtime/actor/call_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "runtime/actor/actor_checkpoints.h"
#include "runtime/actor/call_context.h"
#include "runtime/actor/call_trace.h"
#include "runtime/actor/cluster_session.h"
#include "runtime/actor/deferred.h"
#include "runtime/actor/host_lease.h"
#include "runtime/actor/math_threads.h"
#include "runtime/actor/process_calls.h"
#include "runtime/log.h"
#include "runtime/net/call_errors.h"
#include "runtime/net/held_writes.h"
#include "runtime/store/object_store.h"

namespace volador {
namespace {

constexpr size_t kTakenMax = 1024;  // Taken calls at the front of a queue before the queue is compacted.
constexpr auto kShortCall = std::chrono::microseconds(50);
constexpr int kCallsATurn = 64;  // Maximum for one turn on a shared thread while other actors wait.

bool streams_any(const ActorClass& actor_class) {
  return std::any_of(actor_class.methods.begin(), actor_class.methods.end(),
                     [](const auto& method) { return method.second.streams; });
}

}  // namespace

CallRunner::CallRunner(Options options)
    : process_(*options.process),
      actor_(*options.actor),
      id_(options.id),
      class_(*options.actor_class),
      object_(std::move(options.object)),
      checkpoints_(options.checkpoints),
      tally_(options.tally),
      math_threads_(options.math_threads),
      keeps_answers_(options.keeps_answers) {
  const bool own_threads = process_.threads == nullptr && options.max_concurrency > 1;
  if (own_threads || keeps_answers_ || !options.groups.empty() || streams_any(class_))
    more_ = std::make_unique<OptionalState>();
  fill(lane_, class_.name, options.max_concurrency, options.first_thread);
  for (const protocol::ConcurrencyGroup& group : options.groups) {
    more_->lanes.push_back(std::make_unique<GroupQueue>());
    GroupQueue* lane = more_->lanes.back().get();
    fill(*lane, group.name(), group.threads(), nullptr);
    for (const uint64_t method : group.methods()) more_->lane_of.emplace(method, lane);
  }
  // With several threads, the I/O loop must not be led: one call could wait for another to be read.
  runs_loop_ = process_.threads == nullptr && options.max_concurrency == 1 && options.groups.empty();
  if (class_.runs_tasks && process_.threads == nullptr) {
    idle_ = std::make_shared<internal::IdleLending>(
        *process_.io, *process_.clock, [session = process_.session](bool lend) { session->lend_cpus(lend); });
    idle_->end();  // A first call may never arrive.
  }
}

CallRunner::~CallRunner() {
  if (!more_) return;
  for (const auto& thread : more_->threads) thread->stop();
}

void CallRunner::fill(GroupQueue& lane, const std::string& name, int threads, EventLoop* first) {
  lane.width = threads;
  lane.one_by_one = threads > 1 || class_.runs_tasks;
  if (process_.threads != nullptr) {
    lane.free = threads;
    return;
  }
  if (first != nullptr) lane.idle.push_back(first);
  while (static_cast<int>(lane.idle.size()) < threads) {
    more_->threads.push_back(std::make_unique<EventLoop>(*process_.loops, name, EventLoop::Thread::kOwn));
    EventLoop* made = more_->threads.back().get();
    made->post([math = math_threads_] { set_math_threads(math); });
    lane.idle.push_back(made);
  }
  std::reverse(lane.idle.begin(), lane.idle.end());  // The last one is used first.
}

CallRunner::GroupQueue& CallRunner::lane_for(uint64_t method) {
  if (!more_) return lane_;
  const auto found = more_->lane_of.find(method);
  return found == more_->lane_of.end() ? lane_ : *found->second;
}

template <class F>
void CallRunner::for_each_lane(F&& function) {
  function(lane_);
  if (!more_) return;
  for (const auto& lane : more_->lanes) function(*lane);
}

void CallRunner::on_calls(std::span<net::IncomingCall> calls) {
  thread_local std::vector<Call> accepted;  // Calls of one lane; reused to save allocations.
  GroupQueue* lane = nullptr;
  for (net::IncomingCall& incoming : calls) {
    if (!incoming.responder) continue;
    GroupQueue& its = lane_for(incoming.request->method);
    if (&its != lane && !accepted.empty()) {
      put_own(*lane, accepted);
      accepted.clear();
    }
    lane = &its;
    accepted.emplace_back();
    if (!accept(accepted.back(), std::move(*incoming.request), std::move(incoming.responder))) accepted.pop_back();
  }
  if (!accepted.empty()) put_own(*lane, accepted);
  accepted.clear();
}

// Queues calls on the actor's own threads and wakes up to one thread per call. Leaves `calls` in an unspecified state.
void CallRunner::put_own(GroupQueue& lane, std::vector<Call>& calls) {
  EventLoop* first = nullptr;
  std::vector<EventLoop*> others;
  bool interrupts = false;
  {
    const std::lock_guard hold(lane.mutex);
    for (size_t woken = 0; woken < calls.size() && !lane.idle.empty(); ++woken) {
      (first == nullptr ? first : others.emplace_back()) = lane.idle.back();
      lane.idle.pop_back();
    }
    if (lane.waiting.empty()) {
      lane.waiting.swap(calls);
    } else {
      std::move(calls.begin(), calls.end(), std::back_inserter(lane.waiting));
    }
    lane.any_waits.store(true);
    interrupts = lane.leads;
  }
  if (interrupts) process_.io->interrupt();
  if (first != nullptr) first->post([this, &lane, first] { drain(lane, first); });
  for (EventLoop* woken : others) woken->post([this, &lane, woken] { drain(lane, woken); });
}

void CallRunner::on_call(const std::shared_ptr<CallRunner>& self, net::CallRequest&& request,
                         std::shared_ptr<net::Responder>&& responder) {
  GroupQueue& lane = lane_for(request.method);
  Call call;
  if (accept(call, std::move(request), std::move(responder))) put_shared(self, lane, std::move(call));
}

void CallRunner::post(const std::shared_ptr<CallRunner>& self, std::function<void()> job) {
  Call call;
  call.job = std::move(job);
  put_shared(self, lane_, std::move(call));
}

// False: already answered, or an earlier attempt will answer it.
bool CallRunner::accept(Call& call, net::CallRequest&& request, std::shared_ptr<net::Responder>&& responder) {
  if (request.method == internal::stream_fetch_method()) {
    fetch(request, std::move(responder));
    return false;
  }
  const auto method = class_.methods.find(request.method);
  if (method == class_.methods.end()) {
    if (const internal::ProcessCall* answer = internal::find_process_call(request.method)) {
      (*answer)(id_, request, std::move(responder));
      return false;
    }
    responder->reply(make_error(
        ErrorCode::kInvalidArgument,
        class_.runs_tasks
            ? std::string("the program of this process has no such function: let caller and process be of one build")
            : fmt::format(
                  "class {0} has no such method in this program: its VOLADOR_ACTOR does not list it, or the caller's "
                  "handle "
                  "is of another class; call it by an ActorHandle<{0}>, and let caller and actor be of one build",
                  class_.name)));
    return false;
  }
  call.method = &method->second;
  call.request = std::move(request);
  call.responder = std::move(responder);
  if (call.request.timeout.count() > 0) call.deadline = process_.clock->now() + call.request.timeout;
  call.kept = call.request.keep_answer && keeps_answers_;
  if (call.kept && !begin_kept(call)) return false;
  if (call.method->streams) begin_stream(call);
  return true;
}

void CallRunner::begin_stream(Call& call) {
  const StreamKey key{call.responder->peer().caller, call.request.request_id};
  call.stream = std::make_shared<internal::StreamSource>([this, key] {
    const std::lock_guard<std::mutex> hold(more_->streams_mutex);
    more_->streams.erase(key);
  });
  {
    const std::lock_guard<std::mutex> hold(more_->streams_mutex);
    more_->streams[key] = call.stream;
  }
  call.responder->on_cancel([weak = std::weak_ptr<internal::StreamSource>(call.stream)] {
    if (const auto stream = weak.lock()) stream->cancel();
  });
}

void CallRunner::fetch(const net::CallRequest& request, std::shared_ptr<net::Responder> responder) {
  const auto number = from_bytes<uint64_t>(request.body);
  std::shared_ptr<internal::StreamSource> stream;
  if (number && more_) {
    const std::lock_guard<std::mutex> hold(more_->streams_mutex);
    const auto found = more_->streams.find({responder->peer().caller, *number});
    if (found != more_->streams.end()) stream = found->second;
  }
  if (stream) return stream->fetch(std::move(responder));
  responder->reply(
      make_error(ErrorCode::kNotFound, "the stream has ended: its method returned, or its actor started anew"));
}

// False: it is running or complete, or must not run.
bool CallRunner::begin_kept(Call& call) {
  call.signal = std::make_shared<internal::CancelSignal>();
  ReplyCache::Decision decision;
  {
    const std::lock_guard<std::mutex> hold(more_->cache_mutex);
    decision = more_->cache.begin(process_.clock->now(), call.responder->peer().caller, call.request.request_id,
                                  call.request.acknowledged, call.responder, call.signal);
  }
  if (decision.signal) internal::CancelSignal::follow(decision.signal, call.responder);
  if (decision.verdict == ReplyCache::Verdict::kAnswered) call.responder->reply(std::move(decision.answer));
  return decision.verdict == ReplyCache::Verdict::kRun;
}

// ---- scheduling ----

void CallRunner::put_shared(const std::shared_ptr<CallRunner>& self, GroupQueue& lane, Call&& call) {
  bool turn = false;
  {
    const std::lock_guard hold(lane.mutex);
    if (!stopping_) {
      turn = lane.free > 0;
      if (turn) --lane.free;
      lane.waiting.push_back(std::move(call));
    }
  }
  if (turn) return process_.threads->post(self, &lane);
  if (call.method != nullptr && call.responder) refuse(call, stopping_->refusal);  // The call was not queued.
}

// Takes work for a thread: all queued calls if it is the only thread, otherwise one call. Empty: the thread is idle
// now. A lone thread counts as idle once it has taken its batch, so that jobs posted meanwhile (a checkpoint) run
// before the next batch.
void CallRunner::take(GroupQueue& lane, EventLoop* thread, std::vector<Call>& batch) {
  batch.clear();
  const std::lock_guard hold(lane.mutex);
  if (!lane.one_by_one) {
    lane.waiting.swap(batch);
    lane.any_waits.store(false, std::memory_order_relaxed);
    lane.idle.push_back(thread);
  } else if (lane.next == lane.waiting.size()) {
    lane.waiting.clear();
    lane.next = 0;
    lane.any_waits.store(false, std::memory_order_relaxed);
    lane.idle.push_back(thread);
  } else {
    batch.push_back(std::move(lane.waiting[lane.next++]));
    compact(lane);
  }
}

void CallRunner::compact(GroupQueue& lane) {
  if (2 * lane.next <= lane.waiting.size() + kTakenMax) return;
  lane.waiting.erase(lane.waiting.begin(), lane.waiting.begin() + static_cast<std::ptrdiff_t>(lane.next));
  lane.next = 0;
}

void CallRunner::run_batch(std::span<Call> batch) {
  if (batch.empty()) return;
  CallTrace::Ring& trace = CallTrace::ring();
  const BootTime begun = process_.clock->now();
  BootTime at = begun;
  size_t calls = 0;
  for (Call& call : batch) {
    if (call.method != nullptr) {
      ++calls;
      trace.begin(&call.method->name, id_, at);
      const bool well = execute(call, at);
      trace.end(at, !well);
    } else {
      call.job();
      at = process_.clock->now();
    }
    call.release();  // Releases now instead of after the batch.
  }
  if (tally_ == nullptr) return;
  tally_->calls.fetch_add(calls, std::memory_order_relaxed);
  tally_->busy_ns.fetch_add((at - begun).count(), std::memory_order_relaxed);
}

void CallRunner::drain(GroupQueue& lane, EventLoop* thread) {
  thread_local std::vector<Call> batch;  // Reused to save allocations.
  do {
    if (idle_) idle_->begin();
    {
      const net::AnswersInARow in_a_row;
      do {
        take(lane, thread, batch);
        run_batch(batch);
      } while (lane.one_by_one && !batch.empty());
    }
    if (idle_) idle_->end();
  } while (runs_loop_ && lead(lane, thread));
}

// Runs the I/O loop on this thread until calls arrive for it. False: none arrived, or the thread has other work first.
bool CallRunner::lead(GroupQueue& lane, EventLoop* thread) {
  const auto ends = [&] { return lane.any_waits.load() || thread->is_awaited(); };
  {
    const std::lock_guard hold(lane.mutex);
    if (lane.idle.empty()) return false;  // A call arrived, with a function that runs it.
    lane.idle.pop_back();
    lane.leads = true;
  }
  if (!ends()) process_.io->run_until(ends, std::nullopt);
  const std::lock_guard hold(lane.mutex);
  lane.leads = false;
  const bool calls = lane.any_waits.load(std::memory_order_relaxed);
  if (calls && !thread->is_awaited()) return true;
  if (calls) {
    thread->post([this, &lane, thread] { drain(lane, thread); });  // After the functions already posted.
  } else {
    lane.idle.push_back(thread);
  }
  return false;
}

// Replaces `call`, which has run or is empty, by the next one. kNothing: the queue is empty and the turn ends. kLast:
// in addition the lane is closed. An idle actor keeps no memory for calls.
CallRunner::Taken CallRunner::take_turn(GroupQueue& lane, Call& call) {
  Call over;  // Destroyed after the lock is released: it may run callbacks.
  const std::lock_guard hold(lane.mutex);
  if (call.method != nullptr || call.job) {
    std::erase(lane.running, &call);
    over = std::move(call);
  }
  if (lane.next == lane.waiting.size()) {
    lane.waiting = {};
    lane.next = 0;
    ++lane.free;
    if (lane.free < lane.width) return Taken::kNothing;
    lane.running = {};
    return stopping_ ? Taken::kLast : Taken::kNothing;
  }
  call = std::move(lane.waiting[lane.next++]);
  compact(lane);
  lane.running.push_back(&call);
  return Taken::kCall;
}

void CallRunner::end_turn(GroupQueue& lane, Call& call) {
  const std::lock_guard hold(lane.mutex);
  std::erase(lane.running, &call);
}

// A turn on a shared thread: runs calls of one lane until the queue is empty or other actors have waited long enough.
void CallRunner::run_turn(const std::shared_ptr<Runnable>& self, void* what) {
  GroupQueue& lane = *static_cast<GroupQueue*>(what);
  actor_.enter_turn();
  set_math_threads_of_thread(math_threads_);
  CallTrace::Ring& trace = CallTrace::ring();
  BootTime at = process_.clock->now();
  Call call;
  Taken taken = take_turn(lane, call);
  for (int count = 1; taken == Taken::kCall; ++count) {
    if (call.job) {
      call.job();
      at = process_.clock->now();
    } else {
      trace.begin(&call.method->name, id_, at);
      const bool well = execute(call, at);
      trace.end(at, !well);
    }
    if (count >= kCallsATurn && process_.threads->pressed()) {
      end_turn(lane, call);
      break;
    }
    taken = take_turn(lane, call);
  }
  actor_.leave_turn();
  if (taken == Taken::kCall) process_.threads->post(self, what);
  if (taken == Taken::kLast) stopping_->settle();
}

// ---- end on shared threads ----

void CallRunner::refuse(Call& call, const Error& error) {
  if (call.stream) return call.stream->finish(make_error(error), std::move(call.responder));
  if (call.responder) call.responder->reply(make_error(error));
}

void CallRunner::give_back() {
  if (!class_.runs_tasks) return;
  std::vector<Call> back;
  for_each_lane([&](GroupQueue& lane) {
    const std::lock_guard hold(lane.mutex);
    const auto begin = lane.waiting.begin() + static_cast<std::ptrdiff_t>(lane.next);
    const auto first = std::stable_partition(begin, lane.waiting.end(), [](const Call& call) {
      return call.method == nullptr || !call.responder || call.kept || call.stream;
    });
    std::move(first, lane.waiting.end(), std::back_inserter(back));
    lane.waiting.erase(first, lane.waiting.end());
  });
  for (auto call = back.rbegin(); call != back.rend(); ++call) refuse(*call, net::given_back());
}

void CallRunner::stop(const Error& refusal, std::function<void()> done) {
  auto made = std::make_unique<Stopping>();
  made->refusal = refusal;
  made->done = std::move(done);
  Stopping* stopping = made.get();
  std::vector<Call> refused;
  for_each_lane([](GroupQueue& lane) { lane.mutex.lock(); });
  const bool first = !stopping_;
  if (first) {
    stopping_ = std::move(made);
    for_each_lane([&](GroupQueue& lane) {
      std::move(lane.waiting.begin() + static_cast<std::ptrdiff_t>(lane.next), lane.waiting.end(),
                std::back_inserter(refused));
      lane.waiting = {};
      lane.next = 0;
      if (lane.free < lane.width) ++stopping->running;
    });
  }
  for_each_lane([](GroupQueue& lane) { lane.mutex.unlock(); });
  for (Call& call : refused) refuse(call, refusal);
  if (first) stopping->settle();
}

void CallRunner::cut(const Error& error) {
  cut_ = true;
  struct Cut {
    std::shared_ptr<net::Responder> responder;
    std::shared_ptr<internal::StreamSource> stream;
  };
  std::vector<Cut> all;
  for_each_lane([&](GroupQueue& lane) {
    const std::lock_guard hold(lane.mutex);
    for (const Call* call : lane.running) {
      if (call->responder) all.push_back({call->responder, call->stream});
    }
  });
  for (const Cut& one : all) {
    if (one.stream) one.stream->cancel();
    one.responder->reply(make_error(error));
  }
}

// ---- execution of a call ----

// Returns whether it ran without an exception. `now` is the current time and is set to the end of the call: the clock
// is read once per call.
bool CallRunner::execute(Call& call, BootTime& now) {
  if (call.responder->cancelled() || (call.signal && call.signal->cancelled())) {
    if (call.stream) {
      call.stream->finish(make_error(ErrorCode::kCancelled, "cancelled before it ran"), call.responder);
      return false;
    }
    if (!call.kept) return false;
    const net::CallerId& caller = call.responder->peer().caller;
    const std::lock_guard<std::mutex> hold(more_->cache_mutex);
    if (call.signal->cancelled() || !more_->cache.is_awaited(caller, call.request.request_id)) {
      more_->cache.drop(caller, call.request.request_id);
      return false;
    }
  }
  now = process_.lease->wait_until_valid(now);
  if (exiting_) {
    answer(call, make_error(actor_.exit_error()));
    return false;
  }
  const BootTime begun = now;
  Result<std::string> result;
  std::shared_ptr<internal::DeferredAnswer> later;
  bool exits = false;
  {
    internal::CallContext context(call.responder, call.kept, call.deadline, *process_.clock, call.stream.get(), &cut_,
                                  call.signal);
    try {
      result = guarded([&] { return call.method->invoke(object_.get(), call.request.body); });
      if (result) later = context.take_deferred();
    } catch (const internal::ActorExit&) {
      result = make_error(actor_.exit_error());
      exits = !exiting_.exchange(true);
    }
  }
  now = process_.clock->now();
  // A nested call shares this call's deadline and may time out slightly before this call's caller does.
  if (!result && call.deadline && now >= *call.deadline) {
    result = make_error(ErrorCode::kTimeout, fmt::format("{} came to no result within the call's timeout: {}",
                                                         call.method->name, result.error().message));
  }
  // The caller holds the arguments' references until it has the reply; from then on this process must hold its own.
  if (const auto objects = process_.session->objects_in_use()) objects->settle();
  if (checkpoints_ != nullptr) {
    // A reply promises a durable effect, which a call without its checkpoint does not have.
    if (auto kept = checkpoints_->before_reply(); !kept) {
      result = make_error(kept.error().code, fmt::format("{} ran, but its checkpoint was not kept: {}",
                                                         call.method->name, kept.error().message));
    }
    now = process_.clock->now();
  }
  // The reply is the commit: it must not be sent after the lease has expired.
  now = process_.lease->wait_until_valid(now);
  const bool well = result.has_value();
  if (later && well) {
    later->send_to(call.responder, [&process = process_] {  // The process outlives its actors and their replies.
      if (const auto objects = process.session->objects_in_use()) objects->settle();
      process.lease->wait_until_valid(process.clock->now());
    });
  } else {
    answer(call, std::move(result));
  }
  if (now - begun > kShortCall) net::write_held();  // The next call may take as long.
  if (checkpoints_ != nullptr) checkpoints_->after_reply();
  if (exits) {
    net::write_held();
    actor_.exit();
  }
  return well;
}

// ---- health checks ----

void CallRunner::put_check(const std::shared_ptr<CallRunner>* self, Check check) {
  const auto found = class_.methods.find(check.method);
  const ActorMethod* const method = found == class_.methods.end() ? nullptr : &found->second;
  GroupQueue& lane = lane_for(check.method);
  Call call;
  call.job = [this, method, check = std::move(check)] {
    check.started();
    check.ended(method == nullptr ? Result<void>(make_error(ErrorCode::kNotFound, "is not in this program"))
                                  : run_check(*method, check.tells));
  };
  if (self != nullptr) return put_shared(*self, lane, std::move(call));
  std::vector<Call> lone;
  lone.push_back(std::move(call));
  put_own(lane, lone);
}

Result<void> CallRunner::run_check(const ActorMethod& method, bool tells) {
  try {
    const auto answer = guarded([&] { return method.invoke(object_.get(), to_bytes()); });
    if (!answer) return make_error(ErrorCode::kApplication, fmt::format("threw {}", answer.error().message));
    if (!tells) return {};
    const auto well = from_bytes<bool>(*answer);
    if (well && *well) return {};
    return make_error(ErrorCode::kApplication, "returned false");
  } catch (const internal::ActorExit&) {
    if (!exiting_.exchange(true)) actor_.exit();
    return {};
  }
}

void CallRunner::answer(const Call& call, Result<std::string>&& result) {
  if (cut_) return;
  if (call.stream) return call.stream->finish(std::move(result), call.responder);
  if (!call.kept) {
    // The caller may be in this process and continue on this thread, outside this actor's turn.
    actor_.leave_turn();
    call.responder->reply_here(std::move(result));
    return actor_.enter_turn();
  }
  std::shared_ptr<net::Responder> asks;
  {
    const std::lock_guard<std::mutex> hold(more_->cache_mutex);
    asks = more_->cache.finish(process_.clock->now(), call.responder->peer().caller, call.request.request_id, result);
  }
  if (asks) asks->reply(std::move(result));
}

}  // namespace volador
