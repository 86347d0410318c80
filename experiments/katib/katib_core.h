// State machine of the resources of a cluster in Katib's form: requests and what happens to experiments and jobs in, rows
// and actions out. A resource of kind Experiment is run by an experiment of the cluster with a custom search, whose
// program this is; its trials are trials of that experiment. A training job is a job of the queue.
//
// Level-triggered: it compares what the rows say with what it hears of experiments, trials and jobs. Names are in rows
// before anything is done with them, so that every action may be repeated.
// Pure: no clock, thread or I/O. Ids come from the injected Random.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "experiments/core/experiment_core.h"
#include "experiments/katib/conditions.h"
#include "experiments/katib/experiment_spec.h"
#include "experiments/katib/resource_reader.h"
#include "runtime/protocol/katib.pb.h"
#include "runtime/protocol/katib/v1beta1/api.pb.h"
#include "runtime/protocol/volador/v1/experiments.pb.h"
#include "runtime/protocol/volador/v1/jobs.pb.h"
#include "runtime/protocol/volador/v1/katib.pb.h"
#include "runtime/random.h"
#include "runtime/result.h"

namespace volador::experiments::katib {

// Tables of the journal.
inline constexpr std::string_view kResourcesTable =
    "katib_resources";  // KatibResourceRecord; key: "kind/namespace/name".
// KatibTrialRecord; key: "namespace/experiment/trial".
inline constexpr std::string_view kKatibTrialsTable = "katib_trials";

struct KatibLimits {
  size_t resources = 100'000;  // Without trials.
  size_t deleted = 10'000;     // That watches still hear of.
};

struct ResourceKey {
  std::string kind, name_space, name;
  auto operator<=>(const ResourceKey&) const = default;
};
ResourceKey key_of(const Resource& resource);
ResourceKey key_of(const v1::KatibResource& resource);

// What is to be done. The rows become durable before the rest happens.
struct KatibActions {
  // Creates the experiment that runs a resource, unless one with this request_id exists; then on_created().
  struct Create {
    ResourceKey of;
    std::string uid;
    ExperimentRequester as;
    v1::CreateExperimentRequest request;
  };
  // Asks the algorithm for trials, and for their early stopping rules if the experiment has such an algorithm; then
  // on_suggestions().
  struct Ask {
    ResourceKey of;
    std::string uid;
    std::string algorithm;
    api::v1::beta1::GetSuggestionsRequest request;
  };
  // Creates trials unless the experiment has them; then on_run().
  struct Run {
    ResourceKey of;
    std::string uid;
    int64_t experiment = 0;
    std::vector<protocol::KatibTrialProgram> programs;
  };
  struct End {
    int64_t experiment = 0;
    bool failed = false;
  };
  // Submits a job unless there is one with this JobSpec::trial; then on_submitted().
  struct Submit {
    ResourceKey of;
    std::string uid;
    ExperimentRequester as;
    v1::JobSpec spec;
  };
  std::vector<ExperimentRow> rows;
  std::vector<Create> create;
  std::vector<Ask> ask;
  std::vector<Run> run;
  std::vector<End> end;
  std::vector<int64_t> kill_trials;
  std::vector<std::pair<int64_t, std::string>> change;  // Experiments that are to be killed or deleted.
  std::vector<Submit> submit;
  std::vector<ResourceKey> ended;  // Experiments that have ended: their services can end.
  std::vector<std::string> stop_jobs;
  std::vector<std::string> delete_jobs;  // They have ended, or end soon.
  bool changed = false;                  // Requests that wait for changes are tried again.
  std::vector<ExperimentEvent> events;
};

class KatibCore {
 public:
  KatibCore(const KatibLimits& limits, Random& random);
  ~KatibCore();

