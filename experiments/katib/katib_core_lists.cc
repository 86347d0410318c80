// Lists of resources, and what changed after a version.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "experiments/katib/katib_core.h"

namespace volador::experiments::katib {
namespace {

constexpr int32_t kListedDefault = 1000;

Result<void> check_kind(const v1::ListKatibResourcesRequest& request) {
  if (request.kind().empty() || kind_of(request.kind())) return {};
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("kind: there is no kind \"{}\"; there are experiment, suggestion, trial, job, "
                                "pytorchjob, tfjob, mpijob and trainjob",
                                request.kind()));
}

}  // namespace

void KatibCore::collect(const v1::ListKatibResourcesRequest& request, int64_t after,
                        std::vector<v1::KatibResource>& out) const {
  const std::string kind = request.kind().empty() ? "" : kind_of(request.kind()).value_or("");
  const auto is_wanted = [&](const std::string& of, const std::string& name_space, const std::string& name,
                             int64_t version) {
    return (kind.empty() || kind == of) && (request.namespace_().empty() || request.namespace_() == name_space) &&
           (request.name().empty() || request.name() == name) && version > after;
  };
  const auto has_labels = [&](const std::map<std::string, std::string>& labels) {
    for (const auto& [name, value] : request.labels()) {
      const auto found = labels.find(name);
      if (found == labels.end() || found->second != value) return false;
    }
    return true;
  };
  for (const auto& [key, held] : resources_) {
    const v1::KatibResource& shown = held.record.resource();
    const bool of_experiment = is_experiment(held);
    TrialsByNumber trials;
    const auto all_trials = [&]() -> const TrialsByNumber& {
      if (trials.empty()) {
        for (const auto& [number, name] : held.order) trials[number] = &held.trials.at(name).record;
      }
      return trials;
    };
    if (is_wanted(key.kind, key.name_space, key.name, shown.version()) && has_labels(held.resource.metadata.labels)) {
      v1::KatibResource& one = out.emplace_back(shown);
      one.set_object(of_experiment ? experiment_object(held.record, held.spec(), all_trials())
                                   : job_object(held.record));
    }
    if (!of_experiment) continue;
    if (is_wanted("Suggestion", key.name_space, key.name, held.suggestion_version) &&
        has_labels({{"katib.kubeflow.org/experiment", key.name}})) {
      v1::KatibResource& one = out.emplace_back();
      one.set_kind("Suggestion");
      one.set_namespace_(key.name_space);
      one.set_name(key.name);
      one.set_object(suggestion_object(held.record, held.spec(), all_trials()));
      one.set_version(held.suggestion_version);
      one.set_experiment(shown.experiment());
    }
    if (!kind.empty() && kind != "Trial") continue;
    for (const auto& [number, name] : held.order) {
      const Trial& trial = held.trials.at(name);
      if (!is_wanted("Trial", key.name_space, name, trial.version) ||
          (request.labels_size() > 0 && !has_labels(labels_of(key.name, trial.record))))
        continue;
      v1::KatibResource& one = out.emplace_back();
      one.set_kind("Trial");
      one.set_namespace_(key.name_space);
      one.set_name(name);
      one.set_object(trial_object(held.record, held.resource, trial.record));
      one.set_version(trial.version);
      const int at = trial.record.incarnation() - 1;
      if (at >= 0 && at < held.record.experiments_size()) one.set_experiment(held.record.experiments(at));
      one.set_trial(trial.record.trial());
      one.set_job(trial.record.job());
    }
  }
}

Result<v1::ListKatibResourcesReply> KatibCore::list(const v1::ListKatibResourcesRequest& request) const {
  VOLADOR_TRY(check_kind(request));
  std::vector<v1::KatibResource> found;
  collect(request, 0, found);
  std::ranges::stable_sort(found, [](const auto& a, const auto& b) { return key_of(a) < key_of(b); });
  v1::ListKatibResourcesReply reply;
  reply.set_version(version_);
  reply.set_total(static_cast<int64_t>(found.size()));
  const auto limit = static_cast<size_t>(request.limit() <= 0 ? kListedDefault : request.limit());
  for (size_t i = 0; i < std::min(limit, found.size()); ++i) *reply.add_resources() = std::move(found[i]);
  return reply;
}

Result<std::optional<v1::ListKatibResourcesReply>> KatibCore::changes(
    const v1::WatchKatibResourcesRequest& request) const {
  VOLADOR_TRY(check_kind(request.selection()));
  const v1::ListKatibResourcesRequest& selection = request.selection();
  std::vector<v1::KatibResource> found;
  // A version that was not given yet is of another store. Deletions before a start are not known.
  const bool is_known = request.after() >= deleted_since_ && request.after() <= version_;
  const int64_t after = is_known ? std::max<int64_t>(request.after(), 0) : 0;
  collect(selection, after, found);
  if (after != 0) {
    const std::string kind = selection.kind().empty() ? "" : *kind_of(selection.kind());
    for (const v1::KatibResource& gone : deleted_) {
      if (gone.version() <= after || (!kind.empty() && gone.kind() != kind)) continue;
      if (!selection.namespace_().empty() && gone.namespace_() != selection.namespace_()) continue;
      if (!selection.name().empty() && gone.name() != selection.name()) continue;
      found.push_back(gone);
    }
  }
  if (found.empty() && after != 0) return std::nullopt;
  std::ranges::stable_sort(found, {}, &v1::KatibResource::version);
  v1::ListKatibResourcesReply reply;
  reply.set_version(version_);
  reply.set_total(static_cast<int64_t>(found.size()));
  reply.set_complete(after == 0);
  for (v1::KatibResource& one : found) *reply.add_resources() = std::move(one);
  return reply;
}

}  // namespace volador::experiments::katib
