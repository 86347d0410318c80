#include "volador/roles/katib_server.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "experiments/katib/katib_core.h"
#include "experiments/katib/metric_point.h"
#include "experiments/katib/time_stamp.h"
#include "experiments/katib/wire.h"
#include "head/shell/core_runner.h"
#include "head/shell/head_access.h"
#include "runtime/log.h"
#include "runtime/operations/registry.h"
#include "runtime/protocol/katib/v1beta1/api.pb.h"
#include "runtime/protocol/volador/v1/katib.pb.h"
#include "runtime/quantities.h"
#include "runtime/random.h"
#include "volador/roles/experiment_jobs.h"
#include "volador/roles/experiment_server.h"
#include "volador/roles/long_polls.h"

namespace volador {
namespace {

using namespace std::chrono_literals;
namespace katib = experiments::katib;
namespace beta = api::v1::beta1;
using experiments::ExperimentRequester;
using katib::KatibActions;
using katib::ResourceKey;

constexpr auto kStoreResourcesAgainAfter = 1s;
constexpr auto kAskForJobsAgainAfter = 1s;
constexpr auto kResourcesPatience = 1min;
constexpr size_t kResourceRequestsATurn = 512;
constexpr int64_t kWatchMaxMs = 60'000;
constexpr int32_t kJobsListedMost = 100'000;  // More than the head keeps.
constexpr size_t kLogTrialsAtOnce = 500;
constexpr LongPolls::Key kAnyChange{};

ExperimentRequester requester_of(const security::Principal& by) {
  return {.token_id = by.token_id, .user = by.user, .operates = by.role == security::Role::kOperator};
}

std::string service_of(const ResourceKey& key) { return key.name_space + "/" + key.name; }

std::string names_of(const std::vector<katib::Resource>& resources) {
  std::string names;
  for (const katib::Resource& one : resources) {
    names += fmt::format("{}{} {}/{}", names.empty() ? "" : ", ", one.kind, one.metadata.name_space, one.metadata.name);
    if (names.size() > 200) return names + ", …";
  }
  return names;
}

constexpr int64_t kNsPerMs = 1'000'000;
constexpr int64_t kNoTimeMs =
    -62'135'596'800'000;  // "0001-01-01T00:00:00Z", which Katib writes where there is no time.

// In milliseconds, as metrics are stored. No value: no time stamp.
std::optional<int64_t> time_ms_of(const std::string& text) {
  if (text == katib::time_stamp_text(std::nullopt)) return kNoTimeMs;
  const auto time_ns = katib::parse_time_stamp(text);
  return time_ns ? std::optional(*time_ns / kNsPerMs) : std::nullopt;
}

std::string stamp_of(int64_t time_ms) {
  return katib::time_stamp_text(time_ms == kNoTimeMs ? std::nullopt : std::optional(time_ms * kNsPerMs));
}

// Without trial and experiment; `now_ms` is the time of values that have none. Values that are no numbers, as
// "unavailable" is, are left out.
std::vector<experiments::MetricReport> reports_of(const beta::ObservationLog& log, int64_t now_ms) {
  std::vector<experiments::MetricReport> reports;
  const std::string* time = nullptr;
  for (const beta::MetricLog& one : log.metric_logs()) {
    const auto value = katib::number_of(one.metric().value());
    if (!value) continue;
    const bool is_of_last = time != nullptr && *time == one.time_stamp() &&
                            std::ranges::none_of(reports.back().values,
                                                 [&](const auto& known) { return known.first == one.metric().name(); });
    if (!is_of_last) {
      reports.emplace_back().time_ms = time_ms_of(one.time_stamp()).value_or(now_ms);
    }
    time = &one.time_stamp();
    reports.back().values.emplace_back(one.metric().name(), *value);
  }
  return reports;
}

}  // namespace

struct KatibServer::Impl : std::enable_shared_from_this<KatibServer::Impl> {
  Impl(std::unique_ptr<head::Journal> store, head::HeadAccess& h, operations::Registry& r, ExperimentServer& e,
       KatibServerOptions o, const Clock& c)
      : journal(std::move(store)),
        head(h),
        registry(r),
        experiments(e),
        options(std::move(o)),
        clock(c),
        services(options.services) {}

  template <class T>
  using Done = std::function<void(Result<T>)>;
  using Principal = security::Principal;

