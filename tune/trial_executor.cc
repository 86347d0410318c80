#include "tune/trial_executor.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <deque>
#include <future>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "runtime/actor/group_session.h"
#include "runtime/log.h"
#include "runtime/loop/event_loop.h"
#include "tune/checkpoint_store.h"
#include "tune/kept_parts.h"
#include "runtime/files/durable_file.h"
#include "tune/trial_actor.h"

namespace volador::tune {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

// One start of one trial.
struct Attempt {
  TrialId trial;
  int64_t number = 0;
  Config config;
  ResourceSet resources;  // Of its own; empty: those of all trials.
  std::optional<Checkpoint> restore;
  std::string name, folder;
  std::atomic<bool> over{false};     // Nothing of it counts any more.
  std::atomic<bool> adopted{false};  // It runs on the actor of an ended one.
  std::atomic<bool> opens{false};    // Setup and first step are ordered with its actor.
  std::optional<ActorId> spawned;  // Of the head loop, as the next one.
  bool group_asked = false;
  // Of the control loop:
  ActorId actor;
  std::optional<GroupId> group;  // Of its own.
  int64_t collections = 0;       // Of artifacts.
  bool has_artifacts = false;
  bool collecting = false;
  bool started = false;
  std::vector<std::function<void(const std::shared_ptr<Attempt>&)>> until_spawned;  // What came of the opening before `actor` was known.
  std::optional<Result<std::string>> first_step;     // Of the opening, before the loop asked for it;
  std::function<void(Result<std::string>)> on_first_step;  // else who takes it.
  bool was_refused = false;  // By an actor that it should have gone on with.
  bool placed = false;       // Its own actor lives, or it was given one.
  std::string node;
  std::string waiting;  // Told last.
  std::shared_ptr<void> watch;
};
using AttemptPtr = std::shared_ptr<Attempt>;

// An actor whose trial has ended.
struct IdleActor {
  ActorId actor;
  std::string node;
};

// A checkpoint on its way to the disk, part by part; its writer and what is kept of a part belong to the disk loop.
struct Incoming {
  AttemptPtr attempt;
  int64_t step = 0;
  SaveReply reply;
  std::optional<CheckpointWriter> writer;
  size_t next = 0;               // Part that is not there yet.
  std::vector<AnyRef> received;  // Of the part under way, as stored objects,
  bool keeps = true;             // while all came so and the part is not too large to be kept.
  bool by_store = true;          // How its next pieces come.
  int tries = 0;                 // Of pieces that could not be read.
};

// Artifacts on their way to the disk; the file belongs to the disk loop.
struct IncomingArtifacts {
  AttemptPtr attempt;
  ArtifactReply reply;
  std::filesystem::path archive;
  FileHandle file;
  std::function<void()> then;  // On the control loop, whatever came of it, while the attempt lives.
};

// One on its way to an actor, part by part; of the disk loop.
struct Outgoing {
  AttemptPtr attempt;
  StoredCheckpoint stored;
  size_t next = 0;                  // Part that is not there yet.
  std::shared_ptr<KeptPart> kept;   // The part under way as stored objects; null: read from the file.
  bool by_store = true;             // Else inside messages.
  int tries = 0;                    // Of parts that were lost on the way.
};

constexpr int kPieceTries = 5;
constexpr auto kPieceTimeout = std::chrono::seconds(60);  // It is there; where it was spilled to disk it comes back.

// "3f2a90c1" of "3f2a90c1/checkpoint_000010".
std::string folder_in(const std::string& location) { return location.substr(0, location.find('/')); }

// Small ones would only be many.
bool is_kept(const DirectoryPart& part) { return part.bytes > static_cast<int64_t>(kInlineObjectBytesMax) && part.bytes <= kKeptPartBytes; }

constexpr std::chrono::seconds kHeadPatience{30};

bool worth_a_retry(ErrorCode code) { return code == ErrorCode::kUnavailable || code == ErrorCode::kUnknownOutcome; }

}  // namespace

struct TrialExecutor::Loops {
  LoopSystem system{1};
  EventLoop disk{system, "tune-disk", EventLoop::Thread::kOwn};
  EventLoop head{system, "tune-head", EventLoop::Thread::kOwn};
  EventLoop control{system, "tune-control"};
};

struct TrialExecutor::Impl : std::enable_shared_from_this<TrialExecutor::Impl> {
  Impl(std::shared_ptr<Session> session_in, TrialExecutorOptions options_in, std::function<void(ExecutorEvent)> emit_in)
      : session(std::move(session_in)), options(std::move(options_in)), emit_to(std::move(emit_in)), store(options.directory) {}

  const std::shared_ptr<Session> session;
  const TrialExecutorOptions options;
  const std::function<void(ExecutorEvent)> emit_to;
  CheckpointStore store;                             // Of the disk loop, as the next two.
  KeptParts kept{kKeptPartBytes};
  std::optional<bool> has_store;                     // Whether this machine has an object store; unknown until it is needed.
  std::unordered_map<TrialId, AttemptPtr> attempts;  // Of the control loop, as the next two.
  std::deque<AttemptPtr> unplaced;                   // With reuse_actors: asked for, oldest first; some may have ended or been placed.
  std::vector<IdleActor> idle;
  std::mutex gate;
  Loops* loops = nullptr;  // Null once the executor ends: what is posted then is dropped.

