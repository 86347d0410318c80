// The executor's inside: what it knows of each attempt, and on which loop it does what. The definitions lie in
// trial_executor.cc (attempts and their calls, on the control loop), trial_executor_head.cc (what the head is asked)
// and trial_executor_disk.cc (checkpoints and artifacts).
#pragma once

#include <atomic>
#include <deque>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "runtime/files/durable_file.h"
#include "runtime/loop/event_loop.h"
#include "tune/execution/checkpoint_store.h"
#include "tune/execution/kept_parts.h"
#include "tune/execution/trial_actor.h"
#include "tune/execution/trial_executor.h"

namespace volador::tune {

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
  std::optional<ActorId> spawned;    // Of the head loop, as the next two.
  bool group_asked = false;
  std::optional<GroupId> group;  // Of its own.
  // Of the control loop:
  ActorId actor;
  int64_t collections = 0;       // Of artifacts.
  bool has_artifacts = false;
  bool collecting = false;
  bool started = false;
  std::vector<std::function<void(const std::shared_ptr<Attempt>&)>>
      until_spawned;                                       // What came of the opening before `actor` was known.
  std::optional<Result<std::string>> first_step;           // Of the opening, before the loop asked for it;
  std::function<void(Result<std::string>)> on_first_step;  // else who takes it.
  bool was_refused = false;                                // By an actor that it should have gone on with.
  bool placed = false;                                     // Its own actor lives, or it was given one.
  std::string node;
  std::string waiting;  // Told last.
  std::shared_ptr<void> watch;

  // The attempt is over. What waits for its actor refers to the attempt and to the executor: it goes, or all of them stay for ever.
  void drop_callbacks() {
    over = true;
    watch.reset();
    until_spawned.clear();
    on_first_step = nullptr;
  }
};
using AttemptPtr = std::shared_ptr<Attempt>;

// An actor whose trial has ended.
struct IdleActor {
  ActorId actor;
  std::string node;
};

// A checkpoint on its way to the disk, part by part; its writer and what is kept of a part belong to the disk loop.
struct IncomingCheckpoint {
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
struct OutgoingCheckpoint {
  AttemptPtr attempt;
  StoredCheckpoint stored;
  size_t next = 0;                 // Part that is not there yet.
  std::shared_ptr<KeptPart> kept;  // The part under way as stored objects; null: read from the file.
  bool by_store = true;            // Else inside messages.
  int tries = 0;                   // Of parts that were lost on the way.
};

// "3f2a90c1" of "3f2a90c1/checkpoint_000010".
inline std::string folder_in(const std::string& location) { return location.substr(0, location.find('/')); }

inline bool worth_a_retry(ErrorCode code) {
  return code == ErrorCode::kUnavailable || code == ErrorCode::kUnknownOutcome;
}

struct TrialExecutor::Loops {
  LoopSystem system{1};
  EventLoop disk{system, "tune-disk", EventLoop::Thread::kOwn};
  EventLoop head{system, "tune-head", EventLoop::Thread::kOwn};
  EventLoop control{system, "tune-control"};
};

struct TrialExecutor::Impl : std::enable_shared_from_this<TrialExecutor::Impl> {
  Impl(std::shared_ptr<Session> session_in, TrialExecutorOptions options_in, std::function<void(ExecutorEvent)> emit_in)
      : session(std::move(session_in)),
        options(std::move(options_in)),
        emit_to(std::move(emit_in)),
        store(options.directory) {}

  const std::shared_ptr<Session> session;
  const TrialExecutorOptions options;
  const std::function<void(ExecutorEvent)> emit_to;
  CheckpointStore store;  // Of the disk loop, as the next two.
  KeptParts kept{kKeptPartBytes};
  std::optional<bool> has_store;  // Whether this machine has an object store; unknown until it is needed.
  std::unordered_map<TrialId, AttemptPtr> attempts;  // Of the control loop, as the next two.
  std::deque<AttemptPtr> unplaced;  // With reuse_actors: asked for, oldest first; some may have ended or been placed.
  std::vector<IdleActor> idle;
  std::mutex gate;
  Loops* loops = nullptr;  // Null once the executor ends: what is posted then is dropped.
  void post(EventLoop Loops::*loop, std::function<void()> function, nanoseconds delay = nanoseconds(0));
  void on_control(std::function<void()> function) { post(&Loops::control, std::move(function)); }
  void on_head(std::function<void()> function) { post(&Loops::head, std::move(function)); }
  void on_disk(std::function<void()> function) { post(&Loops::disk, std::move(function)); }
  void after_on_control(nanoseconds delay, std::function<void()> function) {
    post(&Loops::control, std::move(function), delay);
  }
  void after_on_head(nanoseconds delay, std::function<void()> function) {
    post(&Loops::head, std::move(function), delay);
  }