  // Loads a row; call before start(). Returns false if it cannot be read.
  bool load(std::string_view table, std::string_view key, std::string_view value);
  void start(int64_t now_ms);
  // Everything that ran before the start has been heard of by on_experiment() and on_job(): what was not heard of does
  // not exist any more. Nothing is done before.
  void on_heard(int64_t now_ms);

  // ---- requests ----
  struct Applying {
    std::string files_sha256;
    bool dry_run = false;
    bool create_only = false;
  };
  // All resources or none. kInvalidArgument: a change that is not allowed. kPermissionDenied: a resource of another
  // user. With create_only a resource that exists is an error.
  Result<std::vector<v1::AppliedKatibResource>> apply(const std::vector<Resource>& resources, const Applying& how,
                                                      const ExperimentRequester& by, int64_t now_ms);
  // Deletes it with its trials and jobs. kNotFound; kPermissionDenied.
  Result<v1::KatibResource> remove(const v1::DeleteKatibResourceRequest& request, const ExperimentRequester& by,
                                   int64_t now_ms);
  // kInvalidArgument: there is no such kind.
  Result<v1::ListKatibResourcesReply> list(const v1::ListKatibResourcesRequest& request) const;
  // What changed after the version, deleted ones too; all resources for version 0 and for one after which deletions are
  // not known any more. No value: nothing has changed.
  Result<std::optional<v1::ListKatibResourcesReply>> changes(const v1::WatchKatibResourcesRequest& request) const;
  // The trial with this name. kNotFound.
  Result<std::pair<int64_t, int64_t>> trial_of(const std::string& name) const;  // Experiment and trial.

  // ---- events ----
  void on_created(const ResourceKey& of, const std::string& uid, const Result<v1::ExperimentInfo>& made,
                  int64_t now_ms);
  void on_suggestions(const ResourceKey& of, const std::string& uid,
                      const Result<api::v1::beta1::GetSuggestionsReply>& reply, int64_t now_ms);
  void on_run(const ResourceKey& of, const std::string& uid, const Result<void>& ran, int64_t now_ms);
  void on_submitted(const ResourceKey& of, const std::string& uid, const Result<v1::Job>& job, int64_t now_ms);
  // An experiment with `katib` has changed, and these trials of it.
  void on_experiment(const v1::ExperimentInfo& experiment, const std::vector<v1::TrialInfo>& trials, int64_t now_ms);
  void on_experiment_gone(int64_t experiment, int64_t now_ms);
  // A job with a JobSpec::trial of job_text() has changed.
  void on_job(const v1::Job& job, int64_t now_ms);
  void on_tick(int64_t now_ms);
  std::optional<int64_t> deadline_ms() const;

  bool needs_files(const std::string& sha256) const;
  KatibActions take();
  // Aborts if the tables are inconsistent.
  void check_invariants() const;

  // JobSpec::trial of the job of a resource: "katib-<uid>".
  static std::string job_text(const std::string& uid);
  static bool is_job_text(std::string_view text);

 private:
  struct Trial {
    protocol::KatibTrialRecord record;
    int64_t version = 0;
    bool heard = false;  // Since the start.
  };
  struct Held {
    protocol::KatibResourceRecord record;
    Resource resource;
    int64_t suggestion_version = 0;
    std::map<std::string, Trial> trials;
    std::map<int64_t, std::string> order;  // Names by number.
    // Not in rows: what was asked for and is not answered.
    bool creating = false, asking = false, ending = false, submitting = false, running = false;
    bool waits = false;    // The algorithm gave fewer trials than asked: for the end of one.
    int64_t retry_ms = 0;  // When what was refused is tried again; 0: nothing was.
    std::string state;     // State of the experiment that runs it; empty: not heard of.
    bool heard = false;

    const ExperimentSpec& spec() const { return *resource.experiment; }
  };

