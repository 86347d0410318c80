#include "tune/execution/trial_executor.h"

#include <fmt/format.h>

#include <future>
#include <utility>

#include "runtime/log.h"
#include "runtime/quantities.h"
#include "tune/execution/trial_executor_impl.h"

namespace volador::tune {
namespace {

constexpr std::chrono::seconds kHeadPatience{30};

}  // namespace

void TrialExecutor::Impl::post(EventLoop Loops::*loop, std::function<void()> function, nanoseconds delay) {
  const std::lock_guard<std::mutex> hold(gate);
  if (loops == nullptr) return;
  if (delay.count() > 0) return (loops->*loop).post_after(delay, std::move(function));
  (loops->*loop).post(std::move(function));
}

bool TrialExecutor::Impl::live(const AttemptPtr& attempt) const {
  const auto found = attempts.find(attempt->trial);
  return found != attempts.end() && found->second == attempt;
}

AttemptPtr TrialExecutor::Impl::find(TrialId trial, int64_t number) const {
  const auto found = attempts.find(trial);
  return found == attempts.end() || found->second->number != number ? nullptr : found->second;
}

void TrialExecutor::Impl::begin(AttemptPtr attempt) {
  attempts[attempt->trial] = attempt;
  on_disk([self = shared_from_this(), attempt] {
    self->store.fence(attempt->folder, static_cast<uint64_t>(attempt->number));
  });
  if (!idle.empty()) {
    const IdleActor actor = idle.back();
    idle.pop_back();
    return adopt(attempt, actor);
  }
  if (options.reuse_actors) unplaced.push_back(attempt);
  attempt->opens = !attempt->restore;
  on_head([self = shared_from_this(), attempt] { self->spawn(attempt); });
}

void TrialExecutor::Impl::on_spawned(const AttemptPtr& attempt, const ActorId& actor, std::shared_ptr<void> watch) {
  if (!live(attempt) || attempt->adopted) return;
  attempt->actor = actor;
  attempt->watch = std::move(watch);
  if (!attempt->opens) return restore_and_set_up(attempt);
  for (const auto& answered : std::exchange(attempt->until_spawned, {})) answered(attempt);
}

void TrialExecutor::Impl::restore_and_set_up(const AttemptPtr& attempt) {
  if (!attempt->restore) return set_up(attempt, {});
  on_disk([self = shared_from_this(), attempt] { self->open_restore(attempt); });
}

// ---- Reuse.

void TrialExecutor::Impl::offer(IdleActor actor) {
  while (!unplaced.empty()) {
    const AttemptPtr attempt = unplaced.front();
    if (!live(attempt) || attempt->placed) {
      unplaced.pop_front();
      continue;
    }
    if (attempt->was_refused) return release(actor);
    unplaced.pop_front();
    return adopt(attempt, actor);
  }
  idle.push_back(std::move(actor));
}

void TrialExecutor::Impl::release(const IdleActor& actor) {
  on_head([self = shared_from_this(), id = actor.actor] { self->kill(id, self->options.stop_grace); });
}

void TrialExecutor::Impl::adopt(const AttemptPtr& attempt, const IdleActor& actor) {
  attempt->adopted = attempt->placed = true;
  attempt->opens = false;
  attempt->actor = actor.actor;
  attempt->node = actor.node;
  on_head([self = shared_from_this(), attempt, id = actor.actor] {
    if (attempt->spawned) self->kill(*attempt->spawned, milliseconds(0));  // Its own pending actor is not needed.
    attempt->spawned = id;
  });
  const std::string arguments = to_bytes(spec_of(attempt), attempt->config);
  invoke(
      attempt, function_id<&TrialActor::reuse>(), arguments, nanoseconds(0),
      [this, attempt](const std::string& bytes) {
        const auto reused = from_bytes<bool>(bytes);
        if (!reused || !*reused) return abandon(attempt);
        attempt->watch = watch(attempt, attempt->actor);
        restore_and_set_up(attempt);
      },
      [this, attempt](const Error&) { abandon(attempt); });
}

void TrialExecutor::Impl::abandon(const AttemptPtr& attempt) {
  attempt->placed = false;
  attempt->was_refused = true;
  unplaced.push_front(attempt);
  for (const IdleActor& actor : std::exchange(idle, {})) release(actor);
  on_head([self = shared_from_this(), attempt] {
    self->kill(*attempt->spawned, milliseconds(0));
    attempt->spawned.reset();
    attempt->adopted = false;
    self->spawn(attempt);
  });
}

std::shared_ptr<void> TrialExecutor::Impl::watch(const AttemptPtr& attempt, const ActorId& actor) {
  return session->on_status(actor, [weak = weak_from_this(), attempt](const ActorStatus& status) {
    if (const auto self = weak.lock()) self->on_control([self, attempt, status] { self->on_status(attempt, status); });
  });
}

TrialSpec TrialExecutor::Impl::spec_of(const AttemptPtr& attempt) const {
  const auto& amounts = resources_of_attempt(attempt).entries();
  return {options.trainable.name,
          Bytes{options.trainable.parameters},
          options.experiment,
          to_string(attempt->trial),
          attempt->number,
          {amounts.begin(), amounts.end()},
          attempt->name,
          attempt->group.value_or(GroupId()),
          options.artifact_bytes_max};
}

const ResourceSet& TrialExecutor::Impl::resources_of_attempt(const AttemptPtr& attempt) const {
  return attempt->resources.empty() ? options.resources : attempt->resources;
}

// ---- Steps of an attempt.

void TrialExecutor::Impl::on_status(const AttemptPtr& attempt, const ActorStatus& status) {
  if (!live(attempt) || (!attempt->actor.is_nil() && status.id != attempt->actor)) return;
  attempt->placed = attempt->placed || status.state == ActorState::kAlive;
  if (!status.node_name.empty()) attempt->node = status.node_name;
  if (status.state == ActorState::kDead) return fail(attempt, status.why, !status.lost, true);
  if (status.state == ActorState::kPending && !status.reason.empty() && status.reason != attempt->waiting) {
    attempt->waiting = status.reason;
    emit(AttemptActor{attempt->trial, status.id});
    emit(ActorWaiting{attempt->trial, attempt->number, status.why});
  }
}

void TrialExecutor::Impl::set_up(const AttemptPtr& attempt, std::vector<DirectoryPart> parts) {
  const TrialSetup setup{attempt->config, attempt->restore ? attempt->restore->step : 0, std::move(parts)};
  call<&TrialActor::setup>(attempt, nanoseconds(0), to_bytes(setup),
                           [this, attempt](const TrialReady& ready) { on_ready(attempt, ready); });
}

void TrialExecutor::Impl::on_ready(const AttemptPtr& attempt, const TrialReady& ready) {
  if (!ready.restore_error.empty()) return lose_checkpoint(attempt, ready.restore_error);
  attempt->started = true;
  if (!ready.node.empty()) attempt->node = ready.node;
  emit(AttemptPlace{attempt->trial, attempt->number, attempt->actor, attempt->node, ready.hostname, ready.pid});
  emit(TrialStarted{attempt->trial, attempt->number, attempt->node});
}

std::vector<std::shared_ptr<OutgoingCall>> TrialExecutor::Impl::opening_of(const AttemptPtr& attempt) {
  if (!attempt->opens) return {};
  std::vector<std::shared_ptr<OutgoingCall>> calls;
  calls.push_back(opening_call<&TrialActor::setup>(
      attempt, to_bytes(TrialSetup{attempt->config}), [this, attempt](Result<std::string> reply) {
        if (reply)
          return decode<TrialReady>(attempt, *reply,
                                    [this, attempt](const TrialReady& ready) { on_ready(attempt, ready); });
        worth_a_retry(reply.error().code) ? set_up(attempt, {}) : on_refused(attempt, reply.error());
      }));
  if (options.step_timeout.count() > 0) return calls;
  calls.push_back(opening_call<&TrialActor::step>(attempt, to_bytes<int64_t>(1), [attempt](Result<std::string> reply) {
    if (attempt->on_first_step) return std::exchange(attempt->on_first_step, {})(std::move(reply));
    attempt->first_step = std::move(reply);
  }));
  return calls;
}

void TrialExecutor::Impl::lose_checkpoint(const AttemptPtr& attempt, const std::string& why) {
  emit(CheckpointLost{attempt->trial, attempt->restore->location});
  fail(attempt, reason("trial.checkpoint_unread", attempt->restore->location, why), false, false);
}

void TrialExecutor::Impl::step(const AttemptPtr& attempt, int64_t number, nanoseconds timeout) {
  if (number == 1 && attempt->opens && options.step_timeout.count() == 0) return await_first_step(attempt);
  const nanoseconds apart = session->time_without_head();
  call<&TrialActor::step>(
      attempt, timeout, to_bytes(number), [this, attempt](StepReply reply) { on_step(attempt, std::move(reply)); },
      [this, attempt, number, apart](const Error& error) {
        const nanoseconds lost = session->time_without_head() - apart;
        if (error.code != ErrorCode::kTimeout || lost.count() == 0) return on_step_refused(attempt, error);
        step(attempt, number, std::min(options.step_timeout, std::max<nanoseconds>(lost, std::chrono::seconds(1))));
      });
}

void TrialExecutor::Impl::await_first_step(const AttemptPtr& attempt) {
  const auto take = [this, weak = std::weak_ptr<Attempt>(attempt)](Result<std::string> reply) {
    const AttemptPtr held = weak.lock();  // Holds this function.
    if (!held) return;
    if (reply) return decode<StepReply>(held, *reply, [this, held](StepReply made) { on_step(held, std::move(made)); });
    if (!worth_a_retry(reply.error().code)) return on_step_refused(held, reply.error());
    held->opens = false;
    step(held, 1, nanoseconds(0));
  };
  if (attempt->first_step) return take(*std::exchange(attempt->first_step, std::nullopt));
  attempt->on_first_step = take;
}

void TrialExecutor::Impl::on_step(const AttemptPtr& attempt, StepReply reply) {
  attempt->has_artifacts = reply.has_artifacts;
  if (!reply.media.empty()) emit(MediaReported{attempt->trial, reply.step, std::move(reply.media)});
  if (!reply.tags.empty()) emit(TrialTagged{attempt->trial, std::move(reply.tags)});
  if (reply.finished) return emit(TrialFinished{attempt->trial, attempt->number});
  emit(ResultReported{attempt->trial, attempt->number, reply.step, std::move(reply.metrics), reply.duration,
                      reply.done});
}

void TrialExecutor::Impl::on_step_refused(const AttemptPtr& attempt, const Error& error) {
  if (error.code != ErrorCode::kApplication || options.artifact_bytes_max == 0) return on_refused(attempt, error);
  collect(attempt, [this, attempt, error] { on_refused(attempt, error); });
}

void TrialExecutor::Impl::save(const AttemptPtr& attempt, int64_t number) {
  call<&TrialActor::save>(attempt, nanoseconds(0), to_bytes(number), [this, attempt, number](SaveReply reply) {
    if (reply.nothing) {
      return emit(CheckpointFailed{attempt->trial, attempt->number, number, reason("checkpoint.nothing_saved")});
    }
    if (!reply.error.empty()) return emit(CheckpointFailed{attempt->trial, attempt->number, number, reply.error});
    auto incoming = std::make_shared<IncomingCheckpoint>();
    incoming->attempt = attempt;
    incoming->step = number;
    incoming->reply = std::move(reply);
    on_disk([self = shared_from_this(), incoming] { self->open_incoming(incoming); });
  });
}

void TrialExecutor::Impl::fetch(const std::shared_ptr<IncomingCheckpoint>& incoming, int64_t offset, bool by_store) {
  if (!live(incoming->attempt)) return on_disk([incoming] { incoming->writer.reset(); });
  const std::string& sha256 = incoming->reply.parts[incoming->next].sha256;
  call<&TrialActor::read_part>(
      incoming->attempt, nanoseconds(0), to_bytes(sha256, offset, by_store), [this, incoming, offset](PartPieces read) {
        on_disk([self = shared_from_this(), incoming, offset, read = std::move(read)] {
          if (!incoming->writer) return;
          if (read.pieces.empty()) {
            const int64_t bytes = incoming->reply.parts[incoming->next].bytes;
            return self->fail_incoming(incoming,
                                       error_of(ErrorCode::kInternal, reason("checkpoint.part_ended", offset, bytes)));
          }
          if (incoming->by_store && !read.stored) self->kept.clear();  // The store was full.
          incoming->by_store = read.stored;
          incoming->keeps = incoming->keeps && read.stored;
          self->append_when_there(incoming, read.pieces, 0);
        });
      });
}

// ---- Artifacts.

void TrialExecutor::Impl::collect(const AttemptPtr& attempt, std::function<void()> then) {
  if (std::exchange(attempt->collecting, true)) return then();
  const auto after = [attempt, then = std::move(then)] {
    attempt->collecting = false;
    then();
  };
  const auto skip = [attempt, after](const Error&) { after(); };  // The actor is gone; the consequences are handled
                                                                  // elsewhere.
  call<&TrialActor::collect_artifacts>(
      attempt, nanoseconds(0), to_bytes(++attempt->collections),
      [this, attempt, after](ArtifactReply reply) {
        if (!reply.error.empty()) say_artifacts(attempt, reply.error);
        if (reply.files == 0) return after();
        auto incoming = std::make_shared<IncomingArtifacts>();
        incoming->attempt = attempt;
        incoming->reply = std::move(reply);
        incoming->then = after;
        on_disk([self = shared_from_this(), incoming] { self->open_artifacts(incoming); });
      },
      skip);
}

void TrialExecutor::Impl::say_artifacts(const AttemptPtr& attempt, const std::string& why) {
  emit(AttemptNotice{fmt::format("trial {}: its artifacts are not copied to {}: {}", attempt->name,
                                 artifacts_of(*attempt).string(), why)});
}

void TrialExecutor::Impl::fetch_artifacts(const std::shared_ptr<IncomingArtifacts>& incoming, int64_t offset) {
  const AttemptPtr& attempt = incoming->attempt;
  if (!live(attempt)) return on_disk([incoming] { drop_artifacts(*incoming); });
  if (offset >= incoming->reply.archive_bytes)
    return on_disk([self = shared_from_this(), incoming] { self->finish_artifacts(incoming); });
  call<&TrialActor::read_artifacts>(
      attempt, nanoseconds(0), to_bytes(offset, kArchiveChunkBytes),
      [this, incoming, offset](Bytes bytes) {
        on_disk([self = shared_from_this(), incoming, offset, bytes = std::move(bytes)] {
          self->append_artifacts(incoming, offset, bytes);
        });
      },
      [this, incoming](const Error&) {
        on_disk([incoming] { drop_artifacts(*incoming); });
        incoming->then();
      });
}

// ---- The end of an attempt.

void TrialExecutor::Impl::stop(const AttemptPtr& attempt, bool at_once) {
  if (!at_once && attempt->started && attempt->has_artifacts && !attempt->collecting) {
    return collect(attempt, [this, attempt] { stop_now(attempt, false); });
  }
  stop_now(attempt, at_once);
}

void TrialExecutor::Impl::stop_now(const AttemptPtr& attempt, bool at_once) {
  end(attempt);
  if (options.reuse_actors && attempt->started && !at_once) {
    emit(TrialGone{attempt->trial, attempt->number});
    return offer({attempt->actor, attempt->node});
  }
  const milliseconds grace = at_once ? milliseconds(0) : options.stop_grace;
  if (attempt->started) return kill_started(attempt, grace);
  on_head([self = shared_from_this(), attempt, grace] {
    if (attempt->spawned) self->kill(*attempt->spawned, grace);
    self->release_group(attempt, grace);
    self->on_control([self, attempt] { self->emit(TrialGone{attempt->trial, attempt->number}); });
  });
}

void TrialExecutor::Impl::kill_started(const AttemptPtr& attempt, milliseconds grace) {
  const auto gone = [this, attempt, told = std::make_shared<bool>(false)] {
    if (!std::exchange(*told, true)) emit(TrialGone{attempt->trial, attempt->number});
  };
  session->kill_later(attempt->actor, true, grace,
                      [weak = weak_from_this(), attempt, grace, gone](const Result<void>& killed) {
                        const auto self = weak.lock();
                        if (!self) return;
                        self->on_head([self, attempt, grace, again = !killed && worth_a_retry(killed.error().code)] {
                          if (again) self->kill(attempt->actor, grace);
                          self->release_group(attempt, grace);
                        });
                        self->on_control(gone);
                      });
  // If the head is away, the actor is ended when the head returns.
  after_on_control(kHeadPatience, [self = shared_from_this(), gone] { gone(); });
}

void TrialExecutor::Impl::end(const AttemptPtr& attempt) {
  attempt->drop_callbacks();
  attempts.erase(attempt->trial);
}

void TrialExecutor::Impl::fail(const AttemptPtr& attempt, Reason error, bool counts, bool dead) {
  end(attempt);
  if (!dead || !options.bundles.empty()) {
    on_head([self = shared_from_this(), attempt, dead] {
      if (attempt->spawned && !dead) self->kill(*attempt->spawned, milliseconds(0));
      self->release_group(attempt, milliseconds(0));
    });
  }
  emit(TrialFailed{attempt->trial, attempt->number, std::move(error), counts});
}

void TrialExecutor::Impl::invoke(const AttemptPtr& attempt, uint64_t method, std::string arguments, nanoseconds timeout,
                                 std::function<void(const std::string&)> then,
                                 std::function<void(const Error&)> refused) {
  session->call(
      attempt->actor, method, arguments, timeout,
      [weak = weak_from_this(), attempt, actor = attempt->actor, method, arguments, timeout, then = std::move(then),
       refused = std::move(refused)](Result<std::string> reply) {
        const auto self = weak.lock();
        if (!self || attempt->over) return;
        self->on_control([self, attempt, actor, method, arguments, timeout, then, refused, reply = std::move(reply)] {
          if (!self->live(attempt) || attempt->actor != actor) return;
          if (reply) return then(*reply);
          if (!worth_a_retry(reply.error().code))
            return refused ? refused(reply.error()) : self->on_refused(attempt, reply.error());
          self->after_on_control(self->options.retry_pause, [self, attempt, method, arguments, timeout, then, refused] {
            if (self->live(attempt)) self->invoke(attempt, method, arguments, timeout, then, refused);
          });
        });
      });
}

void TrialExecutor::Impl::on_refused(const AttemptPtr& attempt, const Error& error) {
  switch (error.code) {
    case ErrorCode::kActorDied:  // The status from the head determines the cause.
      return on_head([self = shared_from_this(), attempt, actor = attempt->actor, error] {
        const auto status = self->session->status(actor);
        const bool lost = status && status->lost;
        Reason why = status && status->death.message == error.message ? status->why : Reason(error.message);
        self->on_control([self, attempt, actor, why = std::move(why), lost] {
          if (self->live(attempt) && attempt->actor == actor) self->fail(attempt, why, !lost, true);
        });
      });
    case ErrorCode::kTimeout:
      return fail(
          attempt,
          reason("trial.step_timeout", fmt::format("{}", std::chrono::duration<double>(options.step_timeout).count())),
          true, false);
    case ErrorCode::kCancelled:
      return emit(Abort{error});
    default:
      return fail(attempt, error.message, true, false);
  }
}

// ---- Actions of the loop.

TrialExecutor::TrialExecutor(std::shared_ptr<Session> session, TrialExecutorOptions options,
                             std::function<void(ExecutorEvent)> emit)
    : loops_(std::make_unique<Loops>()),
      impl_(std::make_shared<Impl>(std::move(session), std::move(options), std::move(emit))) {
  impl_->loops = loops_.get();
}

TrialExecutor::~TrialExecutor() {
  // All attempts are ended before their actors are killed, so that no further events are reported.
  std::vector<IdleActor> idle;
  std::promise<std::vector<AttemptPtr>> left;
  impl_->on_control([this, &left, &idle] {
    idle.swap(impl_->idle);
    std::vector<AttemptPtr> attempts;
    for (auto& [trial, attempt] : impl_->attempts) {
      attempt->drop_callbacks();
      attempts.push_back(attempt);
    }
    impl_->attempts.clear();
    left.set_value(std::move(attempts));
  });
  std::promise<void> killed;
  auto attempts = left.get_future().get();
  impl_->on_head([this, &killed, &idle, &attempts] {
    for (const IdleActor& actor : idle) (void)impl_->session->kill(actor.actor, true, impl_->options.stop_grace);
    for (const AttemptPtr& attempt : attempts) {
      if (attempt->spawned) (void)impl_->session->kill(*attempt->spawned, true, milliseconds(0));
      impl_->release_group(attempt, milliseconds(0));
    }
    killed.set_value();
  });
  killed.get_future().wait();
  {
    const std::lock_guard<std::mutex> hold(impl_->gate);
    impl_->loops = nullptr;
  }
  loops_->control.stop();
  loops_->head.stop();
  loops_->disk.stop();
}

void TrialExecutor::start(TrialId trial, int64_t attempt, AttemptStart start) {
  auto made = std::make_shared<Attempt>();
  made->trial = trial;
  made->number = attempt;
  made->config = std::move(start.config);
  made->resources = std::move(start.resources);
  made->restore = std::move(start.restore);
  made->name = start.name.empty() ? to_string(trial) : std::move(start.name);
  made->folder = start.folder.empty() ? to_string(trial) : std::move(start.folder);
  impl_->on_control([impl = impl_, made] { impl->begin(made); });
}

void TrialExecutor::step(TrialId trial, int64_t attempt, int64_t step) {
  impl_->on_control([impl = impl_, trial, attempt, step] {
    if (const AttemptPtr found = impl->find(trial, attempt)) impl->step(found, step, impl->options.step_timeout);
  });
}

void TrialExecutor::save(TrialId trial, int64_t attempt, int64_t step) {
  impl_->on_control([impl = impl_, trial, attempt, step] {
    if (const AttemptPtr found = impl->find(trial, attempt)) impl->save(found, step);
  });
}

void TrialExecutor::stop(TrialId trial, int64_t attempt, bool at_once) {
  impl_->on_control([impl = impl_, trial, attempt, at_once] {
    if (const AttemptPtr found = impl->find(trial, attempt)) impl->stop(found, at_once);
  });
}

void TrialExecutor::remove(const Checkpoint& checkpoint) {
  impl_->on_disk([impl = impl_, checkpoint] {
    const auto stored = impl->store.find(folder_in(checkpoint.location), checkpoint.step);
    if (!stored) return;
    const auto removed = impl->store.remove(*stored);
    if (!removed)
      log::warn("tune", "a checkpoint cannot be removed",
                {{"checkpoint", checkpoint.location}, {"error", removed.error().message}});
  });
}

void TrialExecutor::clone(TrialId trial, int64_t attempt, const std::string& folder, const Checkpoint& checkpoint) {
  impl_->on_disk(
      [impl = impl_, trial, attempt, folder, checkpoint] { impl->clone(trial, attempt, folder, checkpoint); });
}

void TrialExecutor::drain() {
  std::promise<void> head, disk;
  impl_->on_head([&head] { head.set_value(); });
  head.get_future().wait();
  impl_->on_disk([&disk] { disk.set_value(); });
  disk.get_future().wait();
}

}  // namespace volador::tune
