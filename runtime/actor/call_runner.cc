#include "runtime/actor/call_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/actor/actor_checkpoints.h"
#include "runtime/actor/call_context.h"
#include "runtime/actor/cluster_session.h"
#include "runtime/actor/host_lease.h"
#include "runtime/actor/math_threads.h"
#include "runtime/actor/self.h"
#include "runtime/log.h"
#include "runtime/store/object_store.h"

namespace volador {
namespace {

constexpr size_t kTakenMax = 1024;  // Places of taken calls at the front of a queue before it is moved up.

}  // namespace

CallRunner::CallRunner(Options options) : options_(std::move(options)) {
  add_lane(options_.actor_class->name, options_.max_concurrency, options_.first_thread);
  for (const protocol::ConcurrencyGroup& group : options_.groups) {
    Lane& lane = add_lane(group.name(), group.threads(), nullptr);
    for (const uint64_t method : group.methods()) lane_of_.emplace(method, &lane);
  }
}

CallRunner::~CallRunner() {
  for (const auto& thread : more_threads_) thread->stop();
}

CallRunner::Lane& CallRunner::add_lane(const std::string& name, int threads, EventLoop* first) {
  auto lane = std::make_unique<Lane>();
  if (first != nullptr) lane->threads.push_back(first);
  while (static_cast<int>(lane->threads.size()) < threads) {
    more_threads_.push_back(std::make_unique<EventLoop>(*options_.loops, name, EventLoop::Thread::kOwn));
    EventLoop* made = more_threads_.back().get();
    made->post([math = options_.math_threads] { set_math_threads(math); });
    lane->threads.push_back(made);
  }
  lane->idle.assign(lane->threads.rbegin(), lane->threads.rend());  // The last one is taken first.
  lanes_.push_back(std::move(lane));
  return *lanes_.back();
}

void CallRunner::on_call(net::CallRequest request, std::shared_ptr<net::Responder> responder) {
  if (request.method == internal::stream_fetch_method()) return fetch(request, std::move(responder));
  const auto method = options_.actor_class->methods.find(request.method);
  if (method == options_.actor_class->methods.end()) {
    responder->reply(make_error(ErrorCode::kInvalidArgument, fmt::format("class {} has no such method in this program",
                                                                         options_.actor_class->name)));
    return;
  }
  const auto lane = lane_of_.find(request.method);
  Call call{.method = &method->second,
            .request = std::move(request),
            .responder = std::move(responder),
            .deadline = {},
            .kept = false};
  if (call.request.timeout.count() > 0) call.deadline = options_.clock->now() + call.request.timeout;
  call.kept = call.request.keep_answer && options_.keeps_answers;
  if (call.kept && !begin_kept(call)) return;
  if (call.method->streams) begin_stream(call);
  put(lane == lane_of_.end() ? *lanes_.front() : *lane->second, std::move(call));
}

void CallRunner::begin_stream(Call& call) {
  const StreamKey key{call.responder->peer().caller, call.request.request_id};
  call.stream = std::make_shared<internal::StreamSource>([this, key] {
    const std::lock_guard<std::mutex> hold(streams_mutex_);
    streams_.erase(key);
  });
  {
    const std::lock_guard<std::mutex> hold(streams_mutex_);
    streams_[key] = call.stream;
  }
  call.responder->on_cancel([weak = std::weak_ptr<internal::StreamSource>(call.stream)] {
    if (const auto stream = weak.lock()) stream->cancel();
  });
}

void CallRunner::fetch(const net::CallRequest& request, std::shared_ptr<net::Responder> responder) {
  const auto number = from_bytes<uint64_t>(request.body);
  std::shared_ptr<internal::StreamSource> stream;
  if (number) {
    const std::lock_guard<std::mutex> hold(streams_mutex_);
    const auto found = streams_.find({responder->peer().caller, *number});
    if (found != streams_.end()) stream = found->second;
  }
  if (stream) return stream->fetch(std::move(responder));
  responder->reply(
      make_error(ErrorCode::kNotFound, "the stream has ended: its method returned, or its actor started anew"));
}

// False: it ran or runs already, or may not run.
bool CallRunner::begin_kept(Call& call) {
  ReplyCache::Decision decision;
  {
    const std::lock_guard<std::mutex> hold(cache_mutex_);
    decision = cache_.begin(options_.clock->now(), call.responder->peer().caller, call.request.request_id,
                            call.request.acknowledged, call.responder);
  }
  if (decision.verdict == ReplyCache::Verdict::kAnswered) call.responder->reply(std::move(decision.answer));
  return decision.verdict == ReplyCache::Verdict::kRun;
}

void CallRunner::put(Lane& lane, Call call) {
  EventLoop* woken = nullptr;
  {
    const std::lock_guard<std::mutex> hold(lane.mutex);
    if (!lane.idle.empty()) {
      woken = lane.idle.back();
      lane.idle.pop_back();
    }
    lane.waiting.push_back(std::move(call));
  }
  if (woken != nullptr) woken->post([this, &lane, woken] { drain(lane, woken); });
}

// What a thread takes at once: all that waits where it is alone, else one call. Nothing: it is idle now. A lone thread
// is idle from when it has taken its batch: what was posted to it meanwhile, a checkpoint perhaps, has its turn before
// the next one.
void CallRunner::take(Lane& lane, EventLoop* thread, std::vector<Call>& batch) {
  batch.clear();
  const std::lock_guard<std::mutex> hold(lane.mutex);
  if (lane.threads.size() == 1) {
    lane.waiting.swap(batch);
    lane.idle.push_back(thread);
  } else if (lane.next == lane.waiting.size()) {
    lane.waiting.clear();
    lane.next = 0;
    lane.idle.push_back(thread);
  } else {
    batch.push_back(std::move(lane.waiting[lane.next++]));
    if (2 * lane.next <= lane.waiting.size() + kTakenMax) return;
    lane.waiting.erase(lane.waiting.begin(), lane.waiting.begin() + static_cast<std::ptrdiff_t>(lane.next));
    lane.next = 0;
  }
}

void CallRunner::drain(Lane& lane, EventLoop* thread) {
  thread_local std::vector<Call> batch;  // Its memory serves again.
  do {
    take(lane, thread, batch);
    for (Call& call : batch) {
      execute(call);
      call = {};  // Its memory and its responder go now, not after the batch.
    }
  } while (lane.threads.size() > 1 && !batch.empty());
}

void CallRunner::execute(Call& call) {
  if (call.responder->cancelled()) {
    if (call.stream) {
      return call.stream->finish(make_error(ErrorCode::kCancelled, "cancelled before it ran"), call.responder);
    }
    if (!call.kept) return;
    const net::CallerId& caller = call.responder->peer().caller;
    const std::lock_guard<std::mutex> hold(cache_mutex_);
    if (!cache_.is_awaited(caller, call.request.request_id)) return cache_.drop(caller, call.request.request_id);
  }
  options_.lease->wait_until_valid();
  if (exiting_) return answer(call, make_error(exit_error()));
  Result<std::string> result;
  bool exits = false;
  {
    internal::CallContext context(call.responder, call.kept, call.deadline, *options_.clock, call.stream.get());
    try {
      result = guarded([&] { return call.method->invoke(options_.object.get(), call.request.body); });
    } catch (const internal::ActorExit&) {
      result = make_error(exit_error());
      exits = !exiting_.exchange(true);
    }
  }
  // The caller keeps what its arguments refer to until it has the answer: from then on it is ours to have counted.
  if (const auto objects = options_.session->objects_in_use()) objects->settle();
  if (options_.checkpoints != nullptr) {
    // An answer promises that its effect survives: without the checkpoint there is none.
    if (auto kept = options_.checkpoints->before_reply(); !kept) {
      result = make_error(kept.error().code, fmt::format("{} ran, but its checkpoint was not kept: {}",
                                                         call.method->name, kept.error().message));
    }
  }
  options_.lease->wait_until_valid();  // The reply is the commit: it must not leave after the lease has ended.
  answer(call, std::move(result));
  if (options_.checkpoints != nullptr) options_.checkpoints->after_reply();
  if (exits) exit();
}

void CallRunner::answer(const Call& call, Result<std::string> result) {
  if (call.stream) return call.stream->finish(std::move(result), call.responder);
  if (!call.kept) return call.responder->reply(std::move(result));
  std::shared_ptr<net::Responder> asks;
  {
    const std::lock_guard<std::mutex> hold(cache_mutex_);
    asks = cache_.finish(options_.clock->now(), call.responder->peer().caller, call.request.request_id, result);
  }
  if (asks) asks->reply(std::move(result));
}

Error CallRunner::exit_error() {
  return {ErrorCode::kActorDied,
          fmt::format("actor {} {} ended itself by exit_actor()", self().class_name, short_id(self().id))};
}

// The head says the end, so that it is for good and everybody learns of it.
void CallRunner::exit() {
  constexpr std::chrono::seconds kDestructor{10};
  const auto ended = options_.session->kill(self().id, true, kDestructor);
  if (!ended)
    log::warn("host", "exit_actor: the head cannot be told; the actor lives on", {{"error", ended.error().message}});
}

}  // namespace volador
