// Implementation of the executor: the state of each attempt and the loop that each function runs on. The definitions
// are in trial_executor.cc (attempts and their calls, on the control loop), trial_executor_head.cc (requests to the
// head) and trial_executor_disk.cc (checkpoints and artifacts).
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
  ResourceSet resources;  // Its own resources; empty: those of all trials.
  std::optional<Checkpoint> restore;
  std::string name, folder;
  std::atomic<bool> over{false};     // Ended; further results are ignored.
  std::atomic<bool> adopted{false};  // Runs on the actor of an ended attempt.
  std::atomic<bool> opens{false};    // Setup and first step are sent with the spawn request.
  std::optional<ActorId> spawned;    // Used on the head loop, as the next two.
  bool group_asked = false;
  std::optional<GroupId> group;  // Its own placement group.
  // Used on the control loop:
  ActorId actor;
  int64_t collections = 0;  // Number of artifact collections.
  bool has_artifacts = false;
  bool collecting = false;
  bool started = false;
  std::vector<std::function<void(const std::shared_ptr<Attempt>&)>>
      until_spawned;                                       // Results of the opening calls that arrived before `actor`
                                                           // was known.
  std::optional<Result<std::string>> first_step;           // Result of the opening step, if it arrived before the loop
                                                           // requested it;
  std::function<void(Result<std::string>)> on_first_step;  // otherwise the handler that receives it.
  bool was_refused = false;                                // Rejected by the actor that it should have reused.
  bool placed = false;                                     // Its own actor runs, or it was given one.
  std::string node;
  std::string waiting;  // Last reason reported.
  std::shared_ptr<void> watch;

  // Ends the attempt. Callbacks that wait for its actor refer to the attempt and to the executor; they are dropped
  // here, since they would form a reference cycle.
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

// A checkpoint being received, part by part; the writer and the kept pieces are used on the disk loop.
struct IncomingCheckpoint {
  AttemptPtr attempt;
  int64_t step = 0;
  SaveReply reply;
  std::optional<CheckpointWriter> writer;
  size_t next = 0;               // Next part to receive.
  std::vector<AnyRef> received;  // Pieces of the current part as stored objects,
  bool keeps = true;             // as long as all came so and the part is small enough to keep.
  bool by_store = true;          // Transfer mode of the next pieces.
  int tries = 0;                 // Attempts to read lost pieces.
};

// Artifacts being received; the file is used on the disk loop.
struct IncomingArtifacts {
  AttemptPtr attempt;
  ArtifactReply reply;
  std::filesystem::path archive;
  FileHandle file;
  std::function<void()> then;  // Runs on the control loop after success or failure, unless the attempt has ended.
};

// A checkpoint being sent to an actor, part by part; used on the disk loop.
struct OutgoingCheckpoint {
  AttemptPtr attempt;
  StoredCheckpoint stored;
  size_t next = 0;                 // Next part to send.
  std::shared_ptr<KeptPart> kept;  // The current part as stored objects; null: read from the file.
  bool by_store = true;            // false: inside messages.
  int tries = 0;                   // Attempts to send lost parts.
};

