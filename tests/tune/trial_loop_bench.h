// A loop without actors: tests inject events and get the resulting actions as text.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tune/loop/trial_loop.h"
#include "tune/schedulers/fifo_scheduler.h"
#include "tune/searchers/variant_searcher.h"

namespace volador::tune {

// Actions as text: "start 0", "step 0", "save 0@5", "stop 0", "stop! 0", "delete 0@5", "end 0". RecordResult,
// TrialAdded and Notice are recorded separately.
class Bench {
 public:
  Bench(LoopOptions options, int64_t num_samples, const SchedulerFactory& scheduler = fifo(),
        const Space& space = {{"x", uniform(0, 1)}}) {
    loop_ = TrialLoop::create(options, random_search()({.space = space, .num_samples = num_samples}).value(),
                              scheduler({.metric = options.metric, .mode = options.mode}).value())
                .value();
  }

  std::vector<std::string> begin() { return words(loop_->begin(now_)); }
  std::vector<std::string> tell(const Event& event) {
    auto said = words(loop_->handle(now_, event, WallTime(now_ - BootTime{})));
    loop_->check_invariants();
    return said;
  }
  void advance(std::chrono::nanoseconds by) { now_ += by; }
  BootTime now() const { return now_; }

  TrialId id(int64_t index) const { return loop_->trials().at(static_cast<size_t>(index)).id; }
  const Trial& trial(int64_t index) const { return loop_->trials().at(static_cast<size_t>(index)); }
  int64_t attempt(int64_t index) const { return trial(index).attempt; }

  std::vector<std::string> started(int64_t i) { return tell(TrialStarted{id(i), attempt(i), "n1"}); }
  std::vector<std::string> result(int64_t i, int64_t step, double m, bool done = false) {
    return tell(ResultReported{id(i), attempt(i), step, {{"m", m}}, std::chrono::seconds(1), done});
  }
  std::vector<std::string> saved(int64_t i, int64_t step) {
    return tell(CheckpointSaved{id(i), attempt(i), step, std::to_string(i) + "@" + std::to_string(step)});
  }
  std::vector<std::string> cloned(int64_t i, int64_t step) {
    return tell(CheckpointCloned{id(i), attempt(i), step, std::to_string(i) + "@" + std::to_string(step)});
  }
  std::vector<std::string> failed(int64_t i, bool counts = true) {
    return tell(TrialFailed{id(i), attempt(i), "boom", counts});
  }
  std::vector<std::string> gone(int64_t i) { return tell(TrialGone{id(i), attempt(i)}); }

  TrialLoop& loop() { return *loop_; }
  std::vector<std::string> notices;
  std::vector<std::string> recorded;  // "0@3", "0@3 again"
  std::optional<EndExperiment> end;

 private:
  std::string index(TrialId trial) { return std::to_string(loop_->find(trial)->index); }
  std::vector<std::string> words(const Actions& actions) {
    std::vector<std::string> out;
    for (const Action& action : actions) {
      if (const auto* start = std::get_if<StartTrial>(&action)) {
        out.push_back("start " + index(start->trial) + (start->restore ? " from " + start->restore->location : ""));
      } else if (const auto* step = std::get_if<Step>(&action)) {
        out.push_back("step " + index(step->trial));
      } else if (const auto* save = std::get_if<SaveCheckpoint>(&action)) {
        out.push_back("save " + index(save->trial) + "@" + std::to_string(save->step));
      } else if (const auto* stop = std::get_if<StopTrial>(&action)) {
        out.push_back((stop->at_once ? "stop! " : "stop ") + index(stop->trial));
      } else if (const auto* clone = std::get_if<CloneCheckpoint>(&action)) {
        out.push_back("clone " + clone->checkpoint.location + " for " + index(clone->trial));
      } else if (const auto* cloned = std::get_if<TrialCloned>(&action)) {
        out.push_back("cloned " + index(cloned->trial) + "@" + std::to_string(cloned->had_step) + " from " +
                      index(cloned->from) + "@" + std::to_string(cloned->step));
      } else if (const auto* remove = std::get_if<DeleteCheckpoint>(&action)) {
        out.push_back("delete " + remove->checkpoint.location);
      } else if (const auto* ended = std::get_if<TrialEnded>(&action)) {
        out.push_back("ended " + index(ended->trial) + " " + std::string(to_string(loop_->find(ended->trial)->status)));
      } else if (const auto* record = std::get_if<RecordResult>(&action)) {
        recorded.push_back(index(record->trial) + "@" + std::to_string(record->step) +
                           (record->replayed ? " again" : ""));
      } else if (const auto* notice = std::get_if<Notice>(&action)) {
        notices.push_back(notice->text);
      } else if (const auto* experiment = std::get_if<EndExperiment>(&action)) {
        end = *experiment;
        out.push_back("end");
      }
    }
    return out;
  }

  BootTime now_{std::chrono::seconds(1000)};
  std::unique_ptr<TrialLoop> loop_;
};

}  // namespace volador::tune
