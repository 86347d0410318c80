// Experiment rows reported by drivers, kept for lists and pages. Not journaled: see head/shell/experiment_keeper.h.
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

// An experiment with its trials, as last reported by its driver.
struct Experiment {
  std::string name;
  std::string state;
  std::string metric;
  std::string mode;
  std::string directory;
  std::string scheduler;
  std::string space;  // As JSON; empty: unknown.
  std::vector<protocol::SchedulerRung> rungs;
  int64_t trials_total = 0;
  int64_t trials_planned = 0;
  protocol::BestTrial best, best_so_far;  // Without trial id: none.
  std::optional<protocol::TimeLeft> left;
  bool has_left_out = false;  // Whether it has had trials beyond the limit, of which it has no rows.
  DriverId driver;
  std::string machine_id;  // The driver's machine, which has the directory; empty: unknown.
  std::map<std::string, protocol::TrialRow> trials;
  std::map<std::string, int64_t> by_status;
  uint64_t updated = 0;  // Sequence of the last update.
  uint64_t number = 0;   // Number assigned by the driver.

  bool is_open() const { return state == "running" || state == "paused"; }
};

// Experiments by name, with an index of actors to trials.
class ExperimentTable {
 public:
  static constexpr int kRungsMax = 256;
  static constexpr int kRungMembersMax = 2048;  // Over all rungs.

  explicit ExperimentTable(const Limits& limits) : limits_(limits) {}

  // Truncates texts beyond Limits::trial_bytes, only counts rows beyond Limits::trials, and drops rungs and members
  // beyond kRungsMax and kRungMembersMax. Beyond Limits::experiments the ended experiment with the oldest update is
  // removed. Returns false, without effect, if the update is a repeat (by its number), has no name, or there is no room
  // because all experiments run.
  bool update(DriverId driver, const protocol::ExperimentUpdate& update, const std::string& machine_id = {});
  // Restores a part of an older experiment; it counts as updated before everything else. Returns false, without effect,
  // if another run has the name or only newer experiments could make room. `rank`: order of the last updates, below
  // kRankMax.
  bool restore(DriverId driver, const std::string& machine_id, const protocol::ExperimentUpdate& part, uint64_t rank);
  static constexpr uint64_t kRankMax = uint64_t{1} << 32;
  // The driver is gone without reporting the end of its experiments: running ones become crashed. Returns their names.
  std::vector<std::string> on_driver_gone(DriverId driver);

  const std::map<std::string, Experiment>& all() const { return experiments_; }
  // The trial that the actor runs or ran last, as reported by the experiment's program. Null: none.
  const protocol::TrialRow* trial_of(ActorId actor, const Experiment** of) const;
  // Resolves a name or a prefix. If several runs match, returns the newest if all have one stem, or if the text is the
  // stem ("digits" of "digits_2026-11-25_01-23-55"). kNotFound: no match, or several; the message lists them.
  [[nodiscard]] Result<const Experiment*> resolve(std::string_view name) const;

  struct FoundTrial {
    const Experiment* experiment = nullptr;
    const protocol::TrialRow* row = nullptr;
  };
  enum class Match : uint8_t { kWhole, kStart };
  // Searches all experiments by whole id or whole name, or by prefix of an id.
  std::vector<FoundTrial> find_trials(std::string_view text, Match match) const;
  // Resolves a whole id, a whole name or a prefix of an id. kNotFound: no match, or several; the message lists them.
  [[nodiscard]] static Result<const protocol::TrialRow*> resolve_trial(const Experiment& experiment,
                                                                       std::string_view text);

  // Resolves the name or prefix of a running experiment; ended matches are ignored if one match runs. kNotFound: no
  // match, it has ended, or several run; the message lists them.
  [[nodiscard]] Result<const Experiment*> resolve_open(std::string_view name) const;
  // Returns the full id of a running trial, given its id, whole name or a prefix of its id. Errors as above.
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
