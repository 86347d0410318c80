// Which resources a running trial should have: functions for tune::resource_changing(). Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>

#include "runtime/resources.h"
#include "tune/loop/metrics.h"
#include "tune/schedulers/scheduler.h"

namespace volador::tune {

// What is known when a trial reports.
struct AllocationQuery {
  struct Live {
    ResourceSet resources;
    double value;  // Of the metric, the last one reported; NaN: none, or no number.
  };
  Report report;  // Of the trial that is asked about.
  const std::map<TrialId, Live>&
      live;                  // All that have not ended, those that wait for a place included, the one that reports too.
  const ResourceSet& used;   // Theirs together; of a paused one nothing.
  const ResourceSet& base;   // Of each trial at its start: resources_per_trial.
  const ResourceSet& total;  // Of the cluster.
  Mode mode = Mode::kMax;

  const ResourceSet& current() const { return live.at(report.trial).resources; }
};

// What the trial that reports should have; none, or what it has: nothing changes. Deterministic. What it throws ends
// the experiment.
using ResourceAllocation = std::function<std::optional<Resources>(const AllocationQuery&)>;

struct DistributeOptions {
  Resources increase_by =
      {};  // What is added or taken at once; by default one GPU where trials have whole ones, else one CPU.
  int64_t increase_by_times = 0;     // At most so often, above the base; 0: no limit. Only with increase_by.
  Resources reserve_resources = {};  // Of the cluster: stays free.
};

// As users write it.
Resources as_asked(const ResourceSet& set);

// The same to each trial, as far as it can be divided; only what no trial that waits for a place needs. O(1).
// Throws volador::Exception(kInvalidArgument): an option is out of range; names it.
ResourceAllocation distribute_resources(const DistributeOptions& options = {});
// All that is free to the best trial by its last value, which keeps it when another one is best; once it is at its
// limit, to the next best. O(trials that have not ended).
ResourceAllocation distribute_resources_to_top_job(const DistributeOptions& options = {});

}  // namespace volador::tune
