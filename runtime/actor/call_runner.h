// Runs the calls of one actor, sequentially or concurrently as configured, on its own threads or on those of a shared
// host (shared_threads.h).
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

// Call queues and execution of one actor.
class CallRunner final : public SharedThreads::Runnable {
 public:
  // Shared by the actors of one process; outlives them.
  struct Process {
    LoopSystem* loops = nullptr;
    SharedThreads* threads = nullptr;  // Null: each actor has its own threads.
    const HostLease* lease = nullptr;
    const Clock* clock = nullptr;
    std::shared_ptr<ClusterSession> session;
    net::IoLoop* io = nullptr;
  };
  // Interface of the actor to its runner; outlives running calls.
  class Actor {
   public:
    virtual ~Actor() = default;
    // Called before and after a turn, on the thread that runs it.
    virtual void enter_turn() {}
    virtual void leave_turn() {}
    // A method called exit_actor().
    virtual void exit() = 0;
    virtual Error exit_error() const = 0;
  };
  // Number of completed calls and their total time.
  struct CallStats {
    std::atomic<uint64_t> calls{0};
    std::atomic<int64_t> busy_ns{0};
  };
  struct Options {
    const Process* process = nullptr;
    Actor* actor = nullptr;
    ActorId id;  // Actor id, for the call trace.
    const ActorClass* actor_class = nullptr;
    std::shared_ptr<void> object;  // Null: set by set_object() in the first job.
    // The actor's own thread, first of those that run calls outside concurrency groups. Posting to it interrupts the
    // process's I/O loop.
    EventLoop* first_thread = nullptr;
    int max_concurrency = 1;
    std::vector<protocol::ConcurrencyGroup> groups;
    bool keeps_answers = false;
    int math_threads = 1;
    ActorCheckpoints* checkpoints = nullptr;  // Null: no checkpoints. Only with one thread.
    CallStats* tally = nullptr;               // Call statistics of its own threads; outlives the runner. Null: none.
  };

  // A health check: a call of a method without arguments.
  struct Check {
    uint64_t method = 0;
    bool tells = false;  // The method returns a bool, false if unhealthy.
    // Called on the thread that runs the check. An error completes the sentence "health check Store::alive …".
    std::function<void()> started;
    std::function<void(Result<void>)> ended;
  };

  explicit CallRunner(Options options);
  // Called on the first thread. Waits for calls on the actor's other threads.
  ~CallRunner() override;
  CallRunner(const CallRunner&) = delete;
  CallRunner& operator=(const CallRunner&) = delete;

  // Queues calls. Any thread; does not block. Calls of one lane start in order. A call without a responder was already
  // answered.
  void on_calls(std::span<net::IncomingCall> calls);

  // For a class that runs tasks: ends calls that have not begun with kCancelled, newest first. Any thread.
  void give_back();
  // Runs among the calls of the method's group. Dropped after stop().
  void check(Check check) { put_check(nullptr, std::move(check)); }

  // ---- on the threads of a shared host; `self` owns this runner ----

  void on_call(const std::shared_ptr<CallRunner>& self, net::CallRequest&& request,
               std::shared_ptr<net::Responder>&& responder);
  // Runs among the calls outside concurrency groups.
  void post(const std::shared_ptr<CallRunner>& self, std::function<void()> job);
  void check(const std::shared_ptr<CallRunner>& self, Check check) { put_check(&self, std::move(check)); }
  // Called in a job, before the first call.
  void set_object(std::shared_ptr<void> object) { object_ = std::move(object); }
  void set_checkpoints(ActorCheckpoints* checkpoints) { checkpoints_ = checkpoints; }
  // Rejects queued and later calls with `refusal`. `done` runs when no call is running, on any thread, possibly before
  // stop() returns.
  void stop(const Error& refusal, std::function<void()> done);
  // After stop(): ends running calls with this error; their replies are dropped.
  void cut(const Error& error);

