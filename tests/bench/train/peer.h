// Runs the Python side of the benchmark.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "tests/bench/train/rows.h"

namespace volador::train::bench {

// Runs a command with one thread a process and VOLADOR_BENCH_START_NS; returns the last line of its output that is a
// JSON object. Throws std::runtime_error with the end of its error output: it failed, or did not end within 10 minutes.
nlohmann::json run_program(const std::vector<std::string>& command);

// Runs peer_ddp.py, up to five times if it fails: under torchrun with `ranks` processes; ranks = 0: alone.
nlohmann::json run_peer(const Options& options, int ranks, const std::vector<std::string>& flags);

}  // namespace volador::train::bench
