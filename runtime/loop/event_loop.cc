#include "runtime/loop/event_loop.h"

#include <atomic>
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/message.hpp>
#include <caf/policy/work_sharing.hpp>
#include <caf/scheduler/coordinator.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/send.hpp>
#include <cstdlib>
#include <exception>
#include <functional>
#include <mutex>
#include <utility>

#include "runtime/log.h"
#include "runtime/result.h"

namespace volador {
namespace {

// The only message type: a function. Shared, because CAF requires copyable messages.
struct Task {
  std::shared_ptr<std::function<void()>> function;
  bool delayed = false;
};

thread_local const void* current_loop = nullptr;

}  // namespace
}  // namespace volador

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(volador::Task)

namespace volador {
namespace {

// Starts the scheduler's threads with the first timeout. Actors query the clock with every message.
class LazyClock final : public caf::detail::thread_safe_actor_clock {
 public:
  // running: returns the clock of the started threads and starts them if needed; started: whether they are running.
  LazyClock(std::function<caf::actor_clock&()> running, const std::atomic<bool>& started)
      : running_(std::move(running)), started_(started) {}

  void set_ordinary_timeout(time_point at, caf::abstract_actor* self, caf::atom_value type, uint64_t id) override {
    running_().set_ordinary_timeout(at, self, type, id);
  }
  void set_request_timeout(time_point at, caf::abstract_actor* self, caf::message_id id) override {
    running_().set_request_timeout(at, self, id);
  }
  void set_multi_timeout(time_point at, caf::abstract_actor* self, caf::atom_value type, uint64_t id) override {
    running_().set_multi_timeout(at, self, type, id);
  }
  void schedule_message(time_point at, caf::strong_actor_ptr receiver, caf::mailbox_element_ptr content) override {
    running_().schedule_message(at, std::move(receiver), std::move(content));
  }
  void schedule_message(time_point at, caf::group target, caf::strong_actor_ptr sender, caf::message content) override {
    running_().schedule_message(at, std::move(target), std::move(sender), std::move(content));
  }
  void cancel_ordinary_timeout(caf::abstract_actor* self, caf::atom_value type) override {
    if (started_) running_().cancel_ordinary_timeout(self, type);
  }
  void cancel_request_timeout(caf::abstract_actor* self, caf::message_id id) override {
    if (started_) running_().cancel_request_timeout(self, id);
  }
  void cancel_timeouts(caf::abstract_actor* self) override {
    if (started_) running_().cancel_timeouts(self);
  }
  void cancel_all() override {
    if (started_) running_().cancel_all();
  }

 private:
  std::function<caf::actor_clock&()> running_;
  const std::atomic<bool>& started_;
};

// CAF's threads (workers, clock, printer) start on first use: a process whose loops have their own threads, such as an
// isolated actor's host, never starts them. Work sharing, because it takes 0.04 % of a core when idle; work stealing
// takes 1.4 %.
class LazyCoordinator final : public caf::scheduler::coordinator<caf::policy::work_sharing> {
  using Base = caf::scheduler::coordinator<caf::policy::work_sharing>;

 public:
  using Base::Base;

  static caf::actor_system::module* make(caf::actor_system& system, caf::detail::type_list<>) {
    return new LazyCoordinator(system);
  }

 protected:
  void start() override {}
  void stop() override {
    if (started_) Base::stop();
  }
  void enqueue(caf::resumable* job) override {
    begin();
    Base::enqueue(job);
  }
  caf::detail::thread_safe_actor_clock& clock() noexcept override { return clock_; }

 private:
  void begin() {
    std::call_once(once_, [this] {
      Base::start();
      started_ = true;
    });
  }
  caf::actor_clock& running_clock() {
    begin();
    return Base::clock();
  }

  std::once_flag once_;
  std::atomic<bool> started_{false};
  LazyClock clock_{[this]() -> caf::actor_clock& { return running_clock(); }, started_};
};

}  // namespace

struct LoopSystem::Impl {
  explicit Impl(int threads) : config(make_config(threads)), system(*config) {}

  static std::unique_ptr<caf::actor_system_config> make_config(int threads) {
    auto made = std::make_unique<caf::actor_system_config>();
    made->load<LazyCoordinator>();
    made->set("scheduler.max-threads", static_cast<size_t>(threads));
    return made;
  }

