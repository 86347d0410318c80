// A cluster under virtual time whose queue mixes requests for CPUs, for GPUs, for whole nodes and of placement groups: how well the
// scheduler uses the nodes, and how long each class waits.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace volador::bench {

struct MixedQueue {
  double utilisation = 0;  // Least possible end of all work / its end under the scheduler: 1 is optimal.
  double hours = 0;        // Until the last request has ended.
  double cpus_used = 0;    // Share of CPU hours in use until the last arrival.
  double gpus_used = 0;
  struct Class {
    size_t requests = 0;
    double mean_s = 0;  // Waiting.
    double p99_s = 0;
  };
  std::map<std::string, Class> classes;
};

// The same requests for the same seed. `held_gpus`: GPUs that actors hold from the start until after the last arrival, one node after another.
MixedQueue run_mixed_queue(uint64_t seed, int held_gpus);

}  // namespace volador::bench
