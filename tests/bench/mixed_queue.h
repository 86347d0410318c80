// Simulates a cluster in virtual time whose queue mixes requests for CPUs, GPUs, whole nodes and placement groups, to
// measure node utilisation and the waiting times of each class.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace volador::bench {

struct MixedQueue {
  double utilisation = 0;  // Minimum possible end of all work divided by the end with the scheduler: 1 is optimal.
  double hours = 0;        // Until the last request has ended.
  double cpus_used = 0;    // Fraction of CPU hours used until the last arrival.
  double gpus_used = 0;
  struct Class {
    size_t requests = 0;
    double mean_s = 0;  // Waiting time.
    double p99_s = 0;
  };
  std::map<std::string, Class> classes;
};

// Deterministic for a seed. `held_gpus`: GPUs held by actors from the start until after the last arrival, on
// consecutive nodes.
MixedQueue run_mixed_queue(uint64_t seed, int held_gpus);

}  // namespace volador::bench
