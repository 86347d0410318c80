// Allocation functions for tune::resource_changing(): the resources that a running trial should have. Pure.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>

#include "runtime/resources.h"
#include "tune/loop/metrics.h"
#include "tune/schedulers/scheduler.h"

namespace volador::tune {

// State at the time of a trial's report.
struct AllocationQuery {
  struct Live {
    ResourceSet resources;
    double value;  // Last reported value of the metric; NaN: none, or not a number.
  };
  Report report;  // The report of the trial to allocate for.
  const std::map<TrialId, Live>&
      live;                  // All trials that have not ended, including those waiting for a slot and the reporting
                             // one.
  const ResourceSet& used;   // Sum of the trials' resources; a paused trial uses none.
  const ResourceSet& base;   // Resources of each trial at its start: resources_per_trial.
  const ResourceSet& total;  // Total resources of the cluster.
  Mode mode = Mode::kMax;

  const ResourceSet& current() const { return live.at(report.trial).resources; }
};

// Returns the resources that the reporting trial should have; no value, or its current resources: no change. Must be
// deterministic. An exception ends the experiment.
using ResourceAllocation = std::function<std::optional<Resources>(const AllocationQuery&)>;

struct DistributeOptions {
  Resources increase_by = {};        // Increment; by default one GPU if trials have whole GPUs, else one CPU.
  int64_t increase_by_times = 0;     // Maximum number of increments above the base; 0: unlimited. Only with
                                     // increase_by.
  Resources reserve_resources = {};  // Resources of the cluster that stay free.
};

// Converts to the form used in options.
Resources as_asked(const ResourceSet& set);

// Distributes resources evenly among the trials, in whole increments, without what trials that wait for a slot need.
// O(1). Throws volador::Exception(kInvalidArgument): an option is out of range; names it.
ResourceAllocation distribute_resources(const DistributeOptions& options = {});
// Gives all free resources to the best trial by last value, which keeps them when another trial becomes the best; once
// it is at its limit, the next best gets them. O(trials that have not ended).
ResourceAllocation distribute_resources_to_top_job(const DistributeOptions& options = {});

}  // namespace volador::tune
