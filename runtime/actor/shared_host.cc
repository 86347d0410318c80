#include "runtime/actor/shared_host.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <thread>
#include <utility>

#include "runtime/actor/light_home.h"
#include "runtime/actor/metric_registry.h"
#include "runtime/actor/shared_member.h"

namespace volador {
namespace {

namespace fs = std::filesystem;

size_t threads_at_work() { return std::max<size_t>(2, std::thread::hardware_concurrency()); }

std::string socket_of(const protocol::HostStart& start) {
  return fmt::format("{}/{}.sock", start.socket_dir(),
                     to_string(id_from_raw<HostId>(start.shared_host_id())).substr(0, 16));
}

}  // namespace

// The last turn of an actor, after all of its calls.
class SharedHost::DestroyTask final : public SharedThreads::Runnable {
 public:
  explicit DestroyTask(MemberPtr member) : member_(std::move(member)) {}
  void run_turn(const std::shared_ptr<Runnable>& /*self*/, void* /*what*/) override {
    member_->enter_turn();
    guarded([&]() -> Result<std::string> {
      member_->checkpoints.reset();
      member_->runner->set_object(nullptr);
      member_->object.reset();
      return std::string();
    });
    member_->leave_turn();
    std::error_code ignored;
    if (!member_->scratch.empty()) fs::remove_all(member_->scratch, ignored);
    member_->host.finish(member_);
  }

