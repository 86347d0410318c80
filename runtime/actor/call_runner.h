// Runs the calls of the actor that a host holds: one after another on the actor's thread, or several at once where it
// asked for that.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/actor/actor_class.h"
#include "runtime/actor/reply_cache.h"
#include "runtime/actor/stream_source.h"
#include "runtime/clock.h"
#include "runtime/loop/event_loop.h"
#include "runtime/net/channel.h"
#include "runtime/protocol/control.pb.h"

namespace volador {

class ActorCheckpoints;
class ClusterSession;
class HostLease;

class CallRunner {
 public:
  struct Options {
    const ActorClass* actor_class = nullptr;
    std::shared_ptr<void> object;
    LoopSystem* loops = nullptr;
    EventLoop* first_thread = nullptr;  // The actor's own: the first of those that run the calls of no group.
    int max_concurrency = 1;
    std::vector<protocol::ConcurrencyGroup> groups;
    bool keeps_answers = false;
    int math_threads = 1;
    const HostLease* lease = nullptr;
    const Clock* clock = nullptr;
    ActorCheckpoints* checkpoints = nullptr;  // Null: it keeps none. Only with one thread.
    std::shared_ptr<ClusterSession> session;
  };

  explicit CallRunner(Options options);
  // Waits for what runs on other threads than the first. On the first thread.
  ~CallRunner();
  CallRunner(const CallRunner&) = delete;
  CallRunner& operator=(const CallRunner&) = delete;

  // Any thread; returns at once. Calls of one lane start in the order in which they came.
  void on_call(net::CallRequest request, std::shared_ptr<net::Responder> responder);

 private:
  struct Call {
    const ActorMethod* method = nullptr;
    net::CallRequest request;
    std::shared_ptr<net::Responder> responder;
    std::optional<BootTime> deadline;
    bool kept = false;
    std::shared_ptr<internal::StreamSource> stream;  // Of a method with a Sink.
  };
  using StreamKey = std::pair<net::CallerId, uint64_t>;
  // Threads that take calls from one queue.
  struct Lane {
    std::mutex mutex;
    std::vector<Call> waiting;
    size_t next = 0;  // Several threads: the first one that is not taken.
    std::vector<EventLoop*> threads;
    std::vector<EventLoop*> idle;  // Those that the next call has to wake.
  };

  Lane& add_lane(const std::string& name, int threads, EventLoop* first);
  void put(Lane& lane, Call call);
  void drain(Lane& lane, EventLoop* thread);
  static void take(Lane& lane, EventLoop* thread, std::vector<Call>& batch);
  void execute(Call& call);
  void answer(const Call& call, Result<std::string> result);
  [[nodiscard]] bool begin_kept(Call& call);
  void begin_stream(Call& call);
  void fetch(const net::CallRequest& request, std::shared_ptr<net::Responder> responder);
  void exit();
  static Error exit_error();

  const Options options_;
  std::vector<std::unique_ptr<EventLoop>> more_threads_;
  std::vector<std::unique_ptr<Lane>> lanes_;  // The first one's calls are those of no group.
  std::unordered_map<uint64_t, Lane*> lane_of_;
  std::atomic<bool> exiting_{false};
  std::mutex cache_mutex_;
  ReplyCache cache_{ReplyCache::Limits{}};
  std::mutex streams_mutex_;
  std::map<StreamKey, std::shared_ptr<internal::StreamSource>> streams_;  // Of methods that run, or of which items are left.
};

}  // namespace volador
