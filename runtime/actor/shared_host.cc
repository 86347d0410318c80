#include "runtime/actor/shared_host.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <thread>
#include <utility>

#include "runtime/actor/actor_checkpoints.h"
#include "runtime/actor/actor_start.h"
#include "runtime/actor/cluster_session.h"
#include "runtime/actor/self_source.h"
#include "runtime/log.h"

namespace volador {
namespace {

namespace fs = std::filesystem;

size_t threads_at_work() { return std::max<size_t>(2, std::thread::hardware_concurrency()); }

std::string socket_of(const protocol::HostStart& start) {
  return fmt::format("{}/{}.sock", start.socket_dir(),
                     to_string(id_from_raw<HostId>(start.shared_host_id())).substr(0, 16));
}

}  // namespace

// One actor. Kept alive by the table, by its turns, and by what waits for its end.
class SharedHost::Member final : public CallRunner::Actor, public internal::SelfSource {
 public:
  Member(SharedHost& of, const protocol::HostStart& order, const ActorClass& type)
      : host(of), start(order), actor_class(type) {
    const protocol::ActorSpec& spec = start.start().spec();
    CallRunner::Options options;
    options.process = &host.process_;
    options.actor = this;
    options.actor_class = &actor_class;
    options.max_concurrency = std::max(1, spec.max_concurrency());
    options.groups.assign(spec.concurrency_groups().begin(), spec.concurrency_groups().end());
    options.keeps_answers = spec.max_task_retries() != 0;
    options.math_threads = math_threads_of(spec);
    runner.emplace(std::move(options));
  }

  ActorId id() const { return id_from_raw<ActorId>(start.start().spec().actor_id()); }
  HostId incarnation() const { return id_from_raw<HostId>(start.start().host_id()); }

  void enter_turn() override { internal::current_self = this; }
  void leave_turn() override { internal::current_self = nullptr; }
  void exit() override {
    constexpr std::chrono::seconds kDestructor{10};
    const auto told = host.process_.session->kill(id(), true, kDestructor);
    if (!told)
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
  fs::path scratch;
  std::atomic<bool> ready{false};
  std::atomic<bool> ending{false};
  std::atomic<bool> ended{false};  // The worker was told.
  std::shared_ptr<void> object;
  std::unique_ptr<ActorCheckpoints> checkpoints;
  std::optional<CallRunner> runner;

 private:
  mutable std::once_flag self_made_;
  mutable std::unique_ptr<Self> self_;
};

// The last turn of an actor: nothing of it runs any more.
class SharedHost::Farewell final : public SharedThreads::Runnable {
 public:
  explicit Farewell(MemberPtr member) : member_(std::move(member)) {}
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

namespace {

// The runner of a member, which keeps the member.
template <class Member>
std::shared_ptr<CallRunner> runner_of(const std::shared_ptr<Member>& member) {
  return std::shared_ptr<CallRunner>(member, &*member->runner);
}

}  // namespace

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
  const auto* member = dynamic_cast<const Member*>(internal::current_self);
  return member == nullptr ? std::string() : member->start.start().host_id();
}

SharedHost::MemberPtr SharedHost::find(const ActorId& actor) {
  const std::lock_guard<std::mutex> hold(mutex_);
  const auto found = members_.find(actor);
  return found == members_.end() ? nullptr : found->second;
}

void SharedHost::start(const protocol::HostStart& start) {
  const auto incarnation = id_from_raw<HostId>(start.start().host_id());
  const auto found = find_class(start.start().spec().class_name());
  static const ActorClass kUnknown;
  const auto member = std::make_shared<Member>(*this, start, found ? **found : kUnknown);
  {
    const std::lock_guard<std::mutex> hold(mutex_);
    if (!incarnations_.emplace(incarnation, member->id()).second) return;
    members_.insert_or_assign(member->id(), member);
  }
  if (!found) return fail(member, protocol::DeathCause::START_FAILED, found.error().message);
  member->runner->post(runner_of(member), [this, member] { construct(member); });
}

void SharedHost::construct(const MemberPtr& member) {
  const protocol::ActorSpec& spec = member->start.start().spec();
  member->scratch = fs::path(first_.scratch_dir()) / to_string(member->incarnation()).substr(0, 16);
  std::error_code ignored;
  fs::create_directory(member->scratch, ignored);
  auto made = make_object(member->actor_class, spec.arguments());
  if (!made) return fail(member, protocol::DeathCause::CONSTRUCTOR_THREW, made.error().message);
  member->object = std::move(*made);
  if (const auto restored = prepare(member); !restored) {
    return fail(member, protocol::DeathCause::CONSTRUCTOR_THREW, "load_checkpoint: " + restored.error().message);
  }
  member->runner->set_object(member->object);
  member->ready = true;
  if (!member->ending) send_(ready_message(member->start, socket_of(member->start)));
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

void SharedHost::on_call(net::CallRequest request, std::shared_ptr<net::Responder> responder) {
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
    const std::lock_guard<std::mutex> hold(mutex_);
    const auto actor = incarnations_.find(incarnation);
    if (actor == incarnations_.end()) return;
    member = members_.at(actor->second);
  }
  end(member, grace);
}

void SharedHost::end(const MemberPtr& member, std::chrono::milliseconds grace) {
  const auto give_up = [this, member] {
    member->runner->cut(
        {ErrorCode::kUnknownOutcome, fmt::format("actor {} was ended while the call ran", short_id(member->id()))});
    finish(member);
  };
  if (!member->ending.exchange(true)) {
    member->runner->stop({ErrorCode::kUnavailable, fmt::format("actor {} has ended", short_id(member->id()))},
                         [this, member] { threads_.post(std::make_shared<Farewell>(member), nullptr); });
  }
  if (grace.count() <= 0) return give_up();
  io_.add_timer(process_.clock->now() + grace, give_up);
}

// Nothing of it commits from here on.
void SharedHost::finish(const MemberPtr& member) {
  if (member->ended.exchange(true)) return;
  {
    const std::lock_guard<std::mutex> hold(mutex_);
    incarnations_.erase(member->incarnation());
    if (const auto found = members_.find(member->id()); found != members_.end() && found->second == member)
      members_.erase(found);
  }
  protocol::FromHost ended;
  ended.set_host_id(member->start.start().host_id());
  ended.mutable_ended();
  send_(ended);
}

}  // namespace volador
