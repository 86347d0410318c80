#include "runtime/actor/session.h"

#include <fmt/format.h>

#include <atomic>
#include <mutex>
#include <set>

#include "runtime/adaptive_mutex.h"
#include "runtime/once_event.h"

namespace volador {
namespace {

std::atomic<uint64_t> last_serial{0};

// Threads cache the session and reload it when the version changes.
AdaptiveMutex current_mutex;
std::atomic<uint64_t> current_version{1};
std::shared_ptr<Session>& slot() {
  static auto* session = new std::shared_ptr<Session>();  // Leaked: threads may use it during process exit.
  return *session;
}

struct Found {
  uint64_t version = 0;
  std::weak_ptr<Session> session;
  ~Found();
};
thread_local bool found_is_gone = false;  // The thread is ending.
thread_local Found found;
Found::~Found() { found_is_gone = true; }

class DoneCall final : public OutgoingCall {
 public:
  explicit DoneCall(Session::Done done) : done_(std::move(done)) {}
  void on_end(Result<std::string>&& result) override {
    WakesTogether::wake_now();
    std::exchange(done_, nullptr)(std::move(result));
  }

 private:
  Session::Done done_;
};

}  // namespace

Result<void> check_concurrency(const SpawnRequest& request) {
  constexpr int kThreadsMax = 1000;  // Per actor.
  const auto refuse = [](std::string why) { return make_error(ErrorCode::kInvalidArgument, std::move(why)); };
  int threads = request.max_concurrency;
  if (request.max_concurrency < 1)
    return refuse(fmt::format("max_concurrency: expected 1 or more, got {}", request.max_concurrency));
  std::set<std::string> names;
  std::set<uint64_t> methods;
  for (const SpawnRequest::ConcurrencyGroup& group : request.groups) {
    if (group.name.empty() || !names.insert(group.name).second) {
      return refuse(fmt::format("concurrency_group: \"{}\" is {}; give each group of an actor a name of its own",
                                group.name, group.name.empty() ? "no name" : "there twice"));
    }
    if (group.threads < 1)
      return refuse(
          fmt::format("concurrency_group \"{}\": expected 1 thread or more, got {}", group.name, group.threads));
    for (const uint64_t method : group.methods) {
      if (!methods.insert(method).second)
        return refuse(fmt::format(
            "concurrency_group \"{}\": one of its methods is listed twice; a method belongs to one group", group.name));
    }
    threads = std::min(threads, kThreadsMax) + std::min(group.threads, kThreadsMax);
  }
  if (threads > kThreadsMax)
    return refuse(
        fmt::format("max_concurrency: the actor asks for {} threads in all, the limit is {}; use several actors",
                    threads, kThreadsMax));
  if (threads > 1 && (request.checkpoint_calls > 0 || request.checkpoint_interval.count() > 0)) {
    return refuse(
        "max_concurrency: an actor that keeps checkpoints runs its calls one after another, so that each checkpoint is "
        "a state between two calls; "
        "leave checkpoint_every out, or keep max_concurrency at 1");
  }
  if (request.max_task_retries < -1)
    return refuse(
        fmt::format("max_task_retries: expected -1 (without limit) or more, got {}", request.max_task_retries));
  return {};
}

Result<void> check_isolation(const SpawnRequest& request) {
  if (request.isolation != Isolation::kShared) return {};
  const auto refuse = [](std::string why) {
    return make_error(ErrorCode::kInvalidArgument, "isolation shared: " + std::move(why));
  };
  if (const Amount gpus = request.resources.get("gpus"); gpus > 0) {
    return refuse(fmt::format(
        "the actor asks for gpus {}, but a process sees the same devices in all of its actors; leave .isolation() out, "
        "so that it gets a process of its own",
        static_cast<double>(gpus) / static_cast<double>(kUnit)));
  }
  if (!request.env.empty()) {
    return refuse(
        fmt::format("the actor sets {} in its environment, which all actors of a process have in common; leave .env() "
                    "or .isolation() out, "
                    "or pass the value to the constructor",
                    request.env.begin()->first));
  }
  return {};
}

Result<void> check_health(const SpawnRequest& request) {
  const SpawnRequest::HealthMethod& health = request.health;
  if (health.method == 0) return {};
  const auto refuse = [](const char* what, const char* rule, int64_t got, const char* unit) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("health_check: {}: expected {}, got {}{}", what, rule, got, unit));
  };
  if (health.period.count() < 1) return refuse("period", "1 ms or more", health.period.count(), " ms");
  if (health.timeout.count() < 1) return refuse("timeout", "1 ms or more", health.timeout.count(), " ms");
  if (health.turn_timeout.count() < 0)
    return refuse("turn_timeout", "0 (none) or more", health.turn_timeout.count(), " ms");
  if (health.failures < 1) return refuse("failures", "1 or more", health.failures, "");
  return {};
}

std::string_view to_string(Isolation isolation) { return isolation == Isolation::kShared ? "shared" : "process"; }

std::string_view to_string(ActorState state) {
  switch (state) {
    case ActorState::kPending:
      return "pending";
    case ActorState::kStarting:
      return "starting";
    case ActorState::kAlive:
      return "alive";
    case ActorState::kRestarting:
      return "restarting";
    case ActorState::kDead:
      return "dead";
  }
  return "?";
}

std::shared_ptr<OutgoingCall> Session::make_call(uint64_t method, std::string arguments, Done done) {
  auto made = std::make_shared<DoneCall>(std::move(done));
  made->method = method;
  made->arguments = std::move(arguments);
  return made;
}

uint64_t Session::call(const ActorId& actor, uint64_t method, std::string arguments, std::chrono::nanoseconds timeout,
                       Done done, Repeat repeat) {
  const auto made = make_call(method, std::move(arguments), std::move(done));
  made->target = actor;
  made->timeout = timeout;
  made->may_repeat = repeat == Repeat::kAsTheActorSays;
  start(made);
  return made->request_id;
}

Session::Session() : serial_(last_serial.fetch_add(1) + 1) {}

std::shared_ptr<Session> Session::current() {
  auto session = current_or_none();
  if (!session)
    throw Exception(Error{ErrorCode::kUnavailable,
                          "this process is not connected to a cluster: call volador::init(argc, argv) first in main, "
                          "and keep what it returns"});
  return session;
}

std::shared_ptr<Session> Session::current_or_none() {
  if (!found_is_gone && found.version == current_version.load(std::memory_order_acquire)) return found.session.lock();
  const std::lock_guard hold(current_mutex);
  if (!found_is_gone) {
    found.version = current_version.load(std::memory_order_relaxed);
    found.session = slot();
  }
  return slot();
}

void Session::set_current(std::shared_ptr<Session> session) {
  const std::lock_guard hold(current_mutex);
  slot().swap(session);  // The previous session ends after the lock is released.
  current_version.fetch_add(1, std::memory_order_release);
}

}  // namespace volador