 private:
  struct Call {
    const ActorMethod* method = nullptr;
    net::CallRequest request;
    std::shared_ptr<net::Responder> responder;
    std::optional<BootTime> deadline;
    bool kept = false;
    std::shared_ptr<internal::CancelSignal> signal;  // For a kept call.
    std::shared_ptr<internal::StreamSource> stream;  // For a method with a Sink.
    std::function<void()> job;                       // Replaces the call.

    // Frees memory and responder.
    void release() {
      responder.reset();
      request.body = {};
      signal.reset();
      stream.reset();
      job = nullptr;
    }
  };
  using StreamKey = std::pair<net::CallerId, uint64_t>;
  // Queue of calls and the threads that serve it.
  struct GroupQueue {
    AdaptiveMutex mutex;
    std::vector<Call> waiting;
    std::atomic<bool> any_waits{false};  // For a lone own thread: whether calls are queued; read without the mutex.
    bool leads = false;                  // The lone thread runs the I/O loop: it is not idle and sees new calls.
    size_t next = 0;                     // With one_by_one: index of the first call not taken.
    bool one_by_one = false;             // Threads take one call at a time instead of the whole queue.
    int width = 1;                       // Maximum number of concurrent calls.
    int free = 0;                        // On shared threads: number of further turns allowed.
    std::vector<EventLoop*> idle;        // Own threads to wake for the next call.
    std::vector<Call*> running;          // Calls running on shared threads.
  };
  // State that most actors of a shared host do not need; allocated on demand.
  struct OptionalState {
    std::vector<std::unique_ptr<EventLoop>> threads;
    std::vector<std::unique_ptr<GroupQueue>> lanes;  // Lanes of the concurrency groups.
    std::unordered_map<uint64_t, GroupQueue*> lane_of;
    std::mutex cache_mutex;
    ReplyCache cache{ReplyCache::Limits{}};
    std::mutex streams_mutex;
    std::map<StreamKey, std::shared_ptr<internal::StreamSource>>
        streams;  // Streams of methods that run or have unread items.
  };

  void run_turn(const std::shared_ptr<Runnable>& self, void* what) override;
  void fill(GroupQueue& lane, const std::string& name, int threads, EventLoop* first);
  GroupQueue& lane_for(uint64_t method);
  [[nodiscard]] bool accept(Call& call, net::CallRequest&& request, std::shared_ptr<net::Responder>&& responder);
  void put_shared(const std::shared_ptr<CallRunner>& self, GroupQueue& lane, Call&& call);
  void put_own(GroupQueue& lane, std::vector<Call>& calls);
  void drain(GroupQueue& lane, EventLoop* thread);
  [[nodiscard]] bool lead(GroupQueue& lane, EventLoop* thread);
  void run_batch(std::span<Call> batch);
  static void take(GroupQueue& lane, EventLoop* thread, std::vector<Call>& batch);
  static void compact(GroupQueue& lane);
  enum class Taken : uint8_t { kCall, kNothing, kLast };
  Taken take_turn(GroupQueue& lane, Call& call);
  static void end_turn(GroupQueue& lane, Call& call);
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
  CallStats* const tally_;
  const int math_threads_;
  const bool keeps_answers_;
  bool runs_loop_ = false;  // The only thread runs the I/O loop while no call is queued.
  std::atomic<bool> exiting_{false};
  std::atomic<bool> cut_{false};
  GroupQueue lane_;  // Calls outside concurrency groups.
  std::unique_ptr<OptionalState> more_;
  std::shared_ptr<internal::IdleLending> idle_;  // For a class that runs tasks; otherwise null.
  struct Stopping {
    Error refusal;
    std::atomic<size_t> running{1};  // Lanes with running calls, plus one for stop() itself.
    std::function<void()> done;
    void settle() {
      if (running.fetch_sub(1) == 1) std::exchange(done, nullptr)();  // `done` may own the actor.
    }
  };
  std::unique_ptr<Stopping> stopping_;  // Set under the mutexes of all lanes.
};

}  // namespace volador