  int64_t now_ms() const { return unix_ms(clock.wall()); }
  bool post(std::function<void()> function, bool may_refuse = false);
  // For replies of other parts: calls the function on the thread, unless the server has stopped.
  template <class Reply>
  std::function<void(Result<Reply>)> posted(std::function<void(const Result<Reply>&)> function) {
    return [self = weak_from_this(), function = std::move(function)](Result<Reply> reply) {
      if (auto impl = self.lock()) impl->post([function, reply = std::move(reply)] { function(reply); });
    };
  }
  void later(std::chrono::milliseconds delay, std::function<void()> function) {
    timers.emplace(clock.now() + delay, std::move(function));
  }

  template <class Reply>
  bool queue(const Done<Reply>& done, std::function<void()> function);
  template <class Reply>
  void answer(Done<Reply> done, Result<Reply> reply, std::optional<head::AuditRequest> asked = std::nullopt);
  void serve_resources();
  void serve_observations();
  void apply(const Principal& by, const v1::ApplyKatibResourcesRequest& request,
             Done<v1::ApplyKatibResourcesReply> done);

  // An apply whose algorithms are being asked.
  struct Applying {
    Principal by;
    v1::ApplyKatibResourcesRequest request;
    katib::ResourceReading reading;
    size_t next = 0;
    Done<v1::ApplyKatibResourcesReply> done;
  };
  void validate_next(const std::shared_ptr<Applying>& applying);
  void refuse(Applying& applying, const Error& error);
  void apply_now(Applying& applying);

  void run();
  void open();
  void recover_jobs();
  void hear_of_experiments();
  void heard_of_one();
  void collect();
  bool store();
  void act();
  void settle();
  std::chrono::milliseconds patience() const;

  void create(const KatibActions::Create& action);
  void ask(const KatibActions::Ask& action);
  void ask_rules(const KatibActions::Ask& action, const beta::GetSuggestionsReply& suggested);
  void submit(const KatibActions::Submit& action);
  void stop_job(const std::string& job);
  void delete_job(const std::string& job);
  void ask_to_delete(const std::string& job);

  const std::unique_ptr<head::Journal> journal;
  head::HeadAccess& head;
  operations::Registry& registry;
  ExperimentServer& experiments;
  const KatibServerOptions options;
  const Clock& clock;

  mutable std::mutex mutex;
  std::condition_variable wake;
  std::deque<std::function<void()>> requests;
  bool stopped = false;
  bool loaded = false;
  std::map<std::string, std::set<std::string>> files;  // Keys of rows by the hash of the archive that they need.

  // Confined to the thread.
  SystemRandom random;
  katib::KatibCore core{{}, random};
  KatibActions actions;               // Taken from the core; `rows` are in `batch`.
  std::vector<head::Mutation> batch;  // Possibly not stored.
  std::vector<std::function<void(const std::optional<Error>&)>> answers;
  std::optional<Error> refusal;  // While set, requests are refused.
  bool readable = true;
  int unheard = 2;  // Jobs and experiments, of which everything is to be heard before the core acts.
  LongPolls polls;
  std::multimap<BootTime, std::function<void()>> timers;
  std::set<std::string> deleting;                   // Jobs.
  std::map<std::string, std::vector<double>> logs;  // Objective of trials that have succeeded, for early stopping.

