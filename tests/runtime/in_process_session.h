// A cluster within the test's process: every actor is an object with its own thread, resources are counted, and actors
// can be killed. The actor classes, their codecs and their methods are the real ones.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/actor/actor_class.h"
#include "runtime/actor/session.h"
#include "runtime/random.h"

namespace volador {

class InProcessSession final : public Session, public std::enable_shared_from_this<InProcessSession> {
 public:
  explicit InProcessSession(ResourceSet total) : total_(std::move(total)) {}
  ~InProcessSession() override {
    std::vector<std::shared_ptr<Remote>> all;
    {
      const std::lock_guard<std::mutex> hold(mutex_);
      for (auto& [id, remote] : actors_) {
        remote->ending = true;
        all.push_back(remote);
      }
      changed_.notify_all();
    }
    for (auto& remote : all) {
      if (remote->thread.joinable()) remote->thread.join();
    }
  }

  // Kills the living actors with this display name, like the end of a process: their calls end with kActorDied.
  void die_all(const std::string& how) { die("", how, false); }
  void die(const std::string& display, const std::string& how, bool lost) {
    std::vector<UniqueFunction<void()>> later;
    {
      const std::lock_guard<std::mutex> hold(mutex_);
      std::vector<std::shared_ptr<Remote>> dying;  // Their replacements, which start at once, survive.
      for (auto& [id, remote] : actors_) {
        if (display.empty() ? remote->status.state == ActorState::kAlive : remote->request.display == display)
          dying.push_back(remote);
      }
      for (auto& remote : dying) end(*remote, how, lost, later);
    }
    for (auto& function : later) function();
  }
  // Lets the next call with a timeout time out; its method continues to run.
  void time_out_next_call() {
    const std::lock_guard<std::mutex> hold(mutex_);
    time_out_next_ = true;
  }
  // Simulates that no head was reachable for this time at the end of the call that times out.
  void lose_head_during_timeout(std::chrono::nanoseconds time) {
    const std::lock_guard<std::mutex> hold(mutex_);
    time_out_next_ = true;
    apart_at_timeout_ = time;
  }
  std::chrono::nanoseconds time_without_head() override {
    const std::lock_guard<std::mutex> hold(mutex_);
    return apart_;
  }
  // Simulates that the cluster was stopped: requests fail with this error, and nothing is spawned any more.
  void leave(const Error& why) {
    const std::lock_guard<std::mutex> hold(mutex_);
    left_ = why;
  }
  std::optional<Error> left() override {
    const std::lock_guard<std::mutex> hold(mutex_);
    return left_;
  }
  // Loses every n-th reply: kUnknownOutcome.
  void lose_every(int n) {
    const std::lock_guard<std::mutex> hold(mutex_);
    lose_every_ = n;
  }
  int spawned() const {
    const std::lock_guard<std::mutex> hold(mutex_);
    return spawned_;
  }
  int alive_max() const {
    const std::lock_guard<std::mutex> hold(mutex_);
    return alive_max_;
  }
  int alive() const {
    const std::lock_guard<std::mutex> hold(mutex_);
    return alive_;
  }
  std::vector<ExperimentReport> reports() const {
    const std::lock_guard<std::mutex> hold(mutex_);
    return reports_;
  }

  Result<ActorId> spawn(const SpawnRequest& request) override {
    std::vector<UniqueFunction<void()>> later;
    auto remote = std::make_shared<Remote>();
    {
      const std::lock_guard<std::mutex> hold(mutex_);
      if (left_) return make_error(*left_);
      if (!request.resources.fits_in(total_)) {
        Reason next =
            reason("next.most", reason("option.resources"), "cpus", to_string(total_), reason("option.and_wait"));
        return make_error(error_of(
            ErrorCode::kInfeasible,
            reason("infeasible.start", request.display,
                   reason("lacks.most", request.resources, Reason(), "local", to_string(total_)), std::move(next))));
      }
      remote->status.id = new_id<ActorId>(random_);
      remote->status.reason = "for a CPU: all in use";
      remote->status.why = remote->status.reason;
      remote->request = request;
      for (const auto& call : remote->request.opening)
        remote->calls.push_back(
            {call->method, call->arguments, [call](Result<std::string> result) { call->on_end(std::move(result)); }});
      remote->request.opening.clear();
      ++spawned_;
      actors_[remote->status.id] = remote;
      waiting_.push_back(remote->status.id);
      place(later);
    }
    for (auto& function : later) function();
    if (before_spawned_) before_spawned_();
    return remote->status.id;
  }
  // Called before spawn() returns, when the actor may already respond to its opening calls. Set before the first spawn.
  void before_spawned(std::function<void()> function) { before_spawned_ = std::move(function); }
  Result<ActorId> find(const std::string& name, const std::string& /*actor_namespace*/,
                       const std::string& /*class_name*/) override {
    return make_error(ErrorCode::kNotFound, name);
  }

