// Executes the actions of the trial loop: actors for attempts, their steps, and checkpoints to and from the driver's
// disk. Reports the outcomes as events of the loop.
//
//   start ──▶ spawn ──▶ (restore_pieces…) ──▶ setup ──▶ TrialStarted
//   step ──▶ TrialActor::step ──▶ ResultReported or TrialFinished
//   save ──▶ TrialActor::save ──▶ read_part… ──▶ written, compared, synced, renamed ──▶ CheckpointSaved or CheckpointFailed
//   save, stop, a failure by an exception ──▶ TrialActor::collect_artifacts ──▶ read_artifacts… ──▶ <trial>/artifacts, where it has some
//   stop ──▶ kill ──▶ TrialGone          with reuse_actors: ──▶ TrialGone, and TrialActor::reuse instead of the next spawn
//
// A call whose connection was lost is repeated until it is answered or the head reports the actor dead; the actor's
// methods are idempotent. Three loops: control (never blocks), head (spawn and kill, in order), disk.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "runtime/actor/session.h"
#include "runtime/clock.h"
#include "runtime/resources.h"
#include "runtime/strategy.h"
#include "tune/execution/trainable_registry.h"
#include "tune/loop/trial_loop.h"

namespace volador::tune {

// Location of an attempt, for tables and result.json; reported in addition to the events of the loop.
struct AttemptPlace {
  TrialId trial;
  int64_t attempt = 0;
  ActorId actor;
  std::string node;
  std::string hostname;
  int pid = 0;
};
// The actor of an attempt is pending; reported before its ActorWaiting.
struct AttemptActor {
  TrialId trial;
  ActorId actor;
};
// Histograms and images of a step; reported before its ResultReported.
struct MediaReported {
  TrialId trial;
  int64_t step = 0;
  std::vector<std::string> values;  // See tensorboard_events.h.
};
// A message to the user.
struct AttemptNotice {
  std::string text;
};
using ExecutorEvent = std::variant<Event, AttemptActor, AttemptPlace, MediaReported, AttemptNotice>;

struct TrialExecutorOptions {
  TrainableRef trainable;
  std::string experiment;
  std::filesystem::path directory;        // Directory of the experiment; contains the checkpoints.
  ResourceSet resources;                  // Resources of each trial.
  std::vector<ResourceSet> bundles = {};  // Placement group per trial, whose first bundle is the trial's; empty: no
                                          // group.
  Strategy strategy = Strategy::kPack;
  int64_t artifact_bytes_max = 0;
  bool wait_if_infeasible = false;
  bool reuse_actors = false;  // A stopped attempt's actor runs the next one, if its trainable supports it.
  std::chrono::nanoseconds step_timeout{0};     // A step that takes longer fails its attempt; 0: unlimited.
  std::chrono::milliseconds stop_grace{5'000};  // Time for cleanup().
  std::chrono::milliseconds start_timeout{60'000};
  std::chrono::milliseconds retry_pause{200};  // Delay between attempts to reach an actor or the head.
  const Clock* clock = nullptr;                // Thread safe.
};

// Arguments of an attempt.
struct AttemptStart {
  Config config;
  ResourceSet resources = {};  // Empty: those of all trials.
  std::optional<Checkpoint> restore = std::nullopt;
  std::string name = {};    // Display name,
  std::string folder = {};  // and folder in the experiment's directory; empty: the trial's id.
};

// Thread safe. The methods correspond to the loop's actions; unknown attempts are ignored.
class TrialExecutor {
 public:
  // `emit` runs on threads of the executor, one call at a time; not after the destructor has returned.
  TrialExecutor(std::shared_ptr<Session> session, TrialExecutorOptions options,
                std::function<void(ExecutorEvent)> emit);
  // Ends the remaining actors at once.
  ~TrialExecutor();
  TrialExecutor(const TrialExecutor&) = delete;
  TrialExecutor& operator=(const TrialExecutor&) = delete;

  // Checkpoint locations are relative to the experiment's directory: "3f2a90c1/checkpoint_000010".
  void start(TrialId trial, int64_t attempt, AttemptStart start);
  void step(TrialId trial, int64_t attempt, int64_t step);
  void save(TrialId trial, int64_t attempt, int64_t step);
  void stop(TrialId trial, int64_t attempt, bool at_once);
  void remove(const Checkpoint& checkpoint);
  // Copies a checkpoint of another trial to this one, with the given folder, with or without an actor: CheckpointCloned
  // or CloneFailed.
  void clone(TrialId trial, int64_t attempt, const std::string& folder, const Checkpoint& checkpoint);
  // Waits until all requested disk operations have completed.
  void drain();

 private:
  struct Loops;
  struct Impl;
  std::unique_ptr<Loops> loops_;
  std::shared_ptr<Impl> impl_;
};

}  // namespace volador::tune
