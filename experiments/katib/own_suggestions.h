// Our algorithms for Experiments: random, grid, tpe, multivariate-tpe, bayesianoptimization, cmaes, sobol, hyperband and
// pbt, on the searchers of the tuner. Pure: nothing is kept between requests. Every reply follows from the request
// alone, so a restarted service continues exactly like one that never ended.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/katib/experiment_spec.h"
#include "experiments/katib/suggestion_service.h"

namespace volador::experiments::katib {

// Randomness comes from the setting random_state, otherwise from the name of the experiment. In a finite space no
// combination is suggested twice until all were. Trials that run count for the models, which keeps parallel ones apart.
class OwnSuggestions final : public SuggestionService {
 public:
  Result<api::v1::beta1::GetSuggestionsReply> suggest(const api::v1::beta1::GetSuggestionsRequest& request) override;
  Result<void> validate(const api::v1::beta1::Experiment& experiment) override;
};

// Rungs of hyperband: `trials` trials with `resource` each; the best go on to the next rung.
struct HyperbandRung {
  int64_t trials = 0, resource = 0;
  bool operator==(const HyperbandRung&) const = default;
};
// Brackets in the order in which they run, with the most trials first. Requires r_l >= 1 and eta > 1.
std::vector<std::vector<HyperbandRung>> hyperband_brackets(double r_l, double eta);

// Labels of assignments, by which the algorithms find the trials' places again.
inline constexpr const char* kHyperbandBracket = "hyperband.volador/bracket";
inline constexpr const char* kHyperbandRung = "hyperband.volador/rung";
inline constexpr const char* kPbtGeneration = "pbt.suggestion.katib.kubeflow.org/generation";
inline constexpr const char* kPbtParent = "pbt.suggestion.katib.kubeflow.org/parent";  // Name of a trial.

// The checkpoints of a trial of pbt: the folder that the setting suggestion_trial_dir names, which each trial has for
// itself, and which begins with the contents of the parent's.
struct CheckpointFolder {
  std::string path;
  std::string parent;  // Name of a trial; empty: it begins empty.
};
// No value: the algorithm is another one, or the setting is absent.
std::optional<CheckpointFolder> checkpoint_folder(const Algorithm& algorithm,
                                                  const google::protobuf::Map<std::string, std::string>& labels);

}  // namespace volador::experiments::katib
