// User code of a trial: a class with steps, or a function that reports.
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

// An object is one attempt of one trial, in its own process (several in turn with reuse_actors); all calls are made on
// one thread. An exception fails the attempt: the trial is retried from its last checkpoint up to max_failures times.
class Trainable {
 public:
  virtual ~Trainable();

  // Called first, once.
  virtual void setup(const Config& config);
  // Runs one training iteration; decisions about the trial wait until it returns. A metric "done" other than 0 ends the
  // trial.
  virtual Metrics step() = 0;
  // Writes everything that load_checkpoint needs into this empty directory: regular files and directories. Called
  // between two steps. A class without these two methods starts from the beginning after a failure.
  virtual void save_checkpoint(const std::filesystem::path& directory);
  // Called after setup, before the first step.
  virtual void load_checkpoint(const std::filesystem::path& directory);
  // Called last, once; not if the process is killed.
  virtual void cleanup();
  // With reuse_actors, called after a trial has ended: reinitialises this object for another trial, as setup would.
  // False: a new object is made.
  virtual bool reset_config(const Config& config);
};

// The checkpoint that an attempt continues from.
class TrialCheckpoint {
 public:
  TrialCheckpoint(std::filesystem::path path, int64_t step) : path_(std::move(path)), step_(step) {}
  const std::filesystem::path& path() const {
    return path_;
  }                                       // The files that save_checkpoint wrote, a copy for this
                                          // attempt.
  int64_t step() const { return step_; }  // The training iteration after which it was saved.

 private:
  std::filesystem::path path_;
  int64_t step_;
};

// Properties of the current trial and attempt.
struct TrialContext {
  std::string trial_id;
  std::string trial_name;  // From .trial_name; by default the id.
  std::string experiment;
  int64_t attempt = 1;
  std::optional<TrialCheckpoint> checkpoint;
  GroupId group = {};                    // Nil: none.
  std::filesystem::path artifacts = {};  // See artifacts_directory().
  Resources resources = {};  // Resources of this attempt; tune::resource_changing() may change them between two
                             // attempts.
};

// To be called in a trial's function or class, on its thread; otherwise these throw volador::Exception(kUnavailable).
const TrialContext& get_context();
// The checkpoint to continue from; no value in a first start.
const std::optional<TrialCheckpoint>& get_checkpoint();

// The folder of this attempt for result files: tables, plots, models. New and changed files are copied to
// <run>/<trial>/artifacts on the driver's disk after each checkpoint, when the trial ends, and when it fails with an
// exception; files of the same name are replaced. The folder is initially empty. Links and sockets, and more than
// .artifact_bytes_max, are rejected with a notice.
const std::filesystem::path& artifacts_directory();

// With .bundles_per_trial: the placement group of this trial, which runs in its bundle 0. Its own actors and tasks use
// the others: volador::actor<Worker>().in(tune::placement_group(), 1). The group ends with the attempt. Without a
// group: volador::Exception(kNotFound).
volador::PlacementGroup placement_group();

// Writes everything that get_checkpoint()->path() should contain into an empty directory.
using SaveFunction = std::function<void(const std::filesystem::path& directory)>;

// Reports one training iteration from a trial's function; returns when the next one is to run. When the trial has ended
// it does not return but throws an object that is not a std::exception, so that destructors run; do not catch it. Calls
// `save` before it returns if a checkpoint is due.
void report(Metrics metrics, SaveFunction save = {});

}  // namespace volador::tune