  // ---- On the control loop.
  template <class T>
  void emit(T event) {
    if constexpr (std::is_same_v<T, AttemptActor> || std::is_same_v<T, AttemptPlace> ||
                  std::is_same_v<T, MediaReported> || std::is_same_v<T, AttemptNotice>) {
      emit_to(std::move(event));
    } else {
      emit_to(Event(std::move(event)));
    }
  }
  bool live(const AttemptPtr& attempt) const;
  AttemptPtr find(TrialId trial, int64_t number) const;
  void begin(AttemptPtr attempt);
  void on_spawned(const AttemptPtr& attempt, const ActorId& actor, std::shared_ptr<void> watch);
  void restore_and_set_up(const AttemptPtr& attempt);

  // ---- Reuse.
  // The actor of an ended attempt goes to the oldest one that has none; where that one needs one of its own, it makes
  // room.
  void offer(IdleActor actor);
  void release(const IdleActor& actor);
  void adopt(const AttemptPtr& attempt, const IdleActor& actor);
  // The actor does not serve another trial: it goes, and the attempt gets one of its own.
  void abandon(const AttemptPtr& attempt);
  std::shared_ptr<void> watch(const AttemptPtr& attempt, const ActorId& actor);
  TrialSpec spec_of(const AttemptPtr& attempt) const;
  const ResourceSet& resources_of_attempt(const AttemptPtr& attempt) const;

