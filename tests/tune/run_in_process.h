// Whole runs within the test's process: the real runner, its files and its journal; actors are objects with threads.
#pragma once

#include <chrono>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "temporary_directory.h"
#include "tests/runtime/in_process_session.h"
#include "tune/execution/runner.h"
#include "tune/tune.h"

namespace volador::tune {

class RunInProcess : public ::testing::Test {
 protected:
  ~RunInProcess() override { end_session(session_); }

  void start_cluster(double cpus) {
    end_session(session_);
    session_ = std::make_shared<InProcessSession>(*ResourceSet::from({.cpus = cpus}));
  }

  Result<Analysis> run(const TrainableRef& trainable, RunOptions options) {
    if (!session_) start_cluster(4);
    options.storage_path = directory_.path();
    if (!options.seed) options.seed = 1;
    RunnerEnvironment environment{.session = session_,
                                  .clock = clock_,
                                  .random = random_,
                                  .display = {},
                                  .retry_pause = std::chrono::milliseconds(1)};
    environment.display.terminal = [] { return TerminalState(); };
    environment.display.write = [this](std::string_view bytes) { shown_ += bytes; };
    return run_experiment(environment, trainable, std::move(options));
  }
  static std::vector<nlohmann::json> lines_of(const std::filesystem::path& file) {
    std::istringstream in(read_text(file));
    std::vector<nlohmann::json> lines;
    for (std::string line; std::getline(in, line);) lines.push_back(nlohmann::json::parse(line));
    return lines;
  }

  TemporaryDirectory directory_;
  SystemClock clock_;
  SeededRandom random_{3};
  std::string shown_;
  std::shared_ptr<InProcessSession> session_;
};

}  // namespace volador::tune
