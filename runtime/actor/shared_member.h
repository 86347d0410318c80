// Actors of a shared host: internals of shared_host.cc and shared_lights.cc, included only by them.
#pragma once

#include <atomic>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/actor/actor_checkpoints.h"
#include "runtime/actor/actor_start.h"
#include "runtime/actor/cluster_session.h"
#include "runtime/actor/health_checks.h"
#include "runtime/actor/self_source.h"
#include "runtime/actor/shared_host.h"
#include "runtime/log.h"

namespace volador {

// An actor of the process.
class SharedHost::Resident : public CallRunner::Actor, public internal::SelfSource {
 public:
  void enter_turn() override { internal::current_self = this; }
  void leave_turn() override { internal::current_self = nullptr; }
  // Raw HostId used in requests to the head.
  virtual const std::string& asks_as() const = 0;
};

// An actor tracked by the head. Kept alive by the table, its turns and pending end operations.
class SharedHost::Member final : public Resident {
 public:
  Member(SharedHost& of, const protocol::HostStart& order, const ActorClass& type)
      : host(of), start(order), actor_class(type) {
    const protocol::ActorSpec& spec = start.start().spec();
    CallRunner::Options options;
    options.process = &host.process_;
    options.actor = this;
    options.id = id();
    options.actor_class = &actor_class;
    options.max_concurrency = std::max(1, spec.max_concurrency());
    options.groups.assign(spec.concurrency_groups().begin(), spec.concurrency_groups().end());
    options.keeps_answers = spec.max_task_retries() != 0;
    options.math_threads = math_threads_of(spec);
    runner.emplace(std::move(options));
  }

  ActorId id() const { return id_from_raw<ActorId>(start.start().spec().actor_id()); }
  HostId incarnation() const { return id_from_raw<HostId>(start.start().host_id()); }
  const std::string& asks_as() const override { return start.start().host_id(); }
  void exit() override {
    constexpr std::chrono::seconds kDestructor{10};
    const auto told = host.process_.session->kill(id(), true, kDestructor);
    if (told) return;
    log::warn("host", "exit_actor: the head cannot be told; the actor lives on", {{"error", told.error().message}});
  }
  Error exit_error() const override { return exit_error_of(actor_class.name, id()); }
  const Self& self() const override {
    std::call_once(self_made_, [this] { self_ = std::make_unique<Self>(self_of(start, scratch)); });
    return *self_;
  }

  SharedHost& host;
  protocol::HostStart start;
  const ActorClass& actor_class;
  std::filesystem::path scratch;
  std::atomic<bool> ready{false};
  std::atomic<bool> ending{false};
  std::atomic<bool> ended{false};  // The worker was notified.
  std::shared_ptr<void> object;
  std::unique_ptr<ActorCheckpoints> checkpoints;
  std::optional<CallRunner> runner;
  std::shared_ptr<HealthChecks> health_owner;  // Null: no health check.
  std::atomic<HealthChecks*> health{nullptr};
  // Nested actors that it owns; guarded by the host's mutex.
  std::unordered_map<ActorId, std::shared_ptr<Light>> lights;
  uint64_t made = 0;  // Number of the last nested actor created; they are created in number order.
  struct Early {
    net::CallRequest request;
    std::shared_ptr<net::Responder> responder;
  };
  std::map<ActorId, std::vector<Early>> early;  // Calls of other processes that arrived before the actor was created.
  std::unordered_map<ActorId, Error> gone;      // Errors of the last kGoneMax nested actors that ended.
  std::deque<ActorId> gone_order;

 private:
  mutable std::once_flag self_made_;
  mutable std::unique_ptr<Self> self_;
};

// A nested actor, known only to its owner.
class SharedHost::Light final : public Resident {
 public:
  Light(MemberPtr at, const ActorId& own, const ActorClass& type)
      : home(std::move(at)), id(own), actor_class(type), runner(options_of(*this)) {}

  const std::string& asks_as() const override { return home->asks_as(); }
  void exit() override {
    constexpr std::chrono::seconds kDestructor{10};
    home->host.end_light(home, id, kDestructor, exit_error());
  }
  Error exit_error() const override { return exit_error_of(actor_class.name, id); }
  const Self& self() const override;  // On its only thread.

  const MemberPtr home;
  const ActorId id;
  const ActorClass& actor_class;
  CallRunner runner;

 private:
  static CallRunner::Options options_of(Light& light) {
    CallRunner::Options options;
    options.process = &light.home->host.process_;
    options.actor = &light;
    options.id = light.id;
    options.actor_class = &light.actor_class;
    return options;
  }
  mutable std::unique_ptr<Self> self_;
};

// Returns a runner that keeps its actor alive.
inline std::shared_ptr<CallRunner> runner_of(const std::shared_ptr<SharedHost::Member>& member) {
  return std::shared_ptr<CallRunner>(member, &*member->runner);
}
inline std::shared_ptr<CallRunner> runner_of(const std::shared_ptr<SharedHost::Light>& light) {
  return std::shared_ptr<CallRunner>(light, &light->runner);
}

}  // namespace volador