  void cancel(const ActorId&, uint64_t) override {}
  void start(std::shared_ptr<OutgoingCall> call) override {
    Result<std::string> refused = make_error(ErrorCode::kActorDied, "");
    {
      const std::lock_guard<std::mutex> hold(mutex_);
      Remote& remote = *actors_.at(call->target);
      if (remote.status.state != ActorState::kDead) {
        const bool timed = call->timeout.count() > 0;
        const bool expires = timed && std::exchange(time_out_next_, timed ? false : time_out_next_);
        Done done;
        if (!expires) done = [call](Result<std::string> result) { call->on_end(std::move(result)); };
        remote.calls.push_back({call->method, std::move(call->arguments), std::move(done)});
        changed_.notify_all();
        if (!expires) return;
        apart_ += std::exchange(apart_at_timeout_, std::chrono::nanoseconds(0));
        refused = make_error(ErrorCode::kTimeout, "the call's timeout passed");
      } else {
        refused = make_error(remote.status.death);
      }
    }
    call->on_end(std::move(refused));
  }

  Result<void> kill(const ActorId& actor, bool, std::chrono::milliseconds) override {
    std::vector<UniqueFunction<void()>> later;
    {
      const std::lock_guard<std::mutex> hold(mutex_);
      end(*actors_.at(actor), "it was killed on request", false, later);
    }
    for (auto& function : later) function();
    return {};
  }

  void watch(const ActorId&) override {}
  Result<ActorStatus> status(const ActorId& actor) override {
    const std::lock_guard<std::mutex> hold(mutex_);
    return actors_.at(actor)->status;
  }
  std::shared_ptr<void> on_status(const ActorId& actor, std::function<void(const ActorStatus&)> function) override {
    const std::lock_guard<std::mutex> hold(mutex_);
    const int number = next_listener_++;
    actors_.at(actor)->listeners[number] = std::move(function);
    return std::shared_ptr<void>(nullptr, [this, actor, number](void*) {
      const std::lock_guard<std::mutex> again(mutex_);
      actors_.at(actor)->listeners.erase(number);
    });
  }
  ClusterTotals totals() override {
    const std::lock_guard<std::mutex> hold(mutex_);
    return {.total = total_, .used = used_, .nodes = 1, .waiting = static_cast<int>(waiting_.size())};
  }
  std::string cluster_name() override { return "test"; }
  std::string node_name() override { return ""; }
  void on_log(std::function<void(const LogLine&)>) override {}
  void report(const ExperimentReport& report) override {
    const std::lock_guard<std::mutex> hold(mutex_);
    reports_.push_back(report);
  }

 private:
  struct Call {
    uint64_t method = 0;
    std::string arguments;
    Done done;
  };
  struct Remote {
    ActorStatus status;
    SpawnRequest request;
    std::deque<Call> calls;
    std::shared_ptr<Call> running;
    std::map<int, std::function<void(const ActorStatus&)>> listeners;
    bool ending = false;
    std::thread thread;
  };
  using Later = std::vector<UniqueFunction<void()>>;

  void tell(Remote& remote, Later& later) {
    for (auto& [number, function] : remote.listeners)
      later.push_back([function, status = remote.status] { function(status); });
  }