  std::unique_ptr<caf::actor_system_config> config;
  caf::actor_system system;
};

LoopSystem::LoopSystem(int threads) {
  VOLADOR_CHECK(threads >= 1);
  impl_ = std::make_unique<Impl>(threads);
}
LoopSystem::~LoopSystem() = default;

struct EventLoop::Impl {
  LoopSystem::Impl* system = nullptr;
  std::string name;
  OnThrow on_throw = OnThrow::kContinue;
  caf::actor actor;
  std::atomic<bool> stopped{false};
  // Orders the posting thread's effects before its function. CAF's mailbox guarantees that too, but a thread sanitizer
  // cannot see into an uninstrumented library.
  std::atomic<uint64_t> posted{0};
  std::atomic<uint64_t> delayed{0};
  std::atomic<uint64_t> begun{0};  // Number of begun functions that were posted without delay.
  std::function<void()> interrupt;
  std::mutex running;  // Held while a function runs, so that stop() can wait for it.
};

EventLoop::EventLoop(LoopSystem& system, std::string name, Thread thread, OnThrow on_throw)
    : impl_(std::make_shared<Impl>()) {
  impl_->system = system.impl_.get();
  impl_->on_throw = on_throw;
  impl_->name = std::move(name);
  // The actor keeps the state alive until its last message is gone. The state is an argument instead of a capture,
  // because CAF binds a reference to a null tuple if a function has no arguments.
  auto behavior = [](caf::event_based_actor* self, const std::shared_ptr<Impl>& state) -> caf::behavior {
    self->set_default_handler(caf::drop);
    self->set_error_handler([](caf::error&) {});
    return {[state](Task& task) {
      state->posted.load(std::memory_order_acquire);
      state->delayed.load(std::memory_order_acquire);
      if (!task.delayed) state->begun.fetch_add(1, std::memory_order_relaxed);
      const std::lock_guard<std::mutex> hold(state->running);
      if (state->stopped.load(std::memory_order_acquire)) return;
      current_loop = state.get();
      try {
        (*task.function)();
      } catch (const std::exception& e) {
        log::error("loop", "a function threw", {{"loop", state->name}, {"what", e.what()}});
        if (state->on_throw == OnThrow::kAbort) std::abort();
      } catch (...) {
        log::error("loop", "a function threw", {{"loop", state->name}, {"what", "not a std::exception"}});
        if (state->on_throw == OnThrow::kAbort) std::abort();
      }
      current_loop = nullptr;
    }};
  };
  impl_->actor = thread == Thread::kOwn ? impl_->system->system.spawn<caf::detached>(behavior, impl_)
                                        : impl_->system->system.spawn(behavior, impl_);
}

EventLoop::~EventLoop() { stop(); }

void EventLoop::post(std::function<void()> function) {
  if (impl_->stopped.load(std::memory_order_acquire)) return;
  caf::message message = caf::make_message(Task{std::make_shared<std::function<void()>>(std::move(function))});
  impl_->posted.fetch_add(1);
  caf::anon_send(impl_->actor, std::move(message));
  if (impl_->interrupt) impl_->interrupt();
}

void EventLoop::post_after(std::chrono::nanoseconds delay, std::function<void()> function) {
  if (impl_->stopped.load(std::memory_order_acquire)) return;
  caf::message message = caf::make_message(
      Task{.function = std::make_shared<std::function<void()>>(std::move(function)), .delayed = true});
  impl_->delayed.fetch_add(1, std::memory_order_release);
  caf::delayed_anon_send(impl_->actor, delay, std::move(message));
}

void EventLoop::stop() {
  if (impl_->stopped.exchange(true)) return;
  VOLADOR_CHECK(current_loop != impl_.get(), "stop() from within its own loop");
  caf::anon_send_exit(impl_->actor, caf::exit_reason::kill);
  if (impl_->interrupt) impl_->interrupt();
  { const std::lock_guard<std::mutex> wait(impl_->running); }
  impl_->actor = nullptr;
}

void EventLoop::set_interrupt(std::function<void()> interrupt) { impl_->interrupt = std::move(interrupt); }

bool EventLoop::is_awaited() const {
  return impl_->stopped.load() || impl_->posted.load() != impl_->begun.load(std::memory_order_relaxed);
}

bool EventLoop::is_current() const { return current_loop == impl_.get(); }

}  // namespace volador
