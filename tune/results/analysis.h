// Results of an experiment: the best trial, its configuration and checkpoint, all reports.
//
//   auto analysis = tune::run<TrainDigits>({…});
//   fmt::print("{} {}\n", analysis.best_trial().last_result.at("accuracy"), analysis.best_config().to_json());
//   model.load(analysis.best_checkpoint().path());
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/result.h"
#include "tune/loop/best_trial.h"
#include "tune/loop/metrics.h"
#include "tune/loop/trial.h"
#include "tune/results/experiment_state.h"
#include "tune/space/config.h"

namespace volador::tune {

// A directory with everything that save_checkpoint wrote.
class SavedCheckpoint {
 public:
  SavedCheckpoint(std::filesystem::path stored, int64_t step) : stored_(std::move(stored)), step_(step) {}

  // Unpacked beside the stored archive at the first call, and kept there. Throws volador::Exception: corrupt
  // checkpoint, or disk error.
  std::filesystem::path path() const;
  int64_t step() const { return step_; }                           // The training iteration after which it was saved.
  const std::filesystem::path& stored() const { return stored_; }  // ".../checkpoint_000010".

 private:
  std::filesystem::path stored_;
  int64_t step_;
};

class Analysis {
 public:
  struct By {
    std::string metric = {};                  // Empty: the experiment's.
    std::optional<Mode> mode = std::nullopt;  // No value: the experiment's.
    Scope scope = Scope::kLast;
  };
  struct Row {
    TrialId trial;
    Metrics result;
  };
  struct TrialError {
    TrialId trial;
    std::string message;
  };

  Analysis(ExperimentState state, std::filesystem::path directory);
  // Loads the experiment of an earlier run from its directory. Throws volador::Exception.
  static Analysis load(const std::filesystem::path& directory);

  // These throw volador::Exception(kInvalidArgument): no metric was given, or it was never reported (the message names
  // the reported ones); kNotFound: it was always NaN, or no trial has a checkpoint. tune/loop/best_trial.h defines the
  // best trial.
  const Trial& best_trial() const { return best_trial({}); }
  const Trial& best_trial(const By& by) const;
  const Config& best_config() const { return best_trial().config; }
  const Config& best_config(const By& by) const { return best_trial(by).config; }
  // Checkpoint of the best trial that has one: the best by checkpoint.score if that was set, otherwise the last.
  SavedCheckpoint best_checkpoint() const { return best_checkpoint({}); }
  SavedCheckpoint best_checkpoint(const By& by) const;
  // Best first.
  std::vector<const Trial*> ranking(const By& by) const;
  // Returns the best trial with its value and step; no value where best_trial() throws.
  std::optional<BestTrial> find_best(const By& by) const;

  // Pareto front of a run with several objectives: the feasible trials that no other feasible trial dominates, by their
  // last values, sorted by the first objective, best first. Empty if no trial satisfies the constraints.
  // kInvalidArgument: the run had no .objectives.
  std::vector<const Trial*> pareto_front() const;

  const std::vector<Trial>& trials() const { return state_.trials; }  // By index.
  const std::vector<TrialError>& errors() const { return errors_; }   // Errors of trials that failed permanently.
  // Returns all reports of all trials from their result.json, by trial, then step. Throws if a file cannot be read.
  std::vector<Row> results() const;
  // Writes one line per report: trial_id, config/<path>…, then every reported key. Throws if a file cannot be read or
  // written.
  void to_csv(const std::filesystem::path& path) const;
  std::string as_csv() const;
  // Returns the run and its trials with configurations, summaries and all results as JSON. Throws as above.
  std::string as_json() const;

  const std::filesystem::path& directory() const { return directory_; }
  const ExperimentState& state() const { return state_; }
  bool interrupted() const { return state_.state == "interrupted"; }
  std::vector<std::string> notices() const { return {state_.notices.begin(), state_.notices.end()}; }

 private:
  Result<std::vector<BestTrial>> ranked(const By& by) const;

  ExperimentState state_;
  std::filesystem::path directory_;
  std::vector<TrialError> errors_;
};

}  // namespace volador::tune