  void post(EventLoop Loops::*loop, std::function<void()> function, nanoseconds delay = nanoseconds(0)) {
    const std::lock_guard<std::mutex> hold(gate);
    if (loops == nullptr) return;
    if (delay.count() > 0) return (loops->*loop).post_after(delay, std::move(function));
    (loops->*loop).post(std::move(function));
  }
  void on_control(std::function<void()> function) { post(&Loops::control, std::move(function)); }
  void on_head(std::function<void()> function) { post(&Loops::head, std::move(function)); }
  void on_disk(std::function<void()> function) { post(&Loops::disk, std::move(function)); }
  void after_on_control(nanoseconds delay, std::function<void()> function) { post(&Loops::control, std::move(function), delay); }
  void after_on_head(nanoseconds delay, std::function<void()> function) { post(&Loops::head, std::move(function), delay); }

  // ---- On the control loop.

  template <class T>
  void emit(T event) {
    if constexpr (std::is_same_v<T, AttemptPlace> || std::is_same_v<T, MediaReported> || std::is_same_v<T, AttemptNotice>) {
      emit_to(std::move(event));
    } else {
      emit_to(Event(std::move(event)));
    }
  }
  bool live(const AttemptPtr& attempt) const {
    const auto found = attempts.find(attempt->trial);
    return found != attempts.end() && found->second == attempt;
  }
  AttemptPtr find(TrialId trial, int64_t number) const {
    const auto found = attempts.find(trial);
    return found == attempts.end() || found->second->number != number ? nullptr : found->second;
  }