  std::thread thread;
  KatibSuggestions services;
};

// ---- the thread ----

bool KatibServer::Impl::post(std::function<void()> function, bool may_refuse) {
  {
    const std::lock_guard lock(mutex);
    if (stopped || (may_refuse && requests.size() >= options.requests)) return false;
    requests.push_back(std::move(function));
  }
  wake.notify_all();
  return true;
}

void KatibServer::Impl::open() {
  const Result<void> read = journal->load([this](std::string_view table, std::string_view key, std::string_view value) {
    if (!core.load(table, key, value)) {
      log::warn("katib", "skipped an unreadable row", {{"table", std::string(table)}, {"key", std::string(key)}});
      return;
    }
    protocol::KatibResourceRecord record;
    if (table == katib::kResourcesTable && record.ParseFromArray(value.data(), static_cast<int>(value.size())) &&
        !record.files_sha256().empty()) {
      const std::lock_guard lock(mutex);
      files[record.files_sha256()].insert(std::string(key));
    }
  });
  if (!read) {
    readable = false;
    refusal = read.error();
    log::error("katib", "what is stored cannot be read; no resources are taken", {{"why", read.error().message}});
    return;
  }
  {
    const std::lock_guard lock(mutex);
    loaded = true;
  }
  core.start(now_ms());
  hear_of_experiments();
  recover_jobs();
}

void KatibServer::Impl::hear_of_experiments() {
  ResourceHooks hooks;
  hooks.on_change = [self = weak_from_this()](const v1::ExperimentInfo& experiment,
                                              const std::vector<v1::TrialInfo>& trials) {
    if (auto impl = self.lock())
      impl->post(
          [impl = impl.get(), experiment, trials] { impl->core.on_experiment(experiment, trials, impl->now_ms()); });
  };
  hooks.on_gone = [self = weak_from_this()](int64_t experiment) {
    if (auto impl = self.lock())
      impl->post([impl = impl.get(), experiment] { impl->core.on_experiment_gone(experiment, impl->now_ms()); });
  };
  hooks.on_all = [self = weak_from_this()] {
    if (auto impl = self.lock()) impl->post([impl = impl.get()] { impl->heard_of_one(); });
  };
  experiments.set_resource_hooks(std::move(hooks));
}

void KatibServer::Impl::recover_jobs() {
  v1::ListJobsRequest request;
  request.set_limit(kJobsListedMost);
  registry.call<v1::ListJobsReply>(
      "Jobs/ListJobs", principal_of_cluster(), request,
      posted<v1::ListJobsReply>([this](const Result<v1::ListJobsReply>& reply) {
        if (!reply) {
          log::warn("katib", "the jobs of resources are not known yet", {{"why", reply.error().message}});
          return later(kAskForJobsAgainAfter, [this] { recover_jobs(); });
        }
        for (const v1::Job& job : reply->jobs()) core.on_job(job, now_ms());
        heard_of_one();
      }));
}

void KatibServer::Impl::heard_of_one() {
  if (--unheard == 0) core.on_heard(now_ms());
}

void KatibServer::Impl::collect() {
  KatibActions taken = core.take();
  for (experiments::ExperimentRow& row : taken.rows) {
    if (row.table == katib::kResourcesTable && !row.value) {
      const std::lock_guard lock(mutex);
      for (auto at = files.begin(); at != files.end();) {
        at->second.erase(row.key);
        at = at->second.empty() ? files.erase(at) : std::next(at);
      }
    }
    batch.push_back({.table = std::move(row.table), .key = std::move(row.key), .value = std::move(row.value)});
  }
  const auto append = [](auto& to, auto& from) {
    to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
  };
  append(actions.create, taken.create);
  append(actions.ask, taken.ask);
  append(actions.run, taken.run);
  append(actions.end, taken.end);
  append(actions.kill_trials, taken.kill_trials);
  append(actions.change, taken.change);
  append(actions.submit, taken.submit);
  append(actions.stop_jobs, taken.stop_jobs);
  append(actions.delete_jobs, taken.delete_jobs);
  append(actions.ended, taken.ended);
  append(actions.events, taken.events);
  actions.changed |= taken.changed;
}

// Returns whether everything is stored.
bool KatibServer::Impl::store() {
  Result<void> stored;
  if (!batch.empty()) {
    // A resource may have been written several times.
    std::map<std::pair<std::string, std::string>, std::optional<std::string>> last;
    for (head::Mutation& one : batch) last[{one.table, one.key}] = std::move(one.value);
    batch.clear();
    for (auto& [at, value] : last) batch.push_back({.table = at.first, .key = at.second, .value = std::move(value)});
    stored = journal->commit(batch);
  }
  if (stored) {
    if (refusal) log::info("katib", "the store takes changes again", {});
    refusal.reset();
    batch.clear();
    return true;
  }
  if (!refusal)
    log::warn("katib", "changes of resources are not stored, nothing is started",
              {{"store", journal->description()}, {"why", stored.error().message}});
  refusal = Error{
      ErrorCode::kUnavailable,
      fmt::format("resources cannot be stored now ({}); ask again, with the same request_id", stored.error().message)};
  return false;
}

// Does what the core asked for; its rows are stored.
void KatibServer::Impl::act() {
  KatibActions todo = std::exchange(actions, {});
  for (const auto& one : todo.create) create(one);
  for (const auto& one : todo.ask) ask(one);
  for (auto& one : todo.run) {
    experiments.run_trials(
        one.experiment, std::move(one.programs),
        [self = weak_from_this(), of = one.of, uid = one.uid](Result<void> ran) {
          if (auto impl = self.lock())
            impl->post([impl = impl.get(), of, uid, ran] { impl->core.on_run(of, uid, ran, impl->now_ms()); });
        });
  }
  for (const auto& one : todo.end) experiments.end_search(one.experiment, one.failed);
  for (const int64_t trial : todo.kill_trials) experiments.kill_trial(trial);
  for (const auto& [experiment, command] : todo.change) experiments.change(experiment, command);
  for (const auto& one : todo.submit) submit(one);
  for (const ResourceKey& of : todo.ended) services.end(service_of(of));
  for (const std::string& job : todo.stop_jobs) stop_job(job);
  for (const std::string& job : todo.delete_jobs) delete_job(job);
  if (!todo.events.empty()) {
    head.runner().tell([events = std::move(todo.events)](head::HeadCore& head_core) {
      for (const experiments::ExperimentEvent& event : events)
        head_core.context().event(log::Level::kInfo, event.text, event.fields);
    });
  }
  if (todo.changed) polls.on_changed(kAnyChange);
  polls.on_time(clock.now());
}

// Stores the changes, then does the rest and sends the replies.
void KatibServer::Impl::settle() {
  if (!readable) {
    for (const auto& answer : std::exchange(answers, {})) answer(refusal);
    return;
  }
  const std::optional<Error> unstored = store() ? std::nullopt : refusal;
  if (!unstored) act();
  for (const auto& answer : std::exchange(answers, {})) answer(unstored);
}

std::chrono::milliseconds KatibServer::Impl::patience() const {
  std::chrono::milliseconds least = kResourcesPatience;
  const auto until = [&](BootTime time) {
    least = std::min(least, std::max(0ms, std::chrono::ceil<std::chrono::milliseconds>(time - clock.now())));
  };
  if (!readable) return least;
  if (!batch.empty()) return refusal ? std::chrono::milliseconds(kStoreResourcesAgainAfter) : 0ms;
  if (const auto deadline = core.deadline_ms())
    least = std::min(least, std::chrono::milliseconds(std::max<int64_t>(*deadline - now_ms(), 0)));
  if (const auto deadline = polls.deadline()) until(*deadline);
  if (!timers.empty()) until(timers.begin()->first);
  return least;
}

void KatibServer::Impl::run() {
  open();
  collect();
  settle();
  while (true) {
    std::deque<std::function<void()>> turn;
    {
      std::unique_lock lock(mutex, std::defer_lock);
      const auto limit = patience();
      lock.lock();
      wake.wait_for(lock, limit, [this] { return stopped || !requests.empty(); });
      if (stopped) return;
      while (!requests.empty() && turn.size() < kResourceRequestsATurn) {
        turn.push_back(std::move(requests.front()));
        requests.pop_front();
      }
    }
    for (const auto& request : turn) request();
    if (readable) {
      while (!timers.empty() && timers.begin()->first <= clock.now()) {
        const auto function = std::move(timers.begin()->second);
        timers.erase(timers.begin());
        function();
      }
      if (const auto deadline = core.deadline_ms(); deadline && *deadline <= now_ms()) core.on_tick(now_ms());
      collect();
    }
    settle();
  }
}

// ---- actions ----

void KatibServer::Impl::create(const KatibActions::Create& action) {
  experiments.create_for(principal_of(action.as), action.request, action.of.name_space + "/" + action.of.name,
                         posted<v1::CreateExperimentReply>(
                             [this, of = action.of, uid = action.uid](const Result<v1::CreateExperimentReply>& reply) {
                               core.on_created(of, uid,
                                               reply ? Result<v1::ExperimentInfo>(reply->experiment())
                                                     : Result<v1::ExperimentInfo>(make_error(reply.error())),
                                               now_ms());
                             }));
}

void KatibServer::Impl::ask(const KatibActions::Ask& action) {
  services.suggest(service_of(action.of), action.algorithm, action.request,
                   posted<beta::GetSuggestionsReply>([this, action](const Result<beta::GetSuggestionsReply>& reply) {
                     const bool stops_early =
                         !action.request.experiment().spec().early_stopping().algorithm_name().empty();
                     if (!reply || !stops_early || reply->parameter_assignments().empty())
                       return core.on_suggestions(action.of, action.uid, reply, now_ms());
                     ask_rules(action, *reply);
                   }));
}

// The values of trials that have ended do not change any more.
void KatibServer::Impl::ask_rules(const KatibActions::Ask& action, const beta::GetSuggestionsReply& suggested) {
  const std::string& metric = action.request.experiment().spec().objective().objective_metric_name();
  std::vector<int64_t> missing;
  std::map<int64_t, std::string> names;
  experiments::katib::ObjectiveLogs known;
  for (const beta::Trial& trial : action.request.trials()) {
    if (trial.status().condition() != beta::TrialStatus::SUCCEEDED) continue;
    if (const auto found = logs.find(trial.name()); found != logs.end()) {
      known[trial.name()] = found->second;
      continue;
    }
    const auto of = core.trial_of(trial.name());
    if (!of || missing.size() >= kLogTrialsAtOnce) continue;
    missing.push_back(of->second);
    names[of->second] = trial.name();
  }
  auto go_on = [this, action, suggested, known, names](const Result<v1::GetMetricsReply>& found) mutable {
    if (found) {
      for (const v1::TrialMetricSeries& one : found->series()) {
        const auto name = names.find(one.trial());
        if (name == names.end()) continue;
        known[name->second] = logs[name->second] = std::vector<double>(one.values().begin(), one.values().end());
      }
    }
    beta::GetEarlyStoppingRulesRequest request;
    *request.mutable_experiment() = action.request.experiment();
    *request.mutable_trials() = action.request.trials();
    request.set_db_manager_address(options.services.db_manager_address);
    services.rules(service_of(action.of), std::move(request), std::move(known),
                   posted<beta::GetEarlyStoppingRulesReply>(
                       [this, action, suggested](const Result<beta::GetEarlyStoppingRulesReply>& rules) {
                         if (!rules)
                           return core.on_suggestions(action.of, action.uid, make_error(rules.error()), now_ms());
                         beta::GetSuggestionsReply all = suggested;
                         *all.mutable_early_stopping_rules() = rules->early_stopping_rules();
                         core.on_suggestions(action.of, action.uid, all, now_ms());
                       }));
  };
  if (missing.empty()) return go_on(v1::GetMetricsReply());
  experiments.observations(missing, metric, posted<v1::GetMetricsReply>(go_on));
}

void KatibServer::Impl::submit(const KatibActions::Submit& action) {
  v1::SubmitJobRequest request;
  *request.mutable_spec() = action.spec;
  options.submit(
      principal_of(action.as), std::move(request),
      posted<v1::SubmitJobReply>([this, of = action.of, uid = action.uid](const Result<v1::SubmitJobReply>& reply) {
        core.on_submitted(of, uid, reply ? Result<v1::Job>(reply->job()) : Result<v1::Job>(make_error(reply.error())),
                          now_ms());
      }));
}

void KatibServer::Impl::stop_job(const std::string& job) {
  v1::StopJobRequest request;
  request.set_job(job);
  request.set_now(true);
  registry.call<v1::StopJobReply>("Jobs/StopJob", principal_of_cluster(), request,
                                  posted<v1::StopJobReply>([this, job](const Result<v1::StopJobReply>& reply) {
                                    if (reply) return;
                                    if (reply.error().code == ErrorCode::kUnavailable)
                                      return later(kAskForJobsAgainAfter, [this, job] { stop_job(job); });
                                    if (reply.error().code != ErrorCode::kNotFound) delete_job(job);  // It has ended.
                                  }));
}

// Asks until it is done: a job that still ends cannot be deleted.
void KatibServer::Impl::delete_job(const std::string& job) {
  if (deleting.insert(job).second) ask_to_delete(job);
}

void KatibServer::Impl::ask_to_delete(const std::string& job) {
  v1::DeleteJobRequest request;
  request.set_job(job);
  registry.call<v1::DeleteJobReply>("Jobs/DeleteJob", principal_of_cluster(), request,
                                    posted<v1::DeleteJobReply>([this, job](const Result<v1::DeleteJobReply>& reply) {
                                      if (!reply && reply.error().code != ErrorCode::kNotFound)
                                        return later(kAskForJobsAgainAfter, [this, job] { ask_to_delete(job); });
                                      deleting.erase(job);
                                    }));
}

// ---- requests ----

template <class Reply>
bool KatibServer::Impl::queue(const Done<Reply>& done, std::function<void()> function) {
  if (post(std::move(function), true)) return true;
  done(make_error(ErrorCode::kUnavailable,
                  "the head stops or has too many requests for resources; ask again, with the same request_id"));
  return false;
}

template <class Reply>
void KatibServer::Impl::answer(Done<Reply> done, Result<Reply> reply, std::optional<head::AuditRequest> asked) {
  answers.push_back([this, done = std::move(done), reply = std::move(reply),
                     asked = std::move(asked)](const std::optional<Error>& unstored) {
    const Result<Reply> outcome = unstored && reply ? Result<Reply>(make_error(*unstored)) : reply;
    if (asked) head.record(*asked, outcome ? Result<void>() : make_error(outcome.error()));
    done(outcome);
  });
}

void KatibServer::Impl::serve_resources() {
  registry.serve<v1::ApplyKatibResourcesRequest, v1::ApplyKatibResourcesReply>(
      "Katib/ApplyKatibResources", [this](const Principal& by, const v1::ApplyKatibResourcesRequest& request,
                                          Done<v1::ApplyKatibResourcesReply> done) {
        queue<v1::ApplyKatibResourcesReply>(done, [this, by, request, done] { apply(by, request, done); });
      });
  registry.serve<v1::ListKatibResourcesRequest, v1::ListKatibResourcesReply>(
      "Katib/ListKatibResources",
      [this](const Principal&, const v1::ListKatibResourcesRequest& request, Done<v1::ListKatibResourcesReply> done) {
        queue<v1::ListKatibResourcesReply>(done, [this, request, done] {
          answer<v1::ListKatibResourcesReply>(
              done, refusal ? Result<v1::ListKatibResourcesReply>(make_error(*refusal)) : core.list(request));
        });
      });
  registry.serve<v1::ListKatibAlgorithmsRequest, v1::ListKatibAlgorithmsReply>(
      "Katib/ListKatibAlgorithms", [this](const Principal&, const v1::ListKatibAlgorithmsRequest&,
                                          Done<v1::ListKatibAlgorithmsReply> done) { done(services.algorithms()); });
  registry.serve<v1::DeleteKatibResourceRequest, v1::DeleteKatibResourceReply>(
      "Katib/DeleteKatibResource", [this](const Principal& by, const v1::DeleteKatibResourceRequest& request,
                                          Done<v1::DeleteKatibResourceReply> done) {
        queue<v1::DeleteKatibResourceReply>(done, [this, by, request, done] {
          Result<v1::DeleteKatibResourceReply> reply = v1::DeleteKatibResourceReply();
          if (refusal) {
            reply = make_error(*refusal);
          } else if (auto gone = core.remove(request, requester_of(by), now_ms())) {
            *reply->mutable_resource() = std::move(*gone);
          } else {
            reply = make_error(gone.error());
          }
          answer<v1::DeleteKatibResourceReply>(
              done, std::move(reply),
              head::AuditRequest{
                  .by = by.token_id,
                  .action = "delete_resource",
                  .object = fmt::format("{} {}/{}", request.kind(), request.namespace_(), request.name())});
        });
      });
  registry.serve<v1::WatchKatibResourcesRequest, v1::ListKatibResourcesReply>(
      "Katib/WatchKatibResources",
      [this](const Principal&, const v1::WatchKatibResourcesRequest& request, Done<v1::ListKatibResourcesReply> done) {
        queue<v1::ListKatibResourcesReply>(done, [this, request, done] {
          using Reply = v1::ListKatibResourcesReply;
          if (refusal) return answer<Reply>(done, make_error(*refusal));
          auto found = core.changes(request);
          if (!found) return answer<Reply>(done, make_error(found.error()));
          if (*found) return answer<Reply>(done, std::move(**found));
          Reply nothing;
          nothing.set_version(request.after());
          if (request.wait_ms() <= 0) return answer<Reply>(done, nothing);
          if (polls.size() >= options.waits)
            return answer<Reply>(done, make_error(ErrorCode::kUnavailable, "too many requests wait; ask again later"));
          const std::chrono::milliseconds wait(std::min(request.wait_ms(), kWatchMaxMs));
          polls.add(kAnyChange, clock.now() + wait, [this, request, nothing, done](bool last) {
            auto now = core.changes(request);
            if (!now) {
              done(make_error(now.error()));
              return true;
            }
            if (!*now && !last) return false;
            done(*now ? std::move(**now) : nothing);
            return true;
          });
        });
      });
}

void KatibServer::Impl::apply(const Principal& by, const v1::ApplyKatibResourcesRequest& request,
                              Done<v1::ApplyKatibResourcesReply> done) {
  auto applying = std::make_shared<Applying>();
  applying->by = by;
  applying->request = request;
  applying->done = std::move(done);
  if (refusal) return refuse(*applying, *refusal);
  applying->reading =
      katib::read_resources(request.yaml(), request.file_name().empty() ? "resources.yaml" : request.file_name(),
                            request.namespace_().empty() ? "default" : request.namespace_());
  if (!applying->reading.is_valid()) return refuse(*applying, applying->reading.error());
  const std::string& sha256 = request.files_sha256();
  const bool is_hash = sha256.size() == 64 && sha256.find_first_not_of("0123456789abcdef") == std::string::npos;
  std::error_code ignored;
  if (!sha256.empty() && (!is_hash || !std::filesystem::exists(options.files / sha256, ignored)))
    return refuse(*applying,
                  {ErrorCode::kNotFound,
                   fmt::format("files_sha256: the head has no archive {}; send it with PutJobFiles first", sha256)});
  // What cannot be changed is told before the algorithms are asked.
  const auto checked = core.apply(applying->reading.resources,
                                  {.files_sha256 = sha256, .dry_run = true, .create_only = request.create_only()},
                                  requester_of(by), now_ms());
  if (!checked) return refuse(*applying, checked.error());
  validate_next(applying);
}

void KatibServer::Impl::refuse(Applying& applying, const Error& error) {
  answer<v1::ApplyKatibResourcesReply>(
      applying.done, make_error(error),
      applying.request.dry_run() ? std::nullopt
                                 : std::optional(head::AuditRequest{.by = applying.by.token_id,
                                                                    .action = "apply_resources",
                                                                    .object = names_of(applying.reading.resources)}));
}

// Asks the algorithms of the experiments, one after the other, whether they take them.
void KatibServer::Impl::validate_next(const std::shared_ptr<Applying>& applying) {
  while (applying->next < applying->reading.resources.size() && !applying->reading.resources[applying->next].experiment)
    ++applying->next;
  if (applying->next == applying->reading.resources.size()) return apply_now(*applying);
  const katib::Resource& resource = applying->reading.resources[applying->next++];
  const katib::ExperimentSpec& spec = *resource.experiment;
  const auto placed = [](const Error& error, const char* path, const yaml::Place& place) {
    return Error{error.code, fmt::format("{}{}: {}", place.is_known() ? place.text() + ": " : "", path, error.message)};
  };
  const auto check_early = [this, applying, placed, early = spec.early_stopping] {
    if (early.name.empty()) return validate_next(applying);
    services.validate_early_stopping(katib::early_stopping_to_wire(early),
                                     posted<void>([this, applying, placed, early](const Result<void>& good) {
                                       if (good) return validate_next(applying);
                                       refuse(*applying, placed(good.error(), "spec.earlyStopping", early.place));
                                     }));
  };
  services.validate(
      resource.metadata.name_space + "/" + resource.metadata.name, spec.algorithm.name,
      katib::to_wire(resource.metadata.name, spec),
      posted<void>([this, applying, placed, check_early, place = spec.algorithm.place](const Result<void>& good) {
        if (good) return check_early();
        refuse(*applying, placed(good.error(), "spec.algorithm", place));
      }));
}

void KatibServer::Impl::apply_now(Applying& applying) {
  const v1::ApplyKatibResourcesRequest& request = applying.request;
  if (refusal) return refuse(applying, *refusal);
  const auto applied = core.apply(
      applying.reading.resources,
      {.files_sha256 = request.files_sha256(), .dry_run = request.dry_run(), .create_only = request.create_only()},
      requester_of(applying.by), now_ms());
  if (!applied) return refuse(applying, applied.error());
  v1::ApplyKatibResourcesReply reply;
  for (const v1::AppliedKatibResource& one : *applied) {
    *reply.add_resources() = one;
    if (request.files_sha256().empty() || request.dry_run()) continue;
    const std::lock_guard lock(mutex);
    files[request.files_sha256()].insert(one.kind() + "/" + one.namespace_() + "/" + one.name());
  }
  for (const experiments::Finding& warning : applying.reading.findings.warnings()) reply.add_warnings(warning.text());
  answer<v1::ApplyKatibResourcesReply>(
      applying.done, std::move(reply),
      request.dry_run() ? std::nullopt
                        : std::optional(head::AuditRequest{.by = applying.by.token_id,
                                                           .action = "apply_resources",
                                                           .object = names_of(applying.reading.resources)}));
}

// ---- Katib's metric store ----

void KatibServer::Impl::serve_observations() {
  registry.serve<beta::ReportObservationLogRequest, beta::ReportObservationLogReply>(
      "DBManager/ReportObservationLog", [this](const Principal& by, const beta::ReportObservationLogRequest& request,
                                               Done<beta::ReportObservationLogReply> done) {
        // Made on the thread of the call: several calls at once have several threads.
        auto reports =
            std::make_shared<std::vector<experiments::MetricReport>>(reports_of(request.observation_log(), now_ms()));
        queue<beta::ReportObservationLogReply>(done, [this, by, name = request.trial_name(), reports, done] {
          const auto of = core.trial_of(name);
          if (!of) return done(make_error(of.error()));
          experiments.observe(by, of->first, of->second, std::move(*reports), [done](Result<void> kept) {
            if (!kept) return done(make_error(kept.error()));
            done(beta::ReportObservationLogReply());
          });
        });
      });
  registry.serve<beta::GetObservationLogRequest, beta::GetObservationLogReply>(
      "DBManager/GetObservationLog",
      [this](const Principal&, const beta::GetObservationLogRequest& request, Done<beta::GetObservationLogReply> done) {
        queue<beta::GetObservationLogReply>(done, [this, request, done] {
          const auto of = core.trial_of(request.trial_name());
          if (!of) return done(make_error(of.error()));
          const auto from = time_ms_of(request.start_time()), to = time_ms_of(request.end_time());
          for (const auto& [time, text] : {std::pair(from, request.start_time()), std::pair(to, request.end_time())}) {
            if (!time && !text.empty())
              return done(make_error(ErrorCode::kInvalidArgument,
                                     fmt::format("expected a time as 2024-05-01T10:00:00Z, got \"{}\"", text)));
          }
          experiments.observations({of->second}, request.metric_name(),
                                   [done, from, to](const Result<v1::GetMetricsReply>& found) {
                                     if (!found) return done(make_error(found.error()));
                                     struct Point {
                                       int64_t time, number;
                                       const std::string* metric;
                                       double value;
                                     };
                                     std::vector<Point> points;
                                     for (const v1::TrialMetricSeries& one : found->series()) {
                                       for (int i = 0; i < one.values_size(); ++i) {
                                         const int64_t time = one.times_ms(i);
                                         if ((from && time < *from) || (to && time > *to)) continue;
                                         points.push_back({time, one.batches(i), &one.metric(), one.values(i)});
                                       }
                                     }
                                     std::ranges::stable_sort(points, [](const Point& a, const Point& b) {
                                       return std::pair(a.time, a.number) < std::pair(b.time, b.number);
                                     });
                                     beta::GetObservationLogReply reply;
                                     for (const Point& point : points) {
                                       beta::MetricLog& log = *reply.mutable_observation_log()->add_metric_logs();
                                       log.set_time_stamp(stamp_of(point.time));
                                       log.mutable_metric()->set_name(*point.metric);
                                       log.mutable_metric()->set_value(fmt::format("{}", point.value));
                                     }
                                     done(std::move(reply));
                                   });
        });
      });
  registry.serve<beta::DeleteObservationLogRequest, beta::DeleteObservationLogReply>(
      "DBManager/DeleteObservationLog", [this](const Principal& by, const beta::DeleteObservationLogRequest& request,
                                               Done<beta::DeleteObservationLogReply> done) {
        queue<beta::DeleteObservationLogReply>(done, [this, by, request, done] {
          const auto of = core.trial_of(request.trial_name());
          if (!of) return done(make_error(of.error()));
          experiments.forget_observations(by, of->first, of->second, [done](Result<void> kept) {
            if (!kept) return done(make_error(kept.error()));
            done(beta::DeleteObservationLogReply());
          });
        });
      });
}

// ---- the server ----

KatibServer::KatibServer(std::unique_ptr<head::Journal> journal, head::HeadAccess& head, operations::Registry& registry,
                         ExperimentServer& experiments, KatibServerOptions options, const Clock& clock)
    : impl_(std::make_shared<Impl>(std::move(journal), head, registry, experiments, std::move(options), clock)) {
  impl_->thread = std::thread([impl = impl_.get()] { impl->run(); });
}

KatibServer::~KatibServer() { stop(); }

void KatibServer::stop() {
  std::deque<std::function<void()>> dropped;
  {
    const std::lock_guard lock(impl_->mutex);
    if (impl_->stopped) return;
    impl_->stopped = true;
    dropped.swap(impl_->requests);
  }
  impl_->wake.notify_all();
  if (impl_->thread.joinable()) impl_->thread.join();
  impl_->experiments.set_resource_hooks({});
  impl_->services.stop();
}

void KatibServer::serve() {
  impl_->serve_resources();
  impl_->serve_observations();
}

void KatibServer::on_job(const v1::Job& job) {
  if (!katib::KatibCore::is_job_text(job.spec().trial())) return;
  impl_->post([impl = impl_.get(), job] { impl->core.on_job(job, impl->now_ms()); });
}

bool KatibServer::needs_files(const std::string& sha256) const {
  const std::lock_guard lock(impl_->mutex);
  return !impl_->loaded || impl_->files.contains(sha256);
}

}  // namespace volador
