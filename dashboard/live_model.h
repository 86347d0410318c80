// Read copy of the cluster state that serves the API: updated from the head's changes without querying the head.
// Pure: no clock (wall time comes with the events), thread or I/O. One thread.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "dashboard/actor_metrics.h"
#include "dashboard/live_curves.h"
#include "dashboard/live_table.h"
#include "dashboard/row_text.h"
#include "dashboard/time_series.h"
#include "runtime/protocol/volador/v1/cluster.pb.h"
#include "runtime/result.h"

namespace volador::dashboard {

enum class Topic : uint8_t {
  kCluster,
  kNodes,
  kActors,
  kDrivers,
  kQueue,
  kExperiments,
  kTrials,
  kEvents,
  kLogs,
  kGroups,
  kObjectStores,
  kObjectGroups,
  kObjects
};
inline constexpr size_t kTopics = 13;
inline constexpr std::array<std::string_view, kTopics> kTopicNames{
    "cluster", "nodes", "actors", "drivers",       "queue",         "experiments", "trials",
    "events",  "logs",  "groups", "object_stores", "object_groups", "objects"};
// Topics that only the nodes can provide; polled while clients subscribe to them.
inline constexpr std::array<Topic, 3> kObjectTopics{Topic::kObjectStores, Topic::kObjectGroups, Topic::kObjects};

// Limits of the read copy.
struct ModelLimits {
  size_t events = 10'000;       // Beyond it the oldest are dropped.
  size_t log_lines = 5'000;     // Lines queued for slow readers.
  size_t curve_points = 1'000;  // Per trial and metric; beyond it the older half is thinned.
  // About 32 MB. Beyond it the experiment with the oldest growth loses its curves, then lines are thinned.
  size_t curve_points_all = 2'000'000;
  size_t curve_metrics = 64;      // Per experiment; further metrics have no curves.
  size_t trial_actors = 200'000;  // Actors whose trial is tracked.
  size_t live_seconds = 600;      // Length of a series for live readers.
};

// A part of a run that predates this process; the first part has its row.
struct PastRun {
  std::string name;
  v1::Changes rows;  // Trials and points, and the experiment.
  int64_t started_ms = 0, updated_ms = 0;
};

class LiveModel {
 public:
  // `instance` changes with every start of the head; wall times are Unix milliseconds.
  LiveModel(std::string instance, int64_t started_ms, std::string address, const ModelLimits& limits = {});

  void apply(const v1::Changes& changes, int64_t now_ms);
  // Adds an older run. If the run was reported since, its tags stay, and so do curves that reach further.
  void restore(const PastRun& past);
  // Sets this process's machine, whose files can be downloaded. Call before the first apply().
  void set_machine(std::string machine_id) { machine_id_ = std::move(machine_id); }
  // Sets the times of an experiment read from disk, overriding the times of its reports.
  void set_times(const std::string& experiment, int64_t started_ms, int64_t updated_ms);
  // Adds lines of actors, for clients that follow logs; `actor` in hex.
  void add_log_lines(const std::string& actor, const std::vector<v1::LogLine>& lines);

  // Replaces the content of the stores.
  void set_objects(const v1::ListObjectsReply& objects);
  // Drops the content of the stores when the last subscriber leaves; unknown until the next set_objects().
  void forget_objects();
  bool objects_known() const { return objects_known_; }

  const LiveTable& table(Topic topic) const { return tables_[static_cast<size_t>(topic)]; }
  // Learning curves of an experiment's metric (empty: the optimised one); null: none.
  const LiveCurves* curves(std::string_view experiment, std::string_view metric) const;
  const LiveCurves& series() const { return series_live_; }
  const SeriesStore& series_store() const { return series_; }
  const ActorMetrics& actor_metrics() const { return actor_metrics_; }
  bool has_experiment(const std::string& name) const { return experiments_.contains(name); }
  // The location of a run's files. kNotFound: no such experiment, or it has no files.
  struct RunPlace {
    std::string directory;
    bool here = false;  // On this machine.
  };
  [[nodiscard]] Result<RunPlace> place_of(const std::string& experiment) const;
  // Its metrics with curves, by name.
  std::vector<std::string> metrics_of(const std::string& experiment) const;
  // Key of the series of an actor's measures: those of a trial share one key, whichever actor runs it.
  std::string series_of_actor(const std::string& actor) const;
  const v1::StatusReply& totals() const { return totals_; }

  uint64_t seq() const { return seq_; }
  const std::string& instance() const { return instance_; }
  const std::string& version() const { return totals_.version(); }

 private:
  struct ToldTimes {
    int64_t started_ms = 0, updated_ms = 0;
  };
  struct ExperimentState {
    void take(const ToldTimes& told) {
      started_ms = told.started_ms;
      updated_ms = told.updated_ms;
    }

    v1::Experiment row;
    int64_t started_ms = 0;
    int64_t updated_ms = 0;
    int64_t left_ms = 0;                                    // Time of the estimate of the remaining time.
    std::map<std::string, LiveCurves, std::less<>> curves;  // By metric.
    uint64_t grown = 0;
  };

  LiveTable& of(Topic topic) { return tables_[static_cast<size_t>(topic)]; }
  void replace(Topic topic, const std::map<std::string, std::string>& rows);
  bool upsert(Topic topic, const std::string& id, std::string_view group, std::string text);
  void apply_node(const v1::Node& node, int64_t now_ms);
  bool apply_trial(const v1::Trial& trial);  // Returns whether the row changed.
  void apply_usage(const v1::ActorUsage& usage, int64_t now_ms);
  std::string_view files_of(const v1::Experiment& row) const;
  void apply_points(const v1::TrialPoints& points);
  void apply_event(const v1::Event& event);
  void show_experiment(const std::string& name);
  void show_cluster();
  void make_room_for_points(const ExperimentState& growing);

  const std::string instance_;
  const int64_t started_ms_;
  const std::string address_;
  const ModelLimits limits_;
  std::string machine_id_;
  std::map<std::string, std::string> trial_of_actor_;  // Values: keys of trials.
  uint64_t seq_ = 0;
  std::array<LiveTable, kTopics> tables_;
  std::map<std::string, std::string> node_states_;
  std::map<std::string, ExperimentState, std::less<>> experiments_;
  std::map<std::string, ToldTimes> told_times_;  // Set by set_times(), for runs on disk.
  size_t points_ = 0;
  size_t line_points_max_ = 0;
  LiveCurves series_live_;
  SeriesStore series_;
  ActorMetrics actor_metrics_;  // Actors that are not dead.
  v1::StatusReply totals_;
  uint64_t events_ = 0, log_lines_ = 0;
  bool objects_known_ = false;
};

}  // namespace volador::dashboard
