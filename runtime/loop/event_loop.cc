#include "runtime/loop/event_loop.h"

#include <atomic>
#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/event_based_actor.hpp>
#include <caf/scoped_actor.hpp>
#include <caf/message.hpp>
#include <caf/send.hpp>
#include <exception>
#include <mutex>
#include <utility>

#include "runtime/log.h"
#include "runtime/result.h"

namespace volador {
namespace {

// The one message type: a function. Shared, because CAF wants messages that can be copied.
struct Task {
  std::shared_ptr<std::function<void()>> function;
};

thread_local const void* current_loop = nullptr;

}  // namespace
}  // namespace volador

CAF_ALLOW_UNSAFE_MESSAGE_TYPE(volador::Task)

namespace volador {

struct LoopSystem::Impl {
  explicit Impl(int threads) : config(make_config(threads)), system(*config) {}

  static std::unique_ptr<caf::actor_system_config> make_config(int threads) {
    auto made = std::make_unique<caf::actor_system_config>();
    made->set("scheduler.policy", caf::atom("sharing"));  // 0.04 % of a core when idle; stealing takes 1.4 %.
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
  caf::actor actor;
  std::atomic<bool> stopped{false};
  // What a posting thread did happens before its function runs. CAF's mailbox sees to that too, but a thread sanitizer cannot look
  // into an uninstrumented library.
  std::atomic<uint64_t> posted{0};
  std::mutex running;  // Held while a function runs, so that stop() can wait for it.
};

EventLoop::EventLoop(LoopSystem& system, std::string name, Thread thread) : impl_(std::make_shared<Impl>()) {
  impl_->system = system.impl_.get();
  impl_->name = std::move(name);
  // The actor keeps the state alive until its last message is gone. The state is an argument and no capture, because CAF binds a
  // reference to a null tuple where a function has no arguments.
  auto behavior = [](caf::event_based_actor* self, const std::shared_ptr<Impl>& state) -> caf::behavior {
    self->set_default_handler(caf::drop);
    self->set_error_handler([](caf::error&) {});
    return {[state](Task& task) {
      state->posted.load(std::memory_order_acquire);
      const std::lock_guard<std::mutex> hold(state->running);
      if (state->stopped.load(std::memory_order_acquire)) return;
      current_loop = state.get();
      try {
        (*task.function)();
      } catch (const std::exception& e) {
        log::error("loop", "a function threw", {{"loop", state->name}, {"what", e.what()}});
      } catch (...) {
        log::error("loop", "a function threw", {{"loop", state->name}, {"what", "not a std::exception"}});
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
  impl_->posted.fetch_add(1, std::memory_order_release);
  caf::anon_send(impl_->actor, std::move(message));
}

void EventLoop::post_after(std::chrono::nanoseconds delay, std::function<void()> function) {
  if (impl_->stopped.load(std::memory_order_acquire)) return;
  caf::message message = caf::make_message(Task{std::make_shared<std::function<void()>>(std::move(function))});
  impl_->posted.fetch_add(1, std::memory_order_release);
  caf::delayed_anon_send(impl_->actor, delay, std::move(message));
}

void EventLoop::stop() {
  if (impl_->stopped.exchange(true)) return;
  VOLADOR_CHECK(current_loop != impl_.get(), "stop() from within its own loop");
  caf::anon_send_exit(impl_->actor, caf::exit_reason::kill);
  { const std::lock_guard<std::mutex> wait(impl_->running); }
  impl_->actor = nullptr;
}

bool EventLoop::is_current() const { return current_loop == impl_.get(); }

}  // namespace volador
