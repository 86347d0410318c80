// The operations of the experiments' server for resources in Katib's form, whose experiments it runs.
#include <chrono>
#include <memory>
#include <utility>

#include "volador/roles/experiment_server_impl.h"

namespace volador {
namespace {

constexpr int kTrialsAMessage = 1000;
constexpr std::string_view kObservationGroup = "observation";  // What collectors of resources report.

}  // namespace

void ExperimentServer::Impl::tell_resources(const std::set<int64_t>& of, const std::set<int64_t>& trials,
                                            const std::vector<int64_t>& deleted) {
  if (!hooks.on_change) return;
  std::map<int64_t, std::vector<v1::TrialInfo>> changes;
  for (const int64_t experiment : of) {
    if (core.of_resource(experiment)) changes[experiment];
  }
  for (const int64_t trial : trials) {
    const auto experiment = core.experiment_of(trial);
    if (!experiment || !changes.contains(*experiment)) continue;
    if (auto info = core.trial(trial, head_itself())) changes[*experiment].push_back(std::move(*info));
  }
  for (const auto& [experiment, changed_trials] : changes)
    hooks.on_change(*core.of_resource(experiment), changed_trials);
  for (const int64_t experiment : deleted) hooks.on_gone(experiment);
}

void ExperimentServer::Impl::tell_all_resources() {
  for (const int64_t experiment : core.all_of_resources()) {
    std::vector<v1::TrialInfo> all;
    v1::ListTrialInfosRequest request;
    request.set_experiment(experiment);
    request.set_limit(kTrialsAMessage);
    while (true) {
      const auto some = core.trials(request, head_itself());
      if (!some || some->trials().empty()) break;
      all.insert(all.end(), some->trials().begin(), some->trials().end());
      request.set_after(all.back().id());
    }
    hooks.on_change(*core.of_resource(experiment), all);
  }
  hooks.on_all();
}

void ExperimentServer::Impl::do_and_answer(Done<void> done, std::function<Result<void>()> function) {
  const bool posted = post([this, done, function = std::move(function)] {
    Result<void> outcome = refusal ? make_error(*refusal) : function();
    answers.push_back([done, outcome](const std::optional<Error>& unstored) {
      done(unstored && outcome ? Result<void>(make_error(*unstored)) : outcome);
    });
  });
  if (!posted) done(make_error(ErrorCode::kUnavailable, "the head stops; ask again"));
}

void ExperimentServer::set_resource_hooks(ResourceHooks hooks) {
  impl_->post([impl = impl_.get(), hooks = std::move(hooks)] {
    impl->hooks = hooks;
    if (impl->hooks.on_change && impl->readable) impl->tell_all_resources();
  });
}

void ExperimentServer::create_for(const security::Principal& by, const v1::CreateExperimentRequest& request,
                                  const std::string& katib,
                                  std::function<void(Result<v1::CreateExperimentReply>)> done) {
  impl_->create(by, request, katib, std::move(done));
}

void ExperimentServer::run_trials(int64_t experiment, std::vector<protocol::KatibTrialProgram> programs,
                                  std::function<void(Result<void>)> done) {
  impl_->do_and_answer(std::move(done), [impl = impl_.get(), experiment, programs = std::move(programs)] {
    return impl->core.run_trials(experiment, programs, impl->now_ms());
  });
}

void ExperimentServer::end_search(int64_t experiment, bool failure) {
  impl_->post(
      [impl = impl_.get(), experiment, failure] { impl->core.end_search(experiment, failure, impl->now_ms()); });
}

void ExperimentServer::kill_trial(int64_t trial) {
  impl_->post(
      [impl = impl_.get(), trial] { static_cast<void>(impl->core.kill_trial(trial, head_itself(), impl->now_ms())); });
}

void ExperimentServer::change(int64_t experiment, const std::string& command) {
  impl_->post([impl = impl_.get(), experiment, command] {
    v1::ChangeExperimentRequest request;
    request.set_id(experiment);
    request.set_command(command);
    static_cast<void>(impl->core.change(request, head_itself(), impl->now_ms()));
  });
}

void ExperimentServer::observe(const security::Principal& by, int64_t experiment, int64_t trial,
                               std::vector<experiments::MetricReport> reports, std::function<void(Result<void>)> done) {
  auto given = std::make_shared<std::vector<experiments::MetricReport>>(std::move(reports));
  impl_->do_and_answer(std::move(done), [impl = impl_.get(), by, experiment, trial, given]() -> Result<void> {
    VOLADOR_TRY(impl->core.may_report(trial, requester_from(by)));
    const auto [number, is_first] = impl->observed.try_emplace(trial, 0);
    if (is_first) {
      v1::GetMetricsRequest known;
      known.add_trials(trial);
      known.set_group(std::string(kObservationGroup));
      known.set_max_points(-1);
      const auto series = impl->metrics->query(known, [&](int64_t) { return std::optional(experiment); });
      if (!series) return make_error(series.error());
      for (const v1::TrialMetricSeries& one : series->series())
        number->second = std::max(number->second, one.batches(one.batches_size() - 1));
    }
    for (experiments::MetricReport& report : *given) {
      report.experiment = experiment;
      report.trial = trial;
      report.group = kObservationGroup;
      report.batches = ++number->second;
      impl->reports.emplace_back(std::move(report));
    }
    return {};
  });
}

void ExperimentServer::forget_observations(const security::Principal& by, int64_t experiment, int64_t trial,
                                           std::function<void(Result<void>)> done) {
  impl_->do_and_answer(std::move(done), [impl = impl_.get(), by, experiment, trial]() -> Result<void> {
    VOLADOR_TRY(impl->core.may_report(trial, requester_from(by)));
    impl->observed.erase(trial);
    impl->reports.emplace_back(experiments::MetricRewind{
        .experiment = experiment, .trial = trial, .batches = 0, .group = std::string(kObservationGroup)});
    return {};
  });
}

void ExperimentServer::observations(const std::vector<int64_t>& trials, const std::string& metric,
                                    std::function<void(Result<v1::GetMetricsReply>)> done) {
  const bool posted = impl_->post([impl = impl_.get(), trials, metric, done] {
    if (impl->refusal) return done(make_error(*impl->refusal));
    v1::GetMetricsRequest request;
    for (const int64_t trial : trials) request.add_trials(trial);
    request.set_group(std::string(kObservationGroup));
    if (!metric.empty()) request.add_metrics(metric);
    request.set_max_points(-1);
    done(impl->metrics->query(request, [impl](int64_t trial) { return impl->core.experiment_of(trial); }));
  });
  if (!posted) done(make_error(ErrorCode::kUnavailable, "the head stops; ask again"));
}

}  // namespace volador
