// What a trial runs: a class with steps, or a function that reports.
//
//   class TrainDigits : public tune::Trainable {
//     void setup(const tune::Config& config) override;
//     tune::Metrics step() override;                                          // return {{"accuracy", accuracy}};
//     void save_checkpoint(const std::filesystem::path& directory) override;
//     void load_checkpoint(const std::filesystem::path& directory) override;
//   };
//   VOLADOR_TRAINABLE(TrainDigits);
//
//   void train(const tune::Config& config) {
//     Model model = tune::get_checkpoint() ? Model::load(tune::get_checkpoint()->path()) : Model(config.real("lr"));
//     while (true) {
//       double loss = model.epoch();
//       tune::report({{"loss", loss}}, [&](const auto& directory) { model.save(directory); });
//     }
//   }
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "runtime/ids.h"
#include "runtime/resources.h"
#include "tune/loop/metrics.h"
#include "tune/space/config.h"

namespace volador {
class PlacementGroup;
}

namespace volador::tune {

// One object is one attempt of one trial, in a process of its own (of several in turn with reuse_actors); all calls come on one thread. What a method throws fails the attempt:
// the trial is tried again from its last checkpoint as often as max_failures says.
class Trainable {
 public:
  virtual ~Trainable();

  // Once, first.
  virtual void setup(const Config& config);
  // One training iteration: as long as a decision about the trial may wait. A metric "done" other than 0 ends the trial.
  virtual Metrics step() = 0;
  // Everything that load_checkpoint needs, into this empty directory: regular files and directories. Called between two steps. A class
  // without these two starts anew after a failure.
  virtual void save_checkpoint(const std::filesystem::path& directory);
  // After setup, before the first step.
  virtual void load_checkpoint(const std::filesystem::path& directory);
  // Once, last; not where the process is ended at once.
  virtual void cleanup();
  // With reuse_actors, after a trial has ended: makes this object that of another trial, as setup would. False: a new one is made.
  virtual bool reset_config(const Config& config);
};

// A checkpoint that this attempt goes on from.
class TrialCheckpoint {
 public:
  TrialCheckpoint(std::filesystem::path path, int64_t step) : path_(std::move(path)), step_(step) {}
  const std::filesystem::path& path() const { return path_; }  // What save_checkpoint wrote, for this attempt alone.
  int64_t step() const { return step_; }                        // The training iteration after which it was saved.

 private:
  std::filesystem::path path_;
  int64_t step_;
};

// What a trial may want to know of itself.
struct TrialContext {
  std::string trial_id;
  std::string trial_name;  // By .trial_name; else its id.
  std::string experiment;
  int64_t attempt = 1;
  std::optional<TrialCheckpoint> checkpoint;
  GroupId group = {};                    // Nil: none.
  std::filesystem::path artifacts = {};  // See artifacts_directory().
  Resources resources = {};  // What this attempt was started with; tune::resource_changing() changes it between two attempts.
};

// Inside a trial's function or class, on the thread that runs it; elsewhere these throw volador::Exception(kUnavailable).
const TrialContext& get_context();
// The checkpoint to go on from; none in a first start.
const std::optional<TrialCheckpoint>& get_checkpoint();

// A folder of this attempt for files that its user wants to keep: tables, plots, models. What was written or changed there comes to
// <run>/<trial>/artifacts on the driver's disk after each checkpoint, when the trial ends, and when it fails by an exception; a file of the
// same name is replaced. It begins empty. Links and sockets are refused, and so is more than .artifact_bytes_max; both are said.
const std::filesystem::path& artifacts_directory();

// With .bundles_per_trial: the group of this trial, which runs in its bundle 0. Its own actors and tasks go into the others:
// volador::actor<Worker>().in(tune::placement_group(), 1). The group ends with the attempt. Elsewhere volador::Exception(kNotFound).
volador::PlacementGroup placement_group();

// Writes all that get_checkpoint()->path() should hold into an empty directory.
using SaveFunction = std::function<void(const std::filesystem::path& directory)>;

// Reports one training iteration from a trial's function; returns when the next one is wanted, and does not return when the trial is over:
// it throws something that is no std::exception, so that destructors run; let it pass. `save` is called before it returns, if a
// checkpoint is due.
void report(Metrics metrics, SaveFunction save = {});

}  // namespace volador::tune