// Returns "3f2a90c1" for "3f2a90c1/checkpoint_000010".
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
  CheckpointStore store;  // Used on the disk loop, as the next two.
  KeptParts kept{kKeptPartBytes};
  std::optional<bool> has_store;  // Whether this machine has an object store; unknown until first needed.
  std::unordered_map<TrialId, AttemptPtr> attempts;  // Used on the control loop, as the next two.
  std::deque<AttemptPtr> unplaced;  // With reuse_actors: attempts without an actor, oldest first; some may have ended
                                    // or been placed.
  std::vector<IdleActor> idle;
  std::mutex gate;
  Loops* loops = nullptr;  // Null once the executor is shutting down; functions posted then are dropped.
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
  // Gives the actor of an ended attempt to the oldest attempt without one; if that attempt needs its own actor, the
  // idle one is killed to free its resources.
  void offer(IdleActor actor);
  void release(const IdleActor& actor);
  void adopt(const AttemptPtr& attempt, const IdleActor& actor);
  // The actor cannot run another trial: it is killed, and the attempt spawns its own.
  void abandon(const AttemptPtr& attempt);
  std::shared_ptr<void> watch(const AttemptPtr& attempt, const ActorId& actor);
  TrialSpec spec_of(const AttemptPtr& attempt) const;
  const ResourceSet& resources_of_attempt(const AttemptPtr& attempt) const;

  // ---- Steps of an attempt.
  void on_status(const AttemptPtr& attempt, const ActorStatus& status);
  void set_up(const AttemptPtr& attempt, std::vector<DirectoryPart> parts);
  void on_ready(const AttemptPtr& attempt, const TrialReady& ready);
  // Returns the calls sent with the spawn request, setup and first step, so that the host runs them before the head has
  // reported its location. A step with a time limit is sent later by the loop, which measures from then.
  std::vector<std::shared_ptr<OutgoingCall>> opening_of(const AttemptPtr& attempt);
  // Calls `then` on the control loop once the actor is known, as long as it belongs to the attempt.
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
  // A step that timed out while no head was reachable, which suspends actors, is repeated with that time added.
  void step(const AttemptPtr& attempt, int64_t number, nanoseconds timeout);
  void await_first_step(const AttemptPtr& attempt);
  void on_step(const AttemptPtr& attempt, StepReply reply);
  void on_step_refused(const AttemptPtr& attempt, const Error& error);
  void save(const AttemptPtr& attempt, int64_t number);
  // Requests the next pieces of the current part.
  void fetch(const std::shared_ptr<IncomingCheckpoint>& incoming, int64_t offset, bool by_store);

  // ---- Artifacts.
  // Copies new artifacts of the attempt to the disk, then calls `then`. Errors are reported to the user and otherwise
  // ignored.
  void collect(const AttemptPtr& attempt, std::function<void()> then);
  void say_artifacts(const AttemptPtr& attempt, const std::string& why);
  std::filesystem::path artifacts_of(const Attempt& attempt) const {
    return options.directory / attempt.folder / "artifacts";
  }
  void fetch_artifacts(const std::shared_ptr<IncomingArtifacts>& incoming, int64_t offset);

  // ---- The end of an attempt.
  void stop(const AttemptPtr& attempt, bool at_once);
  void stop_now(const AttemptPtr& attempt, bool at_once);
  // Kills the actor ahead of pending requests for other attempts, since its CPUs are needed.
  void kill_started(const AttemptPtr& attempt, milliseconds grace);
  void end(const AttemptPtr& attempt);
  void fail(const AttemptPtr& attempt, Reason error, bool counts, bool dead);
  // Calls `then` with the decoded reply while the attempt is live.
  // refused: as in invoke().
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
  // refused: called instead of failing the attempt.
  void invoke(const AttemptPtr& attempt, uint64_t method, std::string arguments, nanoseconds timeout,
              std::function<void(const std::string&)> then, std::function<void(const Error&)> refused = {});
  void on_refused(const AttemptPtr& attempt, const Error& error);

  // ---- On the head loop.
  // Creates the attempt's placement group first, if it has bundles. The group is pending together with the actor in it.
  void ask_for_group(const AttemptPtr& attempt);
  // Removes the group once its actor has exited or `grace` has passed. Idempotent.
  void release_group(const AttemptPtr& attempt, milliseconds grace);
  void spawn(const AttemptPtr& attempt);
  void on_spawn_refused(const AttemptPtr& attempt, const Error& error);
  void kill(const ActorId& actor, milliseconds grace);

  // ---- On the disk loop.
  void fail_incoming(const std::shared_ptr<IncomingCheckpoint>& incoming, const Error& error);
  void open_incoming(const std::shared_ptr<IncomingCheckpoint>& incoming);
  // Skips parts that are already in the storage.
  void next_part(const std::shared_ptr<IncomingCheckpoint>& incoming);
  void ask_for_pieces(const std::shared_ptr<IncomingCheckpoint>& incoming, nanoseconds delay = nanoseconds(0));
  // Appends pieces in order, each as soon as it has arrived, while later ones are being transferred.
  void append_when_there(const std::shared_ptr<IncomingCheckpoint>& incoming, const std::vector<AnyRef>& pieces,
                         size_t index);
  // Returns whether the next piece may follow.
  bool append(const std::shared_ptr<IncomingCheckpoint>& incoming, const AnyRef& piece);
  // Resumes at the point of interruption; the last retries do not use object stores.
  void fetch_again(const std::shared_ptr<IncomingCheckpoint>& incoming, const Error& error);
  void after_pieces(const std::shared_ptr<IncomingCheckpoint>& incoming);
  bool takes_objects();
  void commit(const std::shared_ptr<IncomingCheckpoint>& incoming);
  void tell_saved(const IncomingCheckpoint& incoming);
  // Reports the failure to the user, then continues as if it had succeeded.
  void fail_artifacts(const std::shared_ptr<IncomingArtifacts>& incoming, const Error& error);
  static void drop_artifacts(IncomingArtifacts& incoming);
  void open_artifacts(const std::shared_ptr<IncomingArtifacts>& incoming);
  void append_artifacts(const std::shared_ptr<IncomingArtifacts>& incoming, int64_t offset, const Bytes& bytes);
  void finish_artifacts(const std::shared_ptr<IncomingArtifacts>& incoming);
  void clone(TrialId trial, int64_t attempt, const std::string& folder, const Checkpoint& checkpoint);
  void open_restore(const AttemptPtr& attempt);
  void fail_restore(const AttemptPtr& attempt, const Error& error);
  void send_part(const std::shared_ptr<OutgoingCheckpoint>& outgoing);
  // Sends pieces from `offset`, as many as are transferred at once.
  void send_pieces(const std::shared_ptr<OutgoingCheckpoint>& outgoing, int64_t offset);
  void after_sending(const std::shared_ptr<OutgoingCheckpoint>& outgoing, const PiecesTaken& taken);
  Result<std::vector<AnyRef>> pieces_from(OutgoingCheckpoint& outgoing, int64_t offset);
};

}  // namespace volador::tune
