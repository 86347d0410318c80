// Rows of experiments that drivers' loops own, kept for lists and pages. Not journaled: see head/shell/experiment_keeper.h.
// Pure: no clock, thread, I/O or randomness.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "head/kernel/options.h"
#include "runtime/ids.h"
#include "runtime/protocol/control.pb.h"
#include "runtime/result.h"

namespace volador::head {

struct Experiment {
  std::string name;
  std::string state;
  std::string metric;
  std::string mode;
  std::string directory;
  std::string scheduler;
  std::string space;  // As JSON; empty: not known.
  std::vector<protocol::SchedulerRung> rungs;
  int64_t trials_total = 0;
  int64_t trials_planned = 0;
  protocol::BestTrial best, best_so_far;  // Of no trial: there is none.
  std::optional<protocol::TimeLeft> left;
  int64_t left_out = 0;  // Rows beyond the limit.
  DriverId driver;
  std::string machine_id;  // Of the driver, on which the directory lies; empty: not known.
  std::map<std::string, protocol::TrialRow> trials;
  std::map<std::string, int64_t> by_status;
  uint64_t updated = 0;  // Order of the last update.
  uint64_t number = 0;   // That the driver gave it.

  bool is_open() const { return state == "running" || state == "paused"; }
};

class ExperimentTable {
 public:
  static constexpr int kRungsMax = 256;
  static constexpr int kRungMembersMax = 2048;  // Of all rungs.

  explicit ExperimentTable(const Limits& limits) : limits_(limits) {}

  // Texts beyond Limits::trial_bytes are cut, rows beyond Limits::trials counted only; rungs and their members beyond kRungsMax and
  // kRungMembersMax are left out. Beyond Limits::experiments the one that ended and was updated longest ago makes room. False: it came before (its number),
  // has no name, or there is no room since all of them run; nothing changed.
  bool update(DriverId driver, const protocol::ExperimentUpdate& update, const std::string& machine_id = {});
  // Of what was there before this table was: a part, which counts as updated before anything else. False: the name is another run's by now, or
  // there is no room but that of newer ones; nothing changed. `rank`: in the order of their last updates, below kRankMax.
  bool restore(DriverId driver, const std::string& machine_id, const protocol::ExperimentUpdate& part, uint64_t rank);
  static constexpr uint64_t kRankMax = uint64_t{1} << 32;
  // The driver is gone without a word of their end: what ran has crashed. Names of the experiments that have.
  std::vector<std::string> on_driver_gone(DriverId driver);

  const std::map<std::string, Experiment>& all() const { return experiments_; }
  // The trial that the actor runs, or ran last, as its experiment's program said. Null: none.
  const protocol::TrialRow* trial_of(ActorId actor, const Experiment** of) const;
  // By name; by the start of a name, of which "digits" for "digits_2026-11-25_01-23-55" is one: the newest of the runs
  // that start so, where all of them have one stem, or of those whose stem the text is. kNotFound: none, or several;
  // the message lists them.
  [[nodiscard]] Result<const Experiment*> resolve(std::string_view name) const;

  struct FoundTrial {
    const Experiment* experiment = nullptr;
    const protocol::TrialRow* row = nullptr;
  };
  enum class Match : uint8_t { kWhole, kStart };
  // Of all experiments: by whole id or whole name, or by the start of an id.
  std::vector<FoundTrial> find_trials(std::string_view text, Match match) const;
  // By whole id, whole name, or the start of an id. kNotFound: none, or several; the message lists them.
  [[nodiscard]] static Result<const protocol::TrialRow*> resolve_trial(const Experiment& experiment,
                                                                       std::string_view text);

  // One that has not ended, by its name or the start of it; of several that start so the one that has not. kNotFound:
  // there is none, or it has ended, or there are several; the message lists them.
  [[nodiscard]] Result<const Experiment*> resolve_open(std::string_view name) const;
  // The whole id of a trial that has not ended, by id, whole name or the start of its id. Errors as above.
  [[nodiscard]] static Result<std::string> resolve_open_trial(const Experiment& experiment, std::string_view id);

  void check_invariants() const;

 private:
  void index_actor(const Experiment& experiment, const protocol::TrialRow& row);
  void forget_actors(const Experiment& experiment);
  void forget_actor(const Experiment& experiment, const protocol::TrialRow& row);
  void keep_best(const protocol::BestTrial& told, protocol::BestTrial& kept) const;
  void keep_rungs(const protocol::ExperimentUpdate& update, std::vector<protocol::SchedulerRung>& kept) const;

  const Limits limits_;
  std::map<std::string, Experiment> experiments_;
  std::unordered_map<std::string, std::pair<std::string, std::string>> actors_;  // By raw id: experiment and trial.
  uint64_t updates_ = kRankMax;
};

}  // namespace volador::head
