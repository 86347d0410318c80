// Rows of train_bench's table, and the functions that measure them.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace volador::train::bench {

using Clock = std::chrono::steady_clock;

inline constexpr int64_t kWarmup = 20;  // Steps before the measured ones.

struct Options {
  std::string peer = {};     // Python with torch; empty: only this side is measured.
  int ranks = 2;             // For ddp_step and ddp_start; at least 2.
  int rounds = 3;            // Each measures this side, then the peer; medians count. At least 1.
  int64_t steps = 200;       // Steps measured a round, a quarter of them for the largest model; at least 4.
  double seconds = 2;        // The least time of a measurement of the loader.
  bool bucket_view = false;  // The peer's DDP uses gradient_as_bucket_view.
};

struct Row {
  std::string name;
  std::string unit;
  std::vector<double> ours = {};   // One a round; the median counts.
  std::vector<double> peers = {};  // As many, or none.
  std::string beside = {};         // Description of the peer.
  double ratio_max = 0;            // Largest ours/peer; 0: no limit.
  double value_max = 0;            // Largest value of ours; 0: no limit.
  std::string note = {};           // Further figures.
  std::string wrong = {};          // Not empty: a result that must hold does not.
};

// Measures some rows. Exceptions mean that they could not be measured.
struct Bench {
  std::string name;  // "ddp_step/mlp"; --only takes all of it or the part before the slash.
  std::function<std::vector<Row>(const Options&)> measure;
};

// As in peer_ddp.py. 0 without values.
inline double quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[std::min(values.size() - 1, static_cast<size_t>(static_cast<double>(values.size()) * q))];
}
inline double median(std::vector<double> values) { return quantile(std::move(values), 0.5); }

inline double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

std::vector<Bench> step_benches();
std::vector<Bench> local_benches();
std::vector<Bench> recover_benches();
std::vector<Bench> checkpoint_benches();

// Starts `ranks` ranks in a new trainer. Returns the seconds until the first step is done and known to this program.
double first_step_seconds(int ranks);

}  // namespace volador::train::bench
