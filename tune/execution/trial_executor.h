// Carries out what the experiment's loop decides: actors for attempts, their steps, checkpoints to the driver's disk and back. It tells
// what came of each as events of the loop.
//
//   start ──▶ spawn ──▶ (restore_chunk…) ──▶ setup ──▶ TrialStarted
//   step ──▶ TrialActor::step ──▶ ResultReported or TrialFinished
//   save ──▶ TrialActor::save ──▶ read_chunk… ──▶ written, compared, synced, renamed ──▶ CheckpointSaved or CheckpointFailed
//   save, stop, a failure by an exception ──▶ TrialActor::collect_artifacts ──▶ read_artifacts… ──▶ <trial>/artifacts, where it has some
//   stop ──▶ kill ──▶ TrialGone          with reuse_actors: ──▶ TrialGone, and TrialActor::reuse instead of the next spawn
//
// A call whose connection was lost is made again until it is answered or the head says that the actor is dead: the actor's methods do
// nothing twice. Three loops: control (never blocks), head (spawn and kill, in their order), disk.
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

// Beside the events of the loop: what tables and result.json say of an attempt.
struct AttemptPlace {
  TrialId trial;
  int64_t attempt = 0;
  ActorId actor;
  std::string node;
  std::string hostname;
  int pid = 0;
};
// The actor that was asked for waits for its place; comes before its ActorWaiting.
struct AttemptActor {
  TrialId trial;
  ActorId actor;
};
// Histograms and images of a step; comes before its ResultReported.
struct MediaReported {
  TrialId trial;
  int64_t step = 0;
  std::vector<std::string> values;  // Of tensorboard_events.h.
};
// To be said to the user.
struct AttemptNotice {
  std::string text;
};
using ExecutorEvent = std::variant<Event, AttemptActor, AttemptPlace, MediaReported, AttemptNotice>;

struct TrialExecutorOptions {
  TrainableRef trainable;
  std::string experiment;
  std::filesystem::path directory;  // Of the experiment: checkpoints go below it.
  ResourceSet resources;            // Of each trial.
  std::vector<ResourceSet> bundles = {};  // Of a placement group for each, the first of which is the trial's; none: no group.
  Strategy strategy = Strategy::kPack;
  int64_t artifact_bytes_max = 0;
  bool wait_if_infeasible = false;
  bool reuse_actors = false;        // A stopped attempt's actor serves the next one, where its trainable lets it.
  std::chrono::nanoseconds step_timeout{0};  // A step that takes longer fails its attempt; 0: none.
  std::chrono::milliseconds stop_grace{5'000};   // For cleanup().
  std::chrono::milliseconds start_timeout{60'000};
  std::chrono::milliseconds retry_pause{200};    // Between attempts to reach an actor or the head.
  const Clock* clock = nullptr;                  // Thread safe.
};

// What an attempt starts with.
struct AttemptStart {
  Config config;
  ResourceSet resources = {};  // Empty: those of all trials.
  std::optional<Checkpoint> restore = std::nullopt;
  std::string name = {};    // For people,
  std::string folder = {};  // and of its files below the experiment's directory; empty: the trial's id.
};

// Thread safe. The requests are those of the loop's actions; an unknown attempt is ignored.
class TrialExecutor {
 public:
  // `emit` runs on threads of this, one at a time; not after the destructor has returned.
  TrialExecutor(std::shared_ptr<Session> session, TrialExecutorOptions options, std::function<void(ExecutorEvent)> emit);
  // Ends the actors that are left, at once.
  ~TrialExecutor();
  TrialExecutor(const TrialExecutor&) = delete;
  TrialExecutor& operator=(const TrialExecutor&) = delete;

  // Locations are relative to the experiment's directory: "3f2a90c1/checkpoint_000010".
  void start(TrialId trial, int64_t attempt, AttemptStart start);
  void step(TrialId trial, int64_t attempt, int64_t step);
  void save(TrialId trial, int64_t attempt, int64_t step);
  void stop(TrialId trial, int64_t attempt, bool at_once);
  void remove(const Checkpoint& checkpoint);
  // A checkpoint of another trial for this one, whose folder is given, with or without an actor: CheckpointCloned or CloneFailed.
  void clone(TrialId trial, int64_t attempt, const std::string& folder, const Checkpoint& checkpoint);
  // Waits until the disk has done what was asked for.
  void drain();

 private:
  struct Loops;
  struct Impl;
  std::unique_ptr<Loops> loops_;
  std::shared_ptr<Impl> impl_;
};

}  // namespace volador::tune
