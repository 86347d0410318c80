// What the process of a trial of kind Trial collects of its output, and what it reports: passed as JSON from the head
// (StartTrialRunReply::collection) to `volador experiment run-trial`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "experiments/katib/experiment_spec.h"
#include "runtime/result.h"

namespace volador::experiments::katib {

// A trial stops early when `metric` compares so with `value`, from the report `start_step` on.
enum class Comparison : uint8_t { kEqual, kLess, kGreater };
struct StoppingRule {
  std::string metric;
  double value = 0;
  Comparison comparison = Comparison::kLess;
  int64_t start_step = 0;
};

struct Collection {
  std::string trial;  // Name of the resource.
  Objective objective;
  Collector collector;
  std::vector<StoppingRule> rules;
  bool reads_numbers = true;     // Numbers in JSON lines count; Katib reads only strings.
  std::string checkpoints = {};  // Folder of its checkpoints, as its program names it; empty: none.
  int64_t parent = 0;            // Trial (v1.TrialInfo) with whose checkpoints it begins; 0: none.
};

std::string to_json(const Collection& collection);
Result<Collection> collection_from(std::string_view json);

}  // namespace volador::experiments::katib
