// Runs the calls of one actor: one after another, or several at once where it asked for that. On threads of its own, or
// on those of a shared host (shared_threads.h).
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/actor/actor_class.h"
#include "runtime/actor/idle_lending.h"
#include "runtime/actor/reply_cache.h"
#include "runtime/actor/shared_threads.h"
#include "runtime/actor/stream_source.h"
#include "runtime/adaptive_mutex.h"
#include "runtime/clock.h"
#include "runtime/loop/event_loop.h"
#include "runtime/net/channel.h"
#include "runtime/protocol/control.pb.h"

namespace volador {

class ActorCheckpoints;
class ClusterSession;
class HostLease;

class CallRunner final : public SharedThreads::Runnable {
 public:
  // What the actors of one process have in common; outlives them.
  struct Process {
    LoopSystem* loops = nullptr;
    SharedThreads* threads = nullptr;  // Null: each actor has threads of its own.
    const HostLease* lease = nullptr;
    const Clock* clock = nullptr;
    std::shared_ptr<ClusterSession> session;
    net::IoLoop* io = nullptr;
  };
  // The actor, as its runner needs it; outlives what runs.
  class Actor {
   public:
    virtual ~Actor() = default;
    // Around what it runs, on the thread that does.
    virtual void enter_turn() {}
    virtual void leave_turn() {}
    // One of its methods called exit_actor().
    virtual void exit() = 0;
    virtual Error exit_error() const = 0;
  };
  // Calls that have ended, and the time in them together.
  struct Tally {
    std::atomic<uint64_t> calls{0};
    std::atomic<int64_t> busy_ns{0};
  };
  struct Options {
    const Process* process = nullptr;
    Actor* actor = nullptr;
    ActorId id;  // Its own, for the trace of calls.
    const ActorClass* actor_class = nullptr;
    std::shared_ptr<void> object;       // Null: set_object() gives it, in the first job.
    // The actor's own: the first of those that run the calls of no group. What is posted to it interrupts the process's I/O loop.
    EventLoop* first_thread = nullptr;
    int max_concurrency = 1;
    std::vector<protocol::ConcurrencyGroup> groups;
    bool keeps_answers = false;
    int math_threads = 1;
    ActorCheckpoints* checkpoints = nullptr;  // Null: it keeps none. Only with one thread.
    Tally* tally = nullptr;                   // Of calls on threads of its own; outlives it. Null: nobody counts.
  };

  // A look at the actor's health, by one of its methods without arguments.
  struct Check {
    uint64_t method = 0;
    bool tells = false;  // The method returns whether all is well.
    // On the thread that runs it. An error says what was wrong, as the end of "health check Store::alive …".
    std::function<void()> started;
    std::function<void(Result<void>)> ended;
  };

  explicit CallRunner(Options options);
  // Waits for what runs on other threads of the actor's own than the first. On the first thread.
  ~CallRunner() override;
  CallRunner(const CallRunner&) = delete;
  CallRunner& operator=(const CallRunner&) = delete;

  // Any thread; returns at once. Calls of one lane start in the order in which they came. One without a responder is answered already.
  void on_calls(std::span<net::IncomingCall> calls);

  // Of a class that runs tasks: what has not begun ends with kCancelled, the newest first. Any thread.
  void give_back();
  // In turn with the calls of the method's group. After stop(): dropped.
  void check(Check check) { put_check(nullptr, std::move(check)); }

  // ---- on the threads of a shared host; `self` is this ----

  void on_call(const std::shared_ptr<CallRunner>& self, net::CallRequest&& request,
               std::shared_ptr<net::Responder>&& responder);
  // Runs in turn with the calls of no group.
  void post(const std::shared_ptr<CallRunner>& self, std::function<void()> job);
  void check(const std::shared_ptr<CallRunner>& self, Check check) { put_check(&self, std::move(check)); }
  // In a job, before the first call.
  void set_object(std::shared_ptr<void> object) { object_ = std::move(object); }
  void set_checkpoints(ActorCheckpoints* checkpoints) { checkpoints_ = checkpoints; }
  // Takes no more calls: those that wait, and all later ones, end with `refusal`. `done` runs once nothing runs any
  // more, on any thread, perhaps at once.
  void stop(const Error& refusal, std::function<void()> done);
  // After stop(): who waits for what runs gets this error now, and what it still answers is dropped.
  void cut(const Error& error);