  // ---- What an attempt does.
  void on_status(const AttemptPtr& attempt, const ActorStatus& status);
  void set_up(const AttemptPtr& attempt, std::vector<DirectoryPart> parts);
  void on_ready(const AttemptPtr& attempt, const TrialReady& ready);
  // Setup and first step travel with the order to start: the host goes on with them while the head still tells us where
  // it is. A step that has a time limit waits for the loop, which counts from then.
  std::vector<std::shared_ptr<OutgoingCall>> opening_of(const AttemptPtr& attempt);
  // `then` on the control loop, once the actor is known, while it is the attempt's.
  template <auto M, class F>
  std::shared_ptr<OutgoingCall> opening_call(const AttemptPtr& attempt, std::string arguments, F then) {
    return Session::make_call(function_id<M>(), std::move(arguments),
                              [weak = weak_from_this(), attempt, then = std::move(then)](Result<std::string> reply) {
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
  void lose_checkpoint(const AttemptPtr& attempt, const std::string& why);
  // A step whose time ran out while no head was in reach, which parks actors, is asked for again for as long as that
  // took.
  void step(const AttemptPtr& attempt, int64_t number, nanoseconds timeout);
  void await_first_step(const AttemptPtr& attempt);
  void on_step(const AttemptPtr& attempt, StepReply reply);
  void on_step_refused(const AttemptPtr& attempt, const Error& error);
  void save(const AttemptPtr& attempt, int64_t number);
  // The next pieces of the part that is due.
  void fetch(const std::shared_ptr<IncomingCheckpoint>& incoming, int64_t offset, bool by_store);

  // ---- Artifacts.
  // Brings what is new in the attempt's artifacts folder to the disk, then `then`. What goes wrong is said, and changes
  // nothing.
  void collect(const AttemptPtr& attempt, std::function<void()> then);
  void say_artifacts(const AttemptPtr& attempt, const std::string& why);
  std::filesystem::path artifacts_of(const Attempt& attempt) const {
    return options.directory / attempt.folder / "artifacts";
  }
  void fetch_artifacts(const std::shared_ptr<IncomingArtifacts>& incoming, int64_t offset);

  // ---- The end of an attempt.
  void stop(const AttemptPtr& attempt, bool at_once);
  void stop_now(const AttemptPtr& attempt, bool at_once);
  // Its CPUs are waited for: not behind what is asked for other attempts.
  void kill_started(const AttemptPtr& attempt, milliseconds grace);
  void end(const AttemptPtr& attempt);
  void fail(const AttemptPtr& attempt, Reason error, bool counts, bool dead);
  // `then` gets the decoded reply while the attempt lives.
  // refused: as of invoke().
  template <auto M, class F>
  void call(const AttemptPtr& attempt, nanoseconds timeout, std::string arguments, F then,
            std::function<void(const Error&)> refused = {}) {
    using Reply = std::decay_t<typename volador::registration::Signature<decltype(M)>::Return>;
    invoke(
        attempt, function_id<M>(), std::move(arguments), timeout,
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
  void invoke(const AttemptPtr& attempt, uint64_t method, std::string arguments, nanoseconds timeout,
              std::function<void(const std::string&)> then, std::function<void(const Error&)> refused = {});
  void on_refused(const AttemptPtr& attempt, const Error& error);

  // ---- On the head loop.
  // A group of its own first, where it has bundles. It waits for its place with its actor in it.
  void ask_for_group(const AttemptPtr& attempt);
  // Once its actor is gone, or `grace` has passed. Repeated: no effect.
  void release_group(const AttemptPtr& attempt, milliseconds grace);
  void spawn(const AttemptPtr& attempt);
  void on_spawn_refused(const AttemptPtr& attempt, const Error& error);
  void kill(const ActorId& actor, milliseconds grace);

  // ---- On the disk loop.
  void fail_incoming(const std::shared_ptr<IncomingCheckpoint>& incoming, const Error& error);
  void open_incoming(const std::shared_ptr<IncomingCheckpoint>& incoming);
  // Those that lie in the storage already do not travel.
  void next_part(const std::shared_ptr<IncomingCheckpoint>& incoming);
  void ask_for_pieces(const std::shared_ptr<IncomingCheckpoint>& incoming, nanoseconds delay = nanoseconds(0));
  // In their order, each as soon as it is here; those behind it are on their way meanwhile.
  void append_when_there(const std::shared_ptr<IncomingCheckpoint>& incoming, const std::vector<AnyRef>& pieces,
                         size_t index);
  // Whether the next piece may follow.
  bool append(const std::shared_ptr<IncomingCheckpoint>& incoming, const AnyRef& piece);
  // From where it was cut off; in the end without the object stores.
  void fetch_again(const std::shared_ptr<IncomingCheckpoint>& incoming, const Error& error);
  void after_pieces(const std::shared_ptr<IncomingCheckpoint>& incoming);
  bool takes_objects();
  void commit(const std::shared_ptr<IncomingCheckpoint>& incoming);
  void tell_saved(const IncomingCheckpoint& incoming);
  // A failure is said; then it goes on as if there had been none.
  void fail_artifacts(const std::shared_ptr<IncomingArtifacts>& incoming, const Error& error);
  static void drop_artifacts(IncomingArtifacts& incoming);
  void open_artifacts(const std::shared_ptr<IncomingArtifacts>& incoming);
  void append_artifacts(const std::shared_ptr<IncomingArtifacts>& incoming, int64_t offset, const Bytes& bytes);
  void finish_artifacts(const std::shared_ptr<IncomingArtifacts>& incoming);
  void clone(TrialId trial, int64_t attempt, const std::string& folder, const Checkpoint& checkpoint);
  void open_restore(const AttemptPtr& attempt);
  void fail_restore(const AttemptPtr& attempt, const Error& error);
  void send_part(const std::shared_ptr<OutgoingCheckpoint>& outgoing);
  // From `offset` on, as many as travel at once.
  void send_pieces(const std::shared_ptr<OutgoingCheckpoint>& outgoing, int64_t offset);
  void after_sending(const std::shared_ptr<OutgoingCheckpoint>& outgoing, const PiecesTaken& taken);
  Result<std::vector<AnyRef>> pieces_from(OutgoingCheckpoint& outgoing, int64_t offset);
};

}  // namespace volador::tune