  void begin(AttemptPtr attempt) {
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

  void on_spawned(const AttemptPtr& attempt, const ActorId& actor, std::shared_ptr<void> watch) {
    if (!live(attempt) || attempt->adopted) return;
    attempt->actor = actor;
    attempt->watch = std::move(watch);
    if (!attempt->opens) return restore_and_set_up(attempt);
    for (const auto& answered : std::exchange(attempt->until_spawned, {})) answered(attempt);
  }

  void restore_and_set_up(const AttemptPtr& attempt) {
    if (!attempt->restore) return set_up(attempt, {});
    on_disk([self = shared_from_this(), attempt] { self->open_restore(attempt); });
  }

  // ---- Reuse.

  // The actor of an ended attempt goes to the oldest one that has none; where that one needs one of its own, it makes room.
  void offer(IdleActor actor) {
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

  void release(const IdleActor& actor) {
    on_head([self = shared_from_this(), id = actor.actor] { self->kill(id, self->options.stop_grace); });
  }

  void adopt(const AttemptPtr& attempt, const IdleActor& actor) {
    attempt->adopted = attempt->placed = true;
    attempt->opens = false;
    attempt->actor = actor.actor;
    attempt->node = actor.node;
    on_head([self = shared_from_this(), attempt, id = actor.actor] {
      if (attempt->spawned) self->kill(*attempt->spawned, milliseconds(0));  // It waited in vain.
      attempt->spawned = id;
    });
    const std::string arguments = to_bytes(spec_of(attempt), attempt->config);
    invoke(attempt, function_id<&TrialActor::reuse>(), arguments, nanoseconds(0), [this, attempt](const std::string& bytes) {
      const auto reused = from_bytes<bool>(bytes);
      if (!reused || !*reused) return abandon(attempt);
      attempt->watch = watch(attempt, attempt->actor);
      restore_and_set_up(attempt);
    }, [this, attempt](const Error&) { abandon(attempt); });
  }

  // The actor does not serve another trial: it goes, and the attempt gets one of its own.
  void abandon(const AttemptPtr& attempt) {
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

  std::shared_ptr<void> watch(const AttemptPtr& attempt, const ActorId& actor) {
    return session->on_status(actor, [weak = weak_from_this(), attempt](const ActorStatus& status) {
      if (const auto self = weak.lock()) self->on_control([self, attempt, status] { self->on_status(attempt, status); });
    });
  }

  TrialSpec spec_of(const AttemptPtr& attempt) const {
    const auto& amounts = resources_of_attempt(attempt).entries();
    return {options.trainable.name, Bytes{options.trainable.parameters}, options.experiment, to_string(attempt->trial), attempt->number,
            {amounts.begin(), amounts.end()}, attempt->name, attempt->group.value_or(GroupId()), options.artifact_bytes_max};
  }
  const ResourceSet& resources_of_attempt(const AttemptPtr& attempt) const {
    return attempt->resources.empty() ? options.resources : attempt->resources;
  }

  // ---- What an attempt does.

  void on_status(const AttemptPtr& attempt, const ActorStatus& status) {
    if (!live(attempt) || (!attempt->actor.is_nil() && status.id != attempt->actor)) return;
    attempt->placed = attempt->placed || status.state == ActorState::kAlive;
    if (!status.node_name.empty()) attempt->node = status.node_name;
    if (status.state == ActorState::kDead) return fail(attempt, status.death.message, !status.lost, true);
    if (status.state == ActorState::kPending && !status.reason.empty() && status.reason != attempt->waiting) {
      attempt->waiting = status.reason;
      emit(ActorWaiting{attempt->trial, attempt->number, status.reason});
    }
  }

  void set_up(const AttemptPtr& attempt, std::vector<DirectoryPart> parts) {
    const TrialSetup setup{attempt->config, attempt->restore ? attempt->restore->step : 0, std::move(parts)};
    call<&TrialActor::setup>(attempt, nanoseconds(0), to_bytes(setup), [this, attempt](const TrialReady& ready) { on_ready(attempt, ready); });
  }

  void on_ready(const AttemptPtr& attempt, const TrialReady& ready) {
    if (!ready.restore_error.empty()) return lose_checkpoint(attempt, ready.restore_error);
    attempt->started = true;
    emit(AttemptPlace{attempt->trial, attempt->number, attempt->actor, attempt->node, ready.hostname, ready.pid});
    emit(TrialStarted{attempt->trial, attempt->number, attempt->node});
  }

  // Setup and first step travel with the order to start: the host goes on with them while the head still tells us where it is. A step that
  // has a time limit waits for the loop, which counts from then.
  std::vector<std::shared_ptr<OutgoingCall>> opening_of(const AttemptPtr& attempt) {
    if (!attempt->opens) return {};
    std::vector<std::shared_ptr<OutgoingCall>> calls;
    calls.push_back(opening_call<&TrialActor::setup>(attempt, to_bytes(TrialSetup{attempt->config}), [this, attempt](Result<std::string> reply) {
      if (reply) return decode<TrialReady>(attempt, *reply, [this, attempt](const TrialReady& ready) { on_ready(attempt, ready); });
      worth_a_retry(reply.error().code) ? set_up(attempt, {}) : on_refused(attempt, reply.error());
    }));
    if (options.step_timeout.count() > 0) return calls;
    calls.push_back(opening_call<&TrialActor::step>(attempt, to_bytes<int64_t>(1), [attempt](Result<std::string> reply) {
      if (attempt->on_first_step) return std::exchange(attempt->on_first_step, {})(std::move(reply));
      attempt->first_step = std::move(reply);
    }));
    return calls;
  }

  // `then` on the control loop, once the actor is known, while it is the attempt's.
  template <auto M, class F>
  std::shared_ptr<OutgoingCall> opening_call(const AttemptPtr& attempt, std::string arguments, F then) {
    return Session::make_call(function_id<M>(), std::move(arguments), [weak = weak_from_this(), attempt, then = std::move(then)](Result<std::string> reply) {
      const auto self = weak.lock();
      if (!self || attempt->over) return;
      self->on_control([self, attempt, then, reply = std::move(reply)]() mutable {
        auto answered = [self, then, reply = std::move(reply)](const AttemptPtr& of) {
          if (self->live(of) && of->opens) then(reply);
        };
        if (!attempt->actor.is_nil()) return answered(attempt);
        if (self->live(attempt)) attempt->until_spawned.push_back(std::move(answered));
      });
    });
  }

  void lose_checkpoint(const AttemptPtr& attempt, const std::string& why) {
    emit(CheckpointLost{attempt->trial, attempt->restore->location});
    fail(attempt, fmt::format("its checkpoint {} cannot be read: {}", attempt->restore->location, why), false, false);
  }

  // A step whose time ran out while no head was in reach, which parks actors, is asked for again for as long as that took.
  void step(const AttemptPtr& attempt, int64_t number, nanoseconds timeout) {
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

  void await_first_step(const AttemptPtr& attempt) {
    const auto take = [this, weak = std::weak_ptr<Attempt>(attempt)](Result<std::string> reply) {
      const AttemptPtr held = weak.lock();  // Which holds this function.
      if (!held) return;
      if (reply) return decode<StepReply>(held, *reply, [this, held](StepReply made) { on_step(held, std::move(made)); });
      if (!worth_a_retry(reply.error().code)) return on_step_refused(held, reply.error());
      held->opens = false;
      step(held, 1, nanoseconds(0));
    };
    if (attempt->first_step) return take(*std::exchange(attempt->first_step, std::nullopt));
    attempt->on_first_step = take;
  }

  void on_step(const AttemptPtr& attempt, StepReply reply) {
    attempt->has_artifacts = reply.has_artifacts;
    if (!reply.media.empty()) emit(MediaReported{attempt->trial, reply.step, std::move(reply.media)});
    if (!reply.tags.empty()) emit(TrialTagged{attempt->trial, std::move(reply.tags)});
    if (reply.finished) return emit(TrialFinished{attempt->trial, attempt->number});
    emit(ResultReported{attempt->trial, attempt->number, reply.step, std::move(reply.metrics), reply.duration, reply.done});
  }

  void on_step_refused(const AttemptPtr& attempt, const Error& error) {
    if (error.code != ErrorCode::kApplication || options.artifact_bytes_max == 0) return on_refused(attempt, error);
    collect(attempt, [this, attempt, error] { on_refused(attempt, error); });
  }

  void save(const AttemptPtr& attempt, int64_t number) {
    call<&TrialActor::save>(attempt, nanoseconds(0), to_bytes(number), [this, attempt, number](SaveReply reply) {
      if (reply.nothing) {
        return emit(CheckpointFailed{attempt->trial, attempt->number, number,
                                     "the trainable saves nothing: override save_checkpoint and load_checkpoint, or give tune::report a function that saves"});
      }
      if (!reply.error.empty()) return emit(CheckpointFailed{attempt->trial, attempt->number, number, reply.error});
      auto incoming = std::make_shared<Incoming>();
      incoming->attempt = attempt;
      incoming->step = number;
      incoming->reply = std::move(reply);
      on_disk([self = shared_from_this(), incoming] { self->open_incoming(incoming); });
    });
  }

  // The next pieces of the part that is due.
  void fetch(const std::shared_ptr<Incoming>& incoming, int64_t offset, bool by_store) {
    if (!live(incoming->attempt)) return on_disk([incoming] { incoming->writer.reset(); });
    const std::string& sha256 = incoming->reply.parts[incoming->next].sha256;
    call<&TrialActor::read_part>(incoming->attempt, nanoseconds(0), to_bytes(sha256, offset, by_store), [this, incoming, offset](PartPieces read) {
      on_disk([self = shared_from_this(), incoming, offset, read = std::move(read)] {
        if (!incoming->writer) return;
        if (read.pieces.empty()) {
          const int64_t bytes = incoming->reply.parts[incoming->next].bytes;
          return self->fail_incoming(incoming, {ErrorCode::kInternal, fmt::format("a part of it ended at {} of {} bytes", offset, bytes)});
        }
        if (incoming->by_store && !read.stored) self->kept.clear();  // There was no room.
        incoming->by_store = read.stored;
        incoming->keeps = incoming->keeps && read.stored;
        self->append_when_there(incoming, read.pieces, 0);
      });
    });
  }

  // ---- Artifacts.

  // Brings what is new in the attempt's artifacts folder to the disk, then `then`. What goes wrong is said, and changes nothing.
  void collect(const AttemptPtr& attempt, std::function<void()> then) {
    if (std::exchange(attempt->collecting, true)) return then();
    const auto after = [attempt, then = std::move(then)] {
      attempt->collecting = false;
      then();
    };
    const auto skip = [attempt, after](const Error&) { after(); };  // Its actor is gone; what comes of that is not decided here.
    call<&TrialActor::collect_artifacts>(attempt, nanoseconds(0), to_bytes(++attempt->collections), [this, attempt, after](ArtifactReply reply) {
      if (!reply.error.empty()) say_artifacts(attempt, reply.error);
      if (reply.files == 0) return after();
      auto incoming = std::make_shared<IncomingArtifacts>();
      incoming->attempt = attempt;
      incoming->reply = std::move(reply);
      incoming->then = after;
      on_disk([self = shared_from_this(), incoming] { self->open_artifacts(incoming); });
    }, skip);
  }

  void say_artifacts(const AttemptPtr& attempt, const std::string& why) {
    emit(AttemptNotice{fmt::format("trial {}: its artifacts are not copied to {}: {}", attempt->name, artifacts_of(*attempt).string(), why)});
  }

  std::filesystem::path artifacts_of(const Attempt& attempt) const { return options.directory / attempt.folder / "artifacts"; }

  void fetch_artifacts(const std::shared_ptr<IncomingArtifacts>& incoming, int64_t offset) {
    const AttemptPtr& attempt = incoming->attempt;
    if (!live(attempt)) return on_disk([incoming] { drop_artifacts(*incoming); });
    if (offset >= incoming->reply.archive_bytes) return on_disk([self = shared_from_this(), incoming] { self->finish_artifacts(incoming); });
    call<&TrialActor::read_artifacts>(attempt, nanoseconds(0), to_bytes(offset, kArchiveChunkBytes), [this, incoming, offset](Bytes bytes) {
      on_disk([self = shared_from_this(), incoming, offset, bytes = std::move(bytes)] { self->append_artifacts(incoming, offset, bytes); });
    }, [this, incoming](const Error&) {
      on_disk([incoming] { drop_artifacts(*incoming); });
      incoming->then();
    });
  }

  // ---- The end of an attempt.

  void stop(const AttemptPtr& attempt, bool at_once) {
    if (!at_once && attempt->started && attempt->has_artifacts && !attempt->collecting) {
      return collect(attempt, [this, attempt] { stop_now(attempt, false); });
    }
    stop_now(attempt, at_once);
  }

  void stop_now(const AttemptPtr& attempt, bool at_once) {
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

  // Its CPUs are waited for: not behind what is asked for other attempts.
  void kill_started(const AttemptPtr& attempt, milliseconds grace) {
    const auto gone = [this, attempt, told = std::make_shared<bool>(false)] {
      if (!std::exchange(*told, true)) emit(TrialGone{attempt->trial, attempt->number});
    };
    session->kill_later(attempt->actor, true, grace, [weak = weak_from_this(), attempt, grace, gone](const Result<void>& killed) {
      const auto self = weak.lock();
      if (!self) return;
      self->on_head([self, attempt, grace, again = !killed && worth_a_retry(killed.error().code)] {
        if (again) self->kill(attempt->actor, grace);
        self->release_group(attempt, grace);
      });
      self->on_control(gone);
    });
    after_on_control(kHeadPatience, [self = shared_from_this(), gone] { gone(); });  // A head that is away ends it when it comes.
  }

  void end(const AttemptPtr& attempt) {
    attempt->over = true;
    attempt->watch.reset();
    attempts.erase(attempt->trial);
  }

  void fail(const AttemptPtr& attempt, std::string error, bool counts, bool dead) {
    end(attempt);
    if (!dead || attempt->group) {
      on_head([self = shared_from_this(), attempt, dead] {
        if (attempt->spawned && !dead) self->kill(*attempt->spawned, milliseconds(0));
        self->release_group(attempt, milliseconds(0));
      });
    }
    emit(TrialFailed{attempt->trial, attempt->number, std::move(error), counts});
  }

  // `then` gets the decoded reply while the attempt lives.
  // refused: as of invoke().
  template <auto M, class F>
  void call(const AttemptPtr& attempt, nanoseconds timeout, std::string arguments, F then, std::function<void(const Error&)> refused = {}) {
    using Reply = std::decay_t<typename volador::registration::Signature<decltype(M)>::Return>;
    invoke(attempt, function_id<M>(), std::move(arguments), timeout,
           [this, attempt, then](const std::string& bytes) { decode<Reply>(attempt, bytes, then); }, std::move(refused));
  }

  template <class Reply, class F>
  void decode(const AttemptPtr& attempt, const std::string& bytes, F then) {
    const RefScope claims(RefScope::Kind::kReceiveAnswer);
    auto reply = from_bytes<Reply>(bytes);
    if (!reply) return fail(attempt, reply.error().message, true, false);
    then(std::move(*reply));
  }

  // refused: what to do instead of failing the attempt.
  void invoke(const AttemptPtr& attempt, uint64_t method, std::string arguments, nanoseconds timeout, std::function<void(const std::string&)> then,
              std::function<void(const Error&)> refused = {}) {
    session->call(attempt->actor, method, arguments, timeout,
                  [weak = weak_from_this(), attempt, actor = attempt->actor, method, arguments, timeout, then = std::move(then),
                   refused = std::move(refused)](Result<std::string> reply) {
                    const auto self = weak.lock();
                    if (!self || attempt->over) return;
                    self->on_control([self, attempt, actor, method, arguments, timeout, then, refused, reply = std::move(reply)] {
                      if (!self->live(attempt) || attempt->actor != actor) return;
                      if (reply) return then(*reply);
                      if (!worth_a_retry(reply.error().code)) return refused ? refused(reply.error()) : self->on_refused(attempt, reply.error());
                      self->after_on_control(self->options.retry_pause, [self, attempt, method, arguments, timeout, then, refused] {
                        if (self->live(attempt)) self->invoke(attempt, method, arguments, timeout, then, refused);
                      });
                    });
                  });
  }

  void on_refused(const AttemptPtr& attempt, const Error& error) {
    switch (error.code) {
      case ErrorCode::kActorDied:  // The head's word says whose fault it was.
        return on_head([self = shared_from_this(), attempt, actor = attempt->actor, error] {
          const auto status = self->session->status(actor);
          const bool lost = status && status->lost;
          self->on_control([self, attempt, actor, error, lost] {
            if (self->live(attempt) && attempt->actor == actor) self->fail(attempt, error.message, !lost, true);
          });
        });
      case ErrorCode::kTimeout:
        return fail(attempt, fmt::format("a step took longer than step_timeout ({} s): it hangs, or the limit is too low",
                                         std::chrono::duration<double>(options.step_timeout).count()),
                    true, false);
      case ErrorCode::kCancelled: return emit(Abort{error});
      default: return fail(attempt, error.message, true, false);
    }
  }

  // ---- On the head loop.

  // A group of its own first, where it has bundles. It waits for its place with its actor in it.
  void ask_for_group(const AttemptPtr& attempt) {
    const auto groups = session->groups();
    if (groups == nullptr) {
      return on_spawn_refused(attempt, {ErrorCode::kInvalidArgument, "bundles_per_trial: this cluster has no placement groups"});
    }
    attempt->group_asked = true;
    GroupAsk ask{.bundles = options.bundles, .strategy = options.strategy};
    ask.wait_if_infeasible = options.wait_if_infeasible;
    groups->create(ask, [self = shared_from_this(), attempt](Result<GroupStatus> made) {
      // Of an attempt that has ended meanwhile, with the whole run perhaps: nobody else would give it back.
      if (made && attempt->over) return self->session->groups()->remove(made->id, [](const Result<GroupStatus>&) {});
      self->on_head([self, attempt, made = std::move(made)] {
        if (!made) {
          attempt->group_asked = false;
          if (!attempt->over) self->on_spawn_refused(attempt, made.error());
          return;
        }
        self->on_control([self, attempt, id = made->id] {
          attempt->group = id;
          self->on_head([self, attempt] { attempt->over ? self->release_group(attempt, milliseconds(0)) : self->spawn(attempt); });
        });
      });
    });
  }

  // Once its actor is gone, or `grace` has passed. Repeated: no effect.
  void release_group(const AttemptPtr& attempt, milliseconds grace) {
    constexpr milliseconds kLook{20};
    if (!attempt->group) return;
    if (grace.count() > 0 && attempt->spawned) {
      const auto status = session->status(*attempt->spawned);
      if (status && status->state != ActorState::kDead) {
        return after_on_head(kLook, [self = shared_from_this(), attempt, left = grace - kLook] { self->release_group(attempt, left); });
      }
    }
    session->groups()->remove(*attempt->group, [](const Result<GroupStatus>&) {});
  }

  void spawn(const AttemptPtr& attempt) {
    if (attempt->over || attempt->adopted) return;
    if (!options.bundles.empty() && !attempt->group) {
      if (!attempt->group_asked) ask_for_group(attempt);
      return;
    }
    using Constructor = volador::registration::Constructor<TrialActor, TrialSpec>;
    (void)Constructor::enlisted;
    SpawnRequest request;
    request.class_name = type_name<TrialActor>();
    request.arguments = to_bytes(Constructor::id(), spec_of(attempt));
    request.resources = resources_of_attempt(attempt);
    if (attempt->group) request.group = *attempt->group;
    request.wait_if_infeasible = options.wait_if_infeasible && attempt->resources.empty();
    request.display = "trial " + attempt->name;
    request.retriable = true;  // The loop knows what to do about a trial that died; an actor of the user may not.
    request.start_timeout = options.start_timeout;
    request.opening = opening_of(attempt);
    const auto actor = session->spawn(request);
    if (!actor) return on_spawn_refused(attempt, actor.error());
    attempt->spawned = *actor;
    on_control([self = shared_from_this(), attempt, id = *actor, token = watch(attempt, *actor)] { self->on_spawned(attempt, id, token); });
    // What changed before the listener was there.
    if (const auto status = session->status(*actor)) {
      on_control([self = shared_from_this(), attempt, now = *status] { self->on_status(attempt, now); });
    }
  }

  void on_spawn_refused(const AttemptPtr& attempt, const Error& error) {
    if (error.code == ErrorCode::kInfeasible && !attempt->resources.empty()) {
      on_control([self = shared_from_this(), attempt, error] {
        if (!self->live(attempt)) return;
        self->end(attempt);
        self->emit(ResourcesRefused{attempt->trial, attempt->number, error.message});
      });
      return;
    }
    if (!worth_a_retry(error.code)) {
      on_control([self = shared_from_this(), error] { self->emit(Abort{error}); });
      return;
    }
    on_control([self = shared_from_this(), attempt, error] {
      if (self->live(attempt)) self->emit(ActorWaiting{attempt->trial, attempt->number, error.message});
    });
    after_on_head(options.retry_pause, [self = shared_from_this(), attempt] { self->spawn(attempt); });
  }

  void kill(const ActorId& actor, milliseconds grace) {
    const auto killed = session->kill(actor, true, grace);
    if (killed || !worth_a_retry(killed.error().code)) return;
    after_on_head(options.retry_pause, [self = shared_from_this(), actor, grace] { self->kill(actor, grace); });
  }

  // ---- On the disk loop.

  void fail_incoming(const std::shared_ptr<Incoming>& incoming, const Error& error) {
    incoming->writer.reset();
    on_control([self = shared_from_this(), incoming, error] {
      self->emit(CheckpointFailed{incoming->attempt->trial, incoming->attempt->number, incoming->step, error.message});
    });
  }

  void open_incoming(const std::shared_ptr<Incoming>& incoming) {
    auto writer = store.begin(incoming->attempt->folder, incoming->step, static_cast<uint64_t>(incoming->attempt->number));
    if (!writer) return fail_incoming(incoming, writer.error());
    incoming->writer.emplace(std::move(*writer));
    next_part(incoming);
  }

  // Those that lie in the storage already do not travel.
  void next_part(const std::shared_ptr<Incoming>& incoming) {
    const std::vector<DirectoryPart>& parts = incoming->reply.parts;
    while (incoming->next < parts.size() && incoming->writer->reuse(parts[incoming->next])) ++incoming->next;
    if (incoming->next == parts.size()) return commit(incoming);
    if (auto begun = incoming->writer->begin_part(parts[incoming->next]); !begun) return fail_incoming(incoming, begun.error());
    incoming->received.clear();
    incoming->by_store = incoming->by_store && takes_objects();
    incoming->keeps = incoming->by_store && is_kept(parts[incoming->next]);
    ask_for_pieces(incoming);
  }

  void ask_for_pieces(const std::shared_ptr<Incoming>& incoming, nanoseconds delay = nanoseconds(0)) {
    const int64_t offset = incoming->writer->bytes();
    post(&Loops::control, [self = shared_from_this(), incoming, offset, by_store = incoming->by_store] { self->fetch(incoming, offset, by_store); }, delay);
  }

  // In their order, each as soon as it is here; those behind it are on their way meanwhile.
  void append_when_there(const std::shared_ptr<Incoming>& incoming, const std::vector<AnyRef>& pieces, size_t index) {
    if (index == pieces.size()) return after_pieces(incoming);
    pieces[index].when_ready([weak = weak_from_this(), incoming, pieces, index] {
      const auto self = weak.lock();
      if (!self) return;
      self->on_disk([self, incoming, pieces, index] {
        if (self->append(incoming, pieces[index])) self->append_when_there(incoming, pieces, index + 1);
      });
    });
  }

  // Whether the next piece may follow.
  bool append(const std::shared_ptr<Incoming>& incoming, const AnyRef& piece) {
    if (!incoming->writer) return false;
    const auto bytes = piece.bytes(kPieceTimeout);
    if (!bytes) {
      fetch_again(incoming, bytes.error());
      return false;
    }
    if (auto appended = incoming->writer->append(bytes->text()); !appended) {
      fail_incoming(incoming, appended.error());
      return false;
    }
    if (incoming->keeps) incoming->received.push_back(piece);
    return true;
  }

  // From where it was cut off; in the end without the object stores.
  void fetch_again(const std::shared_ptr<Incoming>& incoming, const Error& error) {
    log::info("tune", "a checkpoint was cut off on its way and goes on", {{"trial", incoming->attempt->folder}, {"step", std::to_string(incoming->step)},
              {"bytes", std::to_string(incoming->writer->bytes())}, {"error", error.message}});
    if (++incoming->tries >= kPieceTries) incoming->by_store = incoming->keeps = false;
    ask_for_pieces(incoming, options.retry_pause);
  }

  void after_pieces(const std::shared_ptr<Incoming>& incoming) {
    const DirectoryPart& part = incoming->reply.parts[incoming->next];
    if (incoming->writer->bytes() < part.bytes) return ask_for_pieces(incoming);
    if (auto ended = incoming->writer->end_part(); !ended) return fail_incoming(incoming, ended.error());
    if (incoming->keeps) kept.add(part, std::move(incoming->received));
    ++incoming->next;
    next_part(incoming);
  }

  bool takes_objects() {
    if (!has_store) {
      const auto objects = session->objects();
      const auto room = objects ? objects->create(kInlineObjectBytesMax + 1) : make_error(ErrorCode::kUnavailable, "this process has none");
      has_store = room.has_value();
      if (!room) log::info("tune", "checkpoints travel inside calls, not through object stores", {{"error", room.error().message}});
    }
    return *has_store;
  }

  void commit(const std::shared_ptr<Incoming>& incoming) {
    auto stored = incoming->writer->commit(options.clock->wall());
    if (!stored) return fail_incoming(incoming, stored.error());
    on_control([self = shared_from_this(), incoming] {
      // Beside the checkpoint, before what comes next.
      if (incoming->attempt->has_artifacts && self->live(incoming->attempt)) {
        return self->collect(incoming->attempt, [self, incoming] { self->tell_saved(*incoming); });
      }
      self->tell_saved(*incoming);
    });
  }

  void tell_saved(const Incoming& incoming) {
    const std::string location = incoming.attempt->folder + "/" + checkpoint_name(incoming.step);
    emit(CheckpointSaved{incoming.attempt->trial, incoming.attempt->number, incoming.step, location});
  }

  // A failure is said; then it goes on as if there had been none.
  void fail_artifacts(const std::shared_ptr<IncomingArtifacts>& incoming, const Error& error) {
    drop_artifacts(*incoming);
    on_control([self = shared_from_this(), incoming, error] {
      if (!self->live(incoming->attempt)) return;
      self->say_artifacts(incoming->attempt, error.message);
      incoming->then();
    });
  }

  static void drop_artifacts(IncomingArtifacts& incoming) {
    incoming.file = FileHandle();
    std::error_code ignored;
    if (!incoming.archive.empty()) std::filesystem::remove(incoming.archive, ignored);
  }

  void open_artifacts(const std::shared_ptr<IncomingArtifacts>& incoming) {
    const Attempt& attempt = *incoming->attempt;
    incoming->archive = options.directory / attempt.folder / fmt::format(".artifacts_{}_{}.vla", attempt.number, attempt.collections);
    std::error_code ignored;
    std::filesystem::create_directories(incoming->archive.parent_path(), ignored);
    auto file = FileHandle::open(incoming->archive, O_WRONLY | O_CREAT | O_TRUNC);
    if (!file) return fail_artifacts(incoming, file.error());
    incoming->file = std::move(*file);
    on_control([self = shared_from_this(), incoming] { self->fetch_artifacts(incoming, 0); });
  }

  void append_artifacts(const std::shared_ptr<IncomingArtifacts>& incoming, int64_t offset, const Bytes& bytes) {
    if (bytes.data.empty()) return fail_artifacts(incoming, {ErrorCode::kInternal, "their archive ended early"});
    if (auto written = write_all(incoming->file.get(), bytes.data, incoming->archive); !written) return fail_artifacts(incoming, written.error());
    on_control([self = shared_from_this(), incoming, next = offset + static_cast<int64_t>(bytes.data.size())] { self->fetch_artifacts(incoming, next); });
  }

  void finish_artifacts(const std::shared_ptr<IncomingArtifacts>& incoming) {
    incoming->file = FileHandle();
    const auto added = add_artifacts(incoming->archive, incoming->reply.sha256, artifacts_of(*incoming->attempt));
    if (!added) return fail_artifacts(incoming, added.error());
    drop_artifacts(*incoming);
    on_control([self = shared_from_this(), incoming] {
      if (self->live(incoming->attempt)) incoming->then();
    });
  }

  void clone(TrialId trial, int64_t attempt, const std::string& folder, const Checkpoint& checkpoint) {
    const int64_t step = checkpoint.step;
    auto stored = store.find(folder_in(checkpoint.location), step);
    if (stored) stored = store.clone(*stored, folder, static_cast<uint64_t>(attempt), options.clock->wall());
    on_control([self = shared_from_this(), trial, attempt, step, folder, stored = std::move(stored)] {
      if (!stored) return self->emit(CloneFailed{trial, attempt, step, stored.error().message});
      self->emit(CheckpointCloned{trial, attempt, step, folder + "/" + checkpoint_name(step)});
    });
  }

  void open_restore(const AttemptPtr& attempt) {
    auto stored = store.find(attempt->folder, attempt->restore->step);
    if (!stored) return fail_restore(attempt, stored.error());
    auto outgoing = std::make_shared<Outgoing>();
    outgoing->attempt = attempt;
    outgoing->stored = std::move(*stored);
    send_part(outgoing);
  }

  void fail_restore(const AttemptPtr& attempt, const Error& error) {
    on_control([self = shared_from_this(), attempt, error] {
      if (self->live(attempt)) self->lose_checkpoint(attempt, error.message);
    });
  }

  void send_part(const std::shared_ptr<Outgoing>& outgoing) {
    if (outgoing->next == outgoing->stored.parts.size()) {
      return on_control([self = shared_from_this(), outgoing] {
        if (self->live(outgoing->attempt)) self->set_up(outgoing->attempt, outgoing->stored.parts);
      });
    }
    // As it came from its trial's node, perhaps from this attempt's; or as it went to another trial.
    outgoing->kept = kept.find(outgoing->stored.parts[outgoing->next].sha256);
    send_pieces(outgoing, 0);
  }

  // From `offset` on, as many as travel at once.
  void send_pieces(const std::shared_ptr<Outgoing>& outgoing, int64_t offset) {
    auto pieces = pieces_from(*outgoing, offset);
    if (!pieces) return fail_restore(outgoing->attempt, pieces.error());
    on_control([self = shared_from_this(), outgoing, offset, pieces = std::move(*pieces)] {
      const AttemptPtr& target = outgoing->attempt;
      if (!self->live(target)) return;
      const std::string& sha256 = outgoing->stored.parts[outgoing->next].sha256;
      // `pieces` keeps the objects until they have arrived.
      self->call<&TrialActor::restore_pieces>(target, nanoseconds(0), to_bytes(sha256, offset, pieces), [self = self.get(), outgoing, pieces](PiecesTaken taken) {
        self->on_disk([again = self->shared_from_this(), outgoing, taken = std::move(taken)] { again->after_sending(outgoing, taken); });
      });
    });
  }

  void after_sending(const std::shared_ptr<Outgoing>& outgoing, const PiecesTaken& taken) {
    const DirectoryPart& part = outgoing->stored.parts[outgoing->next];
    if (!taken.lost.empty()) {
      log::info("tune", "a piece of a checkpoint was lost on its way to its trial and is sent again", {{"trial", outgoing->attempt->folder}, {"bytes", std::to_string(taken.bytes)}, {"error", taken.lost}});
      kept.drop(part.sha256);
      outgoing->kept.reset();
      if (++outgoing->tries >= kPieceTries) outgoing->by_store = false;
    }
    if (taken.bytes < part.bytes) return send_pieces(outgoing, taken.bytes);
    ++outgoing->next;
    send_part(outgoing);
  }

  Result<std::vector<AnyRef>> pieces_from(Outgoing& outgoing, int64_t offset) {
    const DirectoryPart& part = outgoing.stored.parts[outgoing.next];
    const std::filesystem::path archive = outgoing.stored.archive(outgoing.next);
    outgoing.by_store = outgoing.by_store && takes_objects();
    if (!outgoing.kept && outgoing.by_store) {
      // Those of a whole part serve the next trial as well.
      const bool whole = is_kept(part);
      auto put = put_pieces(archive, whole ? 0 : offset, part.bytes, whole ? SIZE_MAX : kStoredPieces);
      if (put && !whole) return put;
      if (put) outgoing.kept = kept.add(part, std::move(*put));
      outgoing.by_store = put.has_value();
    }
    if (outgoing.kept) return outgoing.kept->from(offset, kStoredPieces);
    auto file = FileHandle::open(archive, O_RDONLY);
    if (!file) return make_error(file.error());
    if (::lseek(file->get(), offset, SEEK_SET) != offset) return make_error(file_error("read", archive, errno));
    std::string bytes(static_cast<size_t>(std::min(kArchiveChunkBytes, part.bytes - offset)), '\0');
    auto count = read_some(file->get(), bytes.data(), bytes.size(), archive);
    if (!count) return make_error(count.error());
    if (*count != bytes.size()) return make_error(ErrorCode::kInvalidArgument, fmt::format("{}: it became shorter", archive.string()));
    return std::vector<AnyRef>{AnyRef(std::make_shared<const std::string>(std::move(bytes)))};
  }
};

TrialExecutor::TrialExecutor(std::shared_ptr<Session> session, TrialExecutorOptions options, std::function<void(ExecutorEvent)> emit)
    : loops_(std::make_unique<Loops>()), impl_(std::make_shared<Impl>(std::move(session), std::move(options), std::move(emit))) {
  impl_->loops = loops_.get();
}

TrialExecutor::~TrialExecutor() {
  // Every attempt is over before its actor is killed, so that nothing more is told of it.
  std::vector<IdleActor> idle;
  std::promise<std::vector<AttemptPtr>> left;
  impl_->on_control([this, &left, &idle] {
    idle.swap(impl_->idle);
    std::vector<AttemptPtr> attempts;
    for (auto& [trial, attempt] : impl_->attempts) {
      attempt->over = true;
      attempt->watch.reset();
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
    if (!removed) log::warn("tune", "a checkpoint cannot be removed", {{"checkpoint", checkpoint.location}, {"error", removed.error().message}});
  });
}

void TrialExecutor::clone(TrialId trial, int64_t attempt, const std::string& folder, const Checkpoint& checkpoint) {
  impl_->on_disk([impl = impl_, trial, attempt, folder, checkpoint] { impl->clone(trial, attempt, folder, checkpoint); });
}

void TrialExecutor::drain() {
  std::promise<void> head, disk;
  impl_->on_head([&head] { head.set_value(); });
  head.get_future().wait();
  impl_->on_disk([&disk] { disk.set_value(); });
  disk.get_future().wait();
}

}  // namespace volador::tune