 private:
  const MemberPtr member_;
};

SharedHost::SharedHost(const protocol::HostStart& first, const CallRunner::Process& process, net::IoLoop& io, Send send)
    : first_(first),
      process_(process),
      io_(io),
      send_(std::move(send)),
      threads_({.threads = threads_at_work()}, *process.clock) {
  process_.threads = &threads_;
}

SharedHost::~SharedHost() = default;

std::string SharedHost::running_host() {
  return internal::current_self == nullptr ? std::string()
                                           : static_cast<const Resident*>(internal::current_self)->asks_as();
}

SharedHost::MemberPtr SharedHost::find(const ActorId& actor) {
  const std::lock_guard hold(mutex_);
  const auto found = members_.find(actor);
  return found == members_.end() ? nullptr : found->second;
}

std::optional<HostId> SharedHost::incarnation_of(const ActorId& actor) {
  const MemberPtr member = find(actor);
  if (!member) return std::nullopt;
  return member->incarnation();
}

void SharedHost::start(const protocol::HostStart& start) {
  const auto incarnation = id_from_raw<HostId>(start.start().host_id());
  const auto found =
      ActorClassRegistry::instance().load(start.start().spec().class_name(), start.start().spec().arguments());
  static const ActorClass kUnknown;
  const auto member = std::make_shared<Member>(*this, start, found ? **found : kUnknown);
  {
    const std::lock_guard hold(mutex_);
    if (!incarnations_.emplace(incarnation, member->id()).second) return;
    members_.insert_or_assign(member->id(), member);
  }
  if (!found) return fail(member, protocol::DeathCause::START_FAILED, found.error().message);
  member->runner->post(runner_of(member), [this, member] { construct(member); });
}

void SharedHost::construct(const MemberPtr& member) {
  const protocol::ActorSpec& spec = member->start.start().spec();
  member->scratch = fs::path(first_.scratch_dir()) / to_string(member->incarnation()).substr(0, 16);
  auto made = make_object(member->actor_class, spec.arguments());
  if (!made) return fail(member, protocol::DeathCause::CONSTRUCTOR_THREW, made.error().message);
  member->object = std::move(*made);
  if (const auto restored = prepare(member); !restored) {
    return fail(member, protocol::DeathCause::CONSTRUCTOR_THREW, "load_checkpoint: " + restored.error().message);
  }
  member->runner->set_object(member->object);
  member->ready = true;
  if (member->ending) return;
  send_(ready_message(member->start, socket_of(member->start)));
  const std::weak_ptr<Member> weak = member;
  member->health_owner = HealthChecks::start(spec, member->actor_class,
                                             {.io = &io_,
                                              .clock = process_.clock,
                                              .lease = process_.lease,
                                              .run =
                                                  [weak](CallRunner::Check check) {
                                                    if (const MemberPtr alive = weak.lock())
                                                      alive->runner->check(runner_of(alive), std::move(check));
                                                  },
                                              .unhealthy =
                                                  [this, weak](const std::string& why) {
                                                    if (const MemberPtr alive = weak.lock())
                                                      fail(alive, protocol::DeathCause::UNHEALTHY, why);
                                                  }});
  member->health = member->health_owner.get();
  if (member->ending && member->health_owner) member->health_owner->stop();
}

Result<void> SharedHost::prepare(const MemberPtr& member) {
  protocol::StartHost& start = *member->start.mutable_start();
  const protocol::ActorSpec& spec = start.spec();
  if (!keeps_checkpoints(member->start, member->actor_class)) return {};
  const std::weak_ptr<Member> weak = member;
  member->checkpoints = std::make_unique<ActorCheckpoints>(
      member->actor_class, member->object,
      ActorCheckpoints::Options{.calls = spec.checkpoint_calls(),
                                .interval = std::chrono::milliseconds(spec.checkpoint_interval_ms()),
                                .epoch = start.epoch(),
                                .scratch = member->scratch},
      [this, weak](std::chrono::nanoseconds delay, std::function<void()> function) {
        io_.add_timer(process_.clock->now() + delay, [weak, function = std::move(function)] {
          if (const MemberPtr alive = weak.lock()) alive->runner->post(runner_of(alive), function);
        });
      },
      [session = process_.session](protocol::Checkpoint checkpoint, std::function<void(Result<void>)> done) {
        session->keep_checkpoint(std::move(checkpoint), std::move(done));
      });
  member->runner->set_checkpoints(member->checkpoints.get());
  if (!start.has_checkpoint()) return {};
  const auto restored = member->checkpoints->restore(start.checkpoint().archive());
  start.clear_checkpoint();  // It may be large.
  return restored;
}

void SharedHost::on_call(net::CallRequest&& request, std::shared_ptr<net::Responder>&& responder) {
  if (is_light(request.actor)) return on_light_call(std::move(request), std::move(responder));
  const MemberPtr member = find(request.actor);
  if (!member || !member->ready) {
    return responder->reply(make_error(ErrorCode::kUnavailable,
                                       fmt::format("actor {} is not in this shared host", short_id(request.actor))));
  }
  if (request.epoch != member->start.start().epoch()) {
    return responder->reply(make_error(other_target(member->start, request.actor, request.epoch)));
  }
  member->runner->on_call(runner_of(member), std::move(request), std::move(responder));
}

// ---- the end ----

void SharedHost::fail(const MemberPtr& member, protocol::DeathCause::Kind kind, const std::string& message) {
  protocol::FromHost failed;
  failed.set_host_id(member->start.start().host_id());
  failed.mutable_failed()->mutable_cause()->set_kind(kind);
  failed.mutable_failed()->mutable_cause()->set_message(message);
  failed.mutable_failed()->mutable_cause()->set_pid(::getpid());
  send_(failed);
  end(member, std::chrono::milliseconds(0));
}

void SharedHost::end(const HostId& incarnation, std::chrono::milliseconds grace) {
  MemberPtr member;
  {
    const std::lock_guard hold(mutex_);
    const auto actor = incarnations_.find(incarnation);
    if (actor == incarnations_.end()) return;
    member = members_.at(actor->second);
  }
  end(member, grace);
}

void SharedHost::end(const MemberPtr& member, std::chrono::milliseconds grace) {
  const Error refusal{ErrorCode::kUnavailable, fmt::format("actor {} has ended", short_id(member->id()))};
  const auto give_up = [this, member] {
    member->runner->cut(
        {ErrorCode::kUnknownOutcome, fmt::format("actor {} was ended while the call ran", short_id(member->id()))});
    finish(member);
  };
  if (!member->ending.exchange(true)) {
    if (HealthChecks* health = member->health; health != nullptr) health->stop();
    member->runner->stop(refusal, [this, member] { threads_.post(std::make_shared<DestroyTask>(member), nullptr); });
  }
  if (grace.count() <= 0) return give_up();
  io_.add_timer(process_.clock->now() + grace, give_up);
}

// The actor commits nothing from here on.
void SharedHost::finish(const MemberPtr& member) {
  if (member->ended.exchange(true)) return;
  end_lights(member, {ErrorCode::kUnavailable, "its home has ended"},
             {ErrorCode::kUnknownOutcome, "the home of the actor was ended while the call ran"});
  {
    const std::lock_guard hold(mutex_);
    incarnations_.erase(member->incarnation());
    if (const auto found = members_.find(member->id()); found != members_.end() && found->second == member)
      members_.erase(found);
  }
  MetricRegistry::instance().forget(member->id());
  protocol::FromHost ended;
  ended.set_host_id(member->start.start().host_id());
  ended.mutable_ended();
  send_(ended);
}

}  // namespace volador
