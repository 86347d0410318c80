// Ask-and-tell interface: a searcher for your own loop, without the trials, processes and results of tune::run.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tune/searchers/searcher.h"

namespace volador::tune {

struct StudyOptions {
  Space space = {};
  Mode mode = Mode::kMin;
  std::vector<Mode> modes = {};   // Modes of several objectives, instead of `mode`; with tune::tpe(), gp() or nsga2().
  int64_t constraints = 0;        // Number of constraint values, which must be at most 0.
  SearcherFactory searcher = {};  // By default tune::tpe().
  std::optional<uint64_t> seed = std::nullopt;  // Makes the proposals reproducible; by default 0.
};

//   tune::Study study({.space = {{"x", tune::uniform(-5, 5)}}, .searcher = tune::tpe({.seed = 7})});
//   auto trial = study.ask();
//   study.tell(trial, loss(trial.config));
//
// Single-threaded. Functions throw volador::Exception(kInvalidArgument) if the space, an option or a trial is invalid.
class Study {
 public:
  struct Trial {
    int64_t index = 0;
    Config config;
  };
  struct Best {
    Trial trial;
    double value = 0;
  };

  explicit Study(StudyOptions options);
  ~Study();
  Study(Study&&) noexcept;
  Study& operator=(Study&&) noexcept;

  // Returns the next trial to run; any number may be open. Throws if the searcher waits for results of open trials
  // (concurrency_limiter), or if its configurations are exhausted.
  Trial ask();
  // Opens a trial with your own configuration; tell() works as for any other.
  Trial enqueue(const Config& config);
  // Closes the trial. NaN, or no value: it failed. Throws if the trial is not open.
  void tell(const Trial& trial, std::optional<double> value);
  // For a study with `modes`: one value per objective, and one per constraint. best() stays empty; front() has the
  // trials.
  void tell(const Trial& trial, const std::vector<double>& values, const std::vector<double>& constraints = {});
  // The Pareto front: the feasible trials that no other feasible trial dominates, in the order told.
  struct Judged {
    Trial trial;
    std::vector<double> values;
  };
  const std::vector<Judged>& front() const { return front_; }
  // Adds a trial of an earlier run. Searchers learn from it without computing a proposal.
  void add(const Config& config, std::optional<double> value) { tell(enqueue(config), value); }

  const std::optional<Best>& best() const { return best_; }
  int64_t size() const { return next_; }  // Number of trials asked for or added.

  // Serialises the whole state as JSON, and restores it into a study with the same options.
  std::string snapshot() const;
  void restore(std::string_view snapshot);

 private:
  Config found(const Trial& trial);  // Removes an open trial and returns its configuration.
  void judge(Judged judged, double violation);

  Mode mode_;
  std::unique_ptr<Searcher> searcher_;
  std::map<int64_t, Config> open_;
  int64_t next_ = 0;
  std::optional<Best> best_;
  Goals goals_;
  std::vector<Judged> front_;
};

}  // namespace volador::tune
