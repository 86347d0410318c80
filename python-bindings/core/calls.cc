#include "python-bindings/core/calls.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "python-bindings/core/host.h"
#include "runtime/actor/type_name.h"

namespace volador::python {
namespace {

std::string encode_arguments(const Value& value, const std::vector<Value>& awaited) {
  return codec::write_envelope(2, [&](Encoder& encoder) {
    encode(encoder, value);
    encode(encoder, awaited);
  });
}

// A call whose arguments are encoded when it is sent.
class Call final : public internal::CallReply {
 public:
  void on_end(Result<std::string>&& result) override {
    const auto kept_until_told = std::move(pins);
    arguments = {};
    auto references = registration::claim_references<Value>(result);
    set(std::move(result), std::move(references));
  }
  static void send(const std::shared_ptr<Call>& call, const Value& value, const std::vector<Value>& awaited) {
    RefScope scope(RefScope::Kind::kSend);
    call->arguments = encode_arguments(value, awaited);
    call->pins = scope.take();
    internal::CallReply::send(call);
  }
};

// The values of futures; the error of the first failed one.
Result<std::vector<Value>> values_of(const std::vector<ValueFuture>& futures) {
  std::vector<Value> values;
  values.reserve(futures.size());
  for (const ValueFuture& future : futures) {
    auto value = future.result();
    if (!value) return make_error(std::move(value).error());
    values.push_back(std::move(*value));
  }
  return values;
}

// Calls `done` once, on any thread, when all futures have ended.
void when_all(const std::vector<ValueFuture>& futures, std::function<void()> done) {
  const auto left = std::make_shared<std::atomic<size_t>>(futures.size() + 1);
  const auto one = [left, done = std::make_shared<std::function<void()>>(std::move(done))] {
    if (--*left == 0) (*done)();
  };
  for (const ValueFuture& future : futures) future.when_ready(one);
  one();
}

// Calls that wait for futures, and the calls behind them, by actor. Thread safe.
class WaitingCalls {
 public:
  static WaitingCalls& instance() {
    static auto* calls = new WaitingCalls();  // Never destroyed: runtime threads use it until the process ends.
    return *calls;
  }

  // False: no call on this actor waits, and this one has no future to wait for; the caller sends it.
  bool put(const std::shared_ptr<Call>& call, Value& value, std::vector<ValueFuture>& futures) {
    if (futures.empty() && actors_.load(std::memory_order_acquire) == 0) return false;
    const ActorId actor = call->target;
    const auto waiting = std::make_shared<Waiting>();
    waiting->call = call;
    {
      const std::lock_guard hold(mutex_);
      if (futures.empty() && !queues_.contains(actor)) return false;
      waiting->value = std::move(value);
      waiting->futures = std::move(futures);
      queues_[actor].push_back(waiting);
      actors_.store(queues_.size(), std::memory_order_release);
    }
    when_all(waiting->futures, [this, actor, waiting] {
      {
        const std::lock_guard hold(mutex_);
        waiting->ready = true;
      }
      advance(actor);
    });
    return true;
  }

 private:
  struct Waiting {
    std::shared_ptr<Call> call;
    Value value;
    std::vector<ValueFuture> futures;
    bool ready = false;
  };

  // Sends the calls at the front that are ready. One thread at a time, so that the order is kept.
  void advance(const ActorId& actor) {
    std::unique_lock hold(mutex_);
    if (!sending_.insert(actor).second) return;
    while (true) {
      const auto queue = queues_.find(actor);
      if (queue == queues_.end() || !queue->second.front()->ready) break;
      const auto front = queue->second.front();
      hold.unlock();
      if (auto values = values_of(front->futures)) {
        Call::send(front->call, front->value, *values);
      } else {
        front->call->set(make_error(std::move(values).error()));
      }
      hold.lock();
      queue->second.pop_front();
      if (queue->second.empty()) queues_.erase(queue);
      actors_.store(queues_.size(), std::memory_order_release);
    }
    sending_.erase(actor);
  }

  std::mutex mutex_;
  std::map<ActorId, std::deque<std::shared_ptr<Waiting>>> queues_;
  std::set<ActorId> sending_;
  std::atomic<size_t> actors_{0};  // Size of queues_.
};

// A future of the values of futures.
Future<std::vector<Value>> gather(std::vector<ValueFuture> futures) {
  const auto reply = std::make_shared<Reply>();
  const auto held = std::make_shared<const std::vector<ValueFuture>>(std::move(futures));
  when_all(*held, [reply, held] {
    auto values = values_of(*held);
    if (!values) return reply->set(make_error(std::move(values).error()));
    auto kept = std::make_shared<const std::vector<Value>>(std::move(*values));
    reply->set(to_bytes(*kept), kept);
  });
  return Future<std::vector<Value>>(reply);
}

}  // namespace

uint64_t method_id(std::string_view name) { return names::fnv1a(name, names::fnv1a("python:")); }

ValueFuture call(const Handle& actor, std::string_view method, Value arguments, std::vector<ValueFuture> futures,
                 std::chrono::nanoseconds timeout) {
  const auto made = std::allocate_shared<Call>(PooledAllocator<Call>());
  made->target = actor.id();
  made->method = method_id(method);
  made->timeout = timeout;
  if (!WaitingCalls::instance().put(made, arguments, futures)) Call::send(made, arguments, {});
  return ValueFuture(made);
}

std::shared_ptr<internal::StreamReader> stream(const Handle& actor, std::string_view method, const Value& arguments,
                                               const std::vector<ValueFuture>& futures,
                                               std::chrono::nanoseconds timeout) {
  auto awaited = values_of(futures);
  if (!awaited) throw Exception(std::move(awaited).error());
  RefScope scope(RefScope::Kind::kSend);
  std::string packed = encode_arguments(arguments, *awaited);
  actor.leave(scope);  // Items may be read after the call has ended.
  return internal::StreamReader::open(
      actor.id(), method_id(method), std::move(packed), timeout,
      [](const Result<std::string>& item) { return registration::claim_references<Value>(item); }, scope.take());
}

ValueFuture submit(Value code, Value arguments, std::vector<ValueFuture> futures, const TaskOptions& options) {
  const auto start = [&](auto awaited) {
    auto builder = task<&run_task>(std::move(code), std::move(arguments), std::move(awaited))
                       .named(options.name)
                       .resources(options.resources)
                       .max_retries(options.max_retries);
    // Each returns the builder itself.
    if (options.retry_exceptions) std::move(builder).template retry_on<RaisedByTask>();
    for (const LabelRule& rule : options.place.labels) std::move(builder).label(rule.key, rule.value);
    if (!options.place.node.empty() && options.place.node_preferred) {
      std::move(builder).prefer_node(options.place.node);
    } else if (!options.place.node.empty()) {
      std::move(builder).node(options.place.node);
    }
    if (!options.group.is_nil()) std::move(builder).in(PlacementGroup(options.group), options.bundle);
    return std::move(builder).submit();
  };
  return futures.empty() ? start(std::vector<Value>()) : start(gather(std::move(futures)));
}

}  // namespace volador::python