  bool is_experiment(const Held& held) const { return held.resource.experiment.has_value(); }
  int64_t next_version(int64_t now_ms);
  void touch(Held& held, int64_t now_ms);
  void touch(Held& held, Trial& trial, int64_t now_ms);
  void put(const Held& held);
  void put(const Held& held, const Trial& trial);
  Held* find(const ResourceKey& key);
  Held* find(const ResourceKey& key, const std::string& uid);
  Result<void> may_change(const Held& held, const ExperimentRequester& by, std::string_view what) const;
  ExperimentRequester owner_of(const Held& held) const;

  Result<std::string> check_apply(const Resource& resource, const Applying& how, const ExperimentRequester& by) const;
  void create(const Resource& resource, const Applying& how, const ExperimentRequester& by, int64_t now_ms);
  void change(Held& held, const Resource& resource, int64_t now_ms);
  void erase(const ResourceKey& key, int64_t now_ms);
  void forget(v1::KatibResource gone, int64_t now_ms);
  void delete_jobs_of(const std::vector<v1::TrialInfo>& trials);

  // Compares and acts.
  void reconcile(Held& held, int64_t now_ms);
  void reconcile_experiment(Held& held, int64_t now_ms);
  void reconcile_job(Held& held, int64_t now_ms);
  void finish(Held& held, const ExperimentEnd& end, int64_t now_ms);
  void see(Held& held, const v1::TrialInfo& info, int64_t now_ms);
  void end_trial(Held& held, Trial& trial, TrialCondition condition, const v1::TrialInfo& info, int64_t now_ms);
  void create_experiment(Held& held);
  void ask(Held& held, const TrialCounts& counts, int64_t add);
  void run(Held& held, int64_t now_ms);
  void drop_extra(Held& held, int64_t extra, int64_t now_ms);
  Result<protocol::KatibTrialProgram> program_of(const Held& held, const Trial& trial) const;
  void retry_later(Held& held, int64_t now_ms);
  void see_job(Held& held, const v1::Job& job, int64_t now_ms);
  void event(const Held& held, std::string text, std::string why = {});

  // Objects.
  void collect(const v1::ListKatibResourcesRequest& request, int64_t after, std::vector<v1::KatibResource>& out) const;

  const KatibLimits limits_;
  Random& random_;
  bool heard_ = false;
  int64_t version_ = 1;  // That of an empty store; a watch begins with 0.
  std::map<ResourceKey, Held> resources_;
  std::map<int64_t, ResourceKey> of_experiment_;
  std::map<std::string, ResourceKey> of_job_;                            // By uid.
  std::map<std::string, std::pair<ResourceKey, std::string>> of_trial_;  // By name: the newest with it.
  std::deque<v1::KatibResource> deleted_;
  int64_t deleted_since_ = 0;  // All deletions after this version are in deleted_.
  KatibActions actions_;
};

// ---- katib_objects.cc: resources as objects of the Kubernetes API, JSON ----

using TrialsByNumber = std::map<int64_t, const protocol::KatibTrialRecord*>;

TrialCounts counts_of(const TrialsByNumber& trials);
std::string experiment_object(const protocol::KatibResourceRecord& record, const ExperimentSpec& spec,
                              const TrialsByNumber& trials);
std::string suggestion_object(const protocol::KatibResourceRecord& record, const ExperimentSpec& spec,
                              const TrialsByNumber& trials);
std::string trial_object(const protocol::KatibResourceRecord& record, const Resource& experiment,
                         const protocol::KatibTrialRecord& trial);
std::string job_object(const protocol::KatibResourceRecord& record);
// Labels of a trial in its metadata.
std::map<std::string, std::string> labels_of(const std::string& experiment, const protocol::KatibTrialRecord& trial);
// Null: none has an objective.
const protocol::KatibTrialRecord* best_trial(const ExperimentSpec& spec, const TrialsByNumber& trials);
// Trials for a suggestion service.
api::v1::beta1::Trial to_wire(const ExperimentSpec& spec, const protocol::KatibTrialRecord& trial);

}  // namespace volador::experiments::katib