  void place(Later& later) {
    for (auto at = waiting_.begin(); at != waiting_.end();) {
      const std::shared_ptr<Remote> remote = actors_.at(*at);
      ResourceSet used = used_;
      used += remote->request.resources;
      if (!used.fits_in(total_)) return;
      used_ = used;
      at = waiting_.erase(at);
      alive_max_ = std::max(alive_max_, ++alive_);
      remote->status.state = ActorState::kAlive;
      remote->status.node_name = "b";
      remote->status.reason.clear();
      remote->thread = std::thread([this, remote] { serve(remote); });
      tell(*remote, later);
    }
  }

  void end(Remote& remote, const std::string& how, bool lost, Later& later) {
    if (remote.status.state == ActorState::kDead) return;
    if (remote.status.state == ActorState::kAlive) {
      used_ -= remote.request.resources;
      --alive_;
    } else {
      waiting_.erase(std::remove(waiting_.begin(), waiting_.end(), remote.status.id), waiting_.end());
    }
    remote.status.state = ActorState::kDead;
    remote.status.death = Error{ErrorCode::kActorDied, remote.request.display + " died: " + how};
    remote.status.why = remote.status.death.message;
    remote.status.lost = lost;
    remote.ending = true;
    // Only `done` of the running call is taken: its arguments are being read outside the lock.
    const auto fail = [&](Call& call) {
      if (call.done)
        later.push_back([done = std::exchange(call.done, nullptr), death = remote.status.death]() mutable {
          done(make_error(death));
        });
    };
    if (remote.running) fail(*remote.running);
    for (Call& call : remote.calls) fail(call);
    remote.calls.clear();
    tell(remote, later);
    place(later);
    changed_.notify_all();
  }

  void serve(const std::shared_ptr<Remote>& remote) {
    const ActorClass& actor_class = *ActorClassRegistry::instance().find(remote->request.class_name);
    std::shared_ptr<void> object;
    const auto made = guarded([&]() -> Result<std::string> {
      Decoder decoder(remote->request.arguments);
      decoder.array();
      decoder.unsigned_integer();
      auto built = actor_class.constructors.at(decoder.unsigned_integer())(remote->request.arguments);
      if (!built) return make_error(built.error());
      object = *built;
      return std::string();
    });
    std::unique_lock<std::mutex> hold(mutex_);
    if (!made) {
      Later later;
      end(*remote, "its constructor threw: " + made.error().message, false, later);
      hold.unlock();
      for (auto& function : later) function();
      return;
    }
    while (true) {
      changed_.wait(hold, [&] { return remote->ending || !remote->calls.empty(); });
      if (remote->ending) break;
      auto call = std::make_shared<Call>(std::move(remote->calls.front()));
      remote->calls.pop_front();
      remote->running = call;
      hold.unlock();
      auto reply = guarded([&] { return actor_class.methods.at(call->method).invoke(object.get(), call->arguments); });
      hold.lock();
      remote->running.reset();
      auto done = std::move(call->done);
      if (lose_every_ > 0 && ++replies_ % lose_every_ == 0)
        reply = make_error(ErrorCode::kUnknownOutcome, "the connection was lost");
      if (!done) continue;
      hold.unlock();
      done(std::move(reply));
      hold.lock();
    }
    hold.unlock();
    object.reset();
  }

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  SeededRandom random_{7};
  const ResourceSet total_;
  ResourceSet used_;
  std::map<ActorId, std::shared_ptr<Remote>> actors_;
  std::deque<ActorId> waiting_;
  std::vector<ExperimentReport> reports_;
  std::optional<Error> left_;
  std::function<void()> before_spawned_;
  int next_listener_ = 0, spawned_ = 0, alive_ = 0, alive_max_ = 0;
  int lose_every_ = 0, replies_ = 0;
  bool time_out_next_ = false;
  std::chrono::nanoseconds apart_{0};
  std::chrono::nanoseconds apart_at_timeout_{0};
};

// Returns after the threads of its actors have ended. A pending response may briefly hold the session, on a thread that
// it joins.
inline void end_session(std::shared_ptr<InProcessSession>& session) {
  while (session.use_count() > 1) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  session.reset();
}

}  // namespace volador