 private:
  struct Call {
    const ActorMethod* method = nullptr;
    net::CallRequest request;
    std::shared_ptr<net::Responder> responder;
    std::optional<BootTime> deadline;
    bool kept = false;
    std::shared_ptr<internal::CancelSignal> signal;  // Of a kept one.
    std::shared_ptr<internal::StreamSource> stream;  // Of a method with a Sink.
    std::function<void()> job;                       // Instead of a call.

    // Its memory and its responder go.
    void release() {
      responder.reset();
      request.body = {};
      signal.reset();
      stream.reset();
      job = nullptr;
    }
  };
  using StreamKey = std::pair<net::CallerId, uint64_t>;
  // Threads that take calls from one queue.
  struct Lane {
    AdaptiveMutex mutex;
    std::vector<Call> waiting;
    std::atomic<bool> any_waits{false};  // Of a lone thread of its own: whether its next take() finds one; read without the mutex.
    bool leads = false;                  // Its lone thread runs the I/O loop: it is not idle, and finds what is put.
    size_t next = 0;               // Where calls are taken one by one: the first one that is not taken.
    bool one_by_one = false;       // What its thread has not begun it has not taken. Else it takes all at once.
    int width = 1;                 // Calls that run at once.
    int free = 0;                  // On shared threads: turns that may still begin.
    std::vector<EventLoop*> idle;  // On threads of its own: those that the next call has to wake.
    std::vector<Call*> running;    // On shared threads.
  };
  // What most actors of a shared host do without.
  struct More {
    std::vector<std::unique_ptr<EventLoop>> threads;
    std::vector<std::unique_ptr<Lane>> lanes;  // Of groups.
    std::unordered_map<uint64_t, Lane*> lane_of;
    std::mutex cache_mutex;
    ReplyCache cache{ReplyCache::Limits{}};
    std::mutex streams_mutex;
    std::map<StreamKey, std::shared_ptr<internal::StreamSource>>
        streams;  // Of methods that run, or of which items are left.
  };

  void run_turn(const std::shared_ptr<Runnable>& self, void* what) override;
  void fill(Lane& lane, const std::string& name, int threads, EventLoop* first);
  Lane& lane_for(uint64_t method);
  [[nodiscard]] bool accept(Call& call, net::CallRequest&& request, std::shared_ptr<net::Responder>&& responder);
  void put_shared(const std::shared_ptr<CallRunner>& self, Lane& lane, Call&& call);
  void put_own(Lane& lane, std::vector<Call>& calls);
  void drain(Lane& lane, EventLoop* thread);
  [[nodiscard]] bool lead(Lane& lane, EventLoop* thread);
  void run_batch(std::span<Call> batch);
  static void take(Lane& lane, EventLoop* thread, std::vector<Call>& batch);
  static void compact(Lane& lane);
  enum class Taken : uint8_t { kCall, kNothing, kLast };
  Taken take_turn(Lane& lane, Call& call);
  static void end_turn(Lane& lane, Call& call);
  static void refuse(Call& call, const Error& error);
  void put_check(const std::shared_ptr<CallRunner>* self, Check check);
  Result<void> run_check(const ActorMethod& method, bool tells);
  bool execute(Call& call, BootTime& now);
  void answer(const Call& call, Result<std::string>&& result);
  [[nodiscard]] bool begin_kept(Call& call);
  void begin_stream(Call& call);
  void fetch(const net::CallRequest& request, std::shared_ptr<net::Responder> responder);
  template <class F>
  void for_each_lane(F&& function);

  const Process& process_;
  Actor& actor_;
  const ActorId id_;
  const ActorClass& class_;
  std::shared_ptr<void> object_;
  ActorCheckpoints* checkpoints_;
  Tally* const tally_;
  const int math_threads_;
  const bool keeps_answers_;
  bool runs_loop_ = false;  // Its only thread runs the I/O loop while no call waits.
  std::atomic<bool> exiting_{false};
  std::atomic<bool> cut_{false};
  Lane lane_;  // Of calls in no group.
  std::unique_ptr<More> more_;
  std::shared_ptr<internal::IdleLending> idle_;  // Of a class that runs tasks; else null.
  struct Stopping {
    Error refusal;
    std::atomic<size_t> running{1};  // Lanes with something that runs, and stop() itself.
    std::function<void()> done;
    void settle() {
      if (running.fetch_sub(1) == 1) std::exchange(done, nullptr)();  // It may hold the actor.
    }
  };
  std::unique_ptr<Stopping> stopping_;  // Set under the mutexes of all lanes.
};

}  // namespace volador
