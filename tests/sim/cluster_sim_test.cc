// The cluster under faults from seeds. VOLADOR_SIM_SEEDS: number of seeds; VOLADOR_SIM_SEED: only this one;
// VOLADOR_SIM_TRACE: prints it.
#include "tests/sim/cluster_sim.h"
#include "tests/how_many.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>

namespace volador::sim {
namespace {

using namespace std::chrono_literals;

uint64_t number_from(const char* variable, uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

std::vector<uint64_t> seeds() {
  if (std::getenv("VOLADOR_SIM_SEED") != nullptr) return {number_from("VOLADOR_SIM_SEED", 1)};
  const uint64_t count = number_from("VOLADOR_SIM_SEEDS", how_many(uint64_t{200}, uint64_t{20}));
  std::vector<uint64_t> all;
  for (uint64_t seed = 1; seed <= count; ++seed) all.push_back(seed);
  return all;
}

struct Outcome {
  uint64_t history = 0;
  uint64_t hosts_ended = 0;
  uint64_t commits = 0;
  std::string failure;
};

Outcome run_once(uint64_t seed, const Faults& faults, Time busy, Sometimes& sometimes) {
  Outcome result;
  ClusterSim sim(seed, faults, sometimes);
  if (std::getenv("VOLADOR_SIM_TRACE") != nullptr) sim.trace();
  try {
    sim.run(busy);
  } catch (const std::exception& error) {
    result.failure = error.what();
  }
  result.history = sim.history();
  result.hosts_ended = sim.hosts_ended();
  result.commits = sim.commits();
  return result;
}

TEST(ClusterSimTest, AtMostOneIncarnationCommitsAndNothingAcknowledgedIsLostUnderAnyFault) {
  Sometimes sometimes;
  uint64_t commits = 0;
  uint64_t histories = 0;  // A refactoring without a change of behaviour keeps this number for the same seeds.
  const std::vector<uint64_t> all = seeds();
  for (const uint64_t seed : all) {
    const Outcome first = run_once(seed, {}, 40s, sometimes);
    ASSERT_EQ(first.failure, "") << "replay with VOLADOR_SIM_SEED=" << seed;
    Sometimes ignored;
    const Outcome second = run_once(seed, {}, 40s, ignored);
    ASSERT_EQ(first.history, second.history) << "seed " << seed << " does not replay";
    commits += first.commits;
    histories = histories * 31 + first.history;
  }
  std::cout << all.size() << " seeds from " << all.front() << ", " << commits << " commits, histories " << std::hex
            << histories << std::dec << "\n";
  for (const auto& [what, count] : sometimes.counts) std::cout << "  " << count << " × " << what << "\n";
  if (all.size() < 100) return;  // Too few for the rare ones.
  for (const char* what : {"a connection was cut",
                           "a connection stalled",
                           "a node froze",
                           "a worker froze, its hosts did not",
                           "a worker crashed",
                           "a machine crashed",
                           "the head crashed",
                           "the head froze",
                           "a driver died",
                           "a host crashed",
                           "a message was repeated",
                           "a slow commit",
                           "the store was away",
                           "the head crashed while its store was away",
                           "a heartbeat was acknowledged while the store was away",
                           "a request was refused while the store was away",
                           "a batch was lost with the head",
                           "a batch was durable whose messages never left",
                           "a node was given up",
                           "a stale host was refused at its return",
                           "a stale epoch was refused",
                           "a parked host did not commit",
                           "a later epoch took over",
                           "a worker gave up a silent connection",
                           "a spawn was refused",
                           "an actor spawned another",
                           "a placement group was ready at once",
                           "a placement group waited",
                           "a placement group was refused",
                           "a handle was passed to an actor",
                           "a driver dropped a handle",
                           "an actor ended with its last handle",
                           "an actor ran in a placement group",
                           "a lost bundle was held again",
                           "a shared host crashed with several actors"}) {
    EXPECT_GT(sometimes.counts[what], 0u) << "over all seeds this never happened: " << what;
  }
}

TEST(ClusterSimTest, KillingTheHeadAloneEndsNoHost) {
  Sometimes sometimes;
  Faults faults{.cuts = false,
                .stalls = false,
                .repeats = true,
                .node_freezes = false,
                .worker_freezes = false,
                .worker_crashes = false,
                .machine_crashes = false,
                .head_crashes = true,
                .head_freezes = true,
                .driver_deaths = false,
                .host_crashes = false,
                .start_failures = false,
                .store_outages = true};
  faults.between = 4000ms;
  const std::vector<uint64_t> all = seeds();
  for (size_t at = 0; at < all.size(); at += 4) {
    ClusterSim sim(all[at], faults, sometimes);
    sim.without_kills();
    if (std::getenv("VOLADOR_SIM_TRACE") != nullptr) sim.trace();
    try {
      sim.run(40s);
    } catch (const std::exception& error) {
      FAIL() << error.what() << ": replay with VOLADOR_SIM_SEED=" << all[at];
    }
    ASSERT_EQ(sim.hosts_ended_before_leaving(), 0u) << "seed " << all[at];
  }
  EXPECT_GT(sometimes.counts["the head crashed"], 0u);
  if (all.size() < 100) return;  // Too few for the rare ones.
  EXPECT_GT(sometimes.counts["the head crashed while its store was away"], 0u);
}

}  // namespace
}  // namespace volador::sim
