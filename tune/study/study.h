// Ask and tell: a searcher for a loop of your own, without trials, processes and results of tune::run.
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
  std::vector<Mode> modes = {};  // Of several objectives, instead of mode; with tune::tpe(), gp() or nsga2().
  int64_t constraints = 0;       // How many values must be at most 0 beside them.
  SearcherFactory searcher = {};                // By default tune::tpe().
  std::optional<uint64_t> seed = std::nullopt;  // Makes the proposals repeat; by default 0.
};

//   tune::Study study({.space = {{"x", tune::uniform(-5, 5)}}, .searcher = tune::tpe({.seed = 7})});
//   auto trial = study.ask();
//   study.tell(trial, loss(trial.config));
//
// One thread. Functions throw volador::Exception(kInvalidArgument) where the space, an option or a trial is wrong.
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

  // The next one to try; as many may be open as you like. Throws where the searcher waits for results of open ones
  // (concurrency_limiter), and where all configurations of it are used up.
  Trial ask();
  // One of your own, told like any other.
  Trial enqueue(const Config& config);
  // The trial's end. NaN, or no value: it failed. Throws where the trial is not open.
  void tell(const Trial& trial, std::optional<double> value);
  // Where the study has `modes`: a value for each, and one for each constraint. best() stays empty; front() has the trials.
  void tell(const Trial& trial, const std::vector<double>& values, const std::vector<double>& constraints = {});
  // The trials that keep all constraints and that none of those dominates, in the order told.
  struct Judged {
    Trial trial;
    std::vector<double> values;
  };
  const std::vector<Judged>& front() const { return front_; }
  // A trial of an earlier run. Searchers learn from it without computing a proposal.
  void add(const Config& config, std::optional<double> value) { tell(enqueue(config), value); }

  const std::optional<Best>& best() const { return best_; }
  int64_t size() const { return next_; }  // Trials asked for or added.

  // The whole state as JSON, and back into a study of the same options.
  std::string snapshot() const;
  void restore(std::string_view snapshot);

 private:
  Config found(const Trial& trial);  // Of an open one, which is closed.
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
