#include "volador/roles/experiment_server.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <utility>

#include "experiments/launch/trial_launch.h"
#include "head/shell/core_runner.h"
#include "head/shell/head_access.h"
#include "runtime/control/channel.h"
#include "runtime/log.h"
#include "runtime/machine.h"
#include "runtime/number_key.h"
#include "runtime/protocol/experiments.pb.h"
#include "runtime/protocol/volador/v1/cluster.pb.h"
#include "runtime/protocol/volador/v1/users.pb.h"
#include "runtime/quantities.h"
#include "runtime/version.h"
#include "volador/roles/experiment_server_impl.h"

namespace volador {
namespace {

using namespace std::chrono_literals;

constexpr auto kStoreExperimentsAgainAfter = 1s;
constexpr auto kConnectAgainAfter = 1s;
constexpr auto kIdlePatience = 1min;
constexpr auto kRowsEvery = 200ms;
constexpr size_t kRequestsATurn = 512;
constexpr int kRowsAMessage = 1000;
constexpr auto kOutlookEvery = 2s;
constexpr int kOutlookShare = 50;                // The estimate takes at most 1/50 of the time.
constexpr int64_t kShownAfterEndMs = 3'600'000;  // After a restart: experiments that ended lately are shown again.
constexpr size_t kMetricTrialsMax = 1000;
constexpr int64_t kFilesPieceBytes = int64_t{1} << 20;
constexpr std::string_view kServerTable = "experiments_server";
constexpr std::string_view kDriverKey = "driver";

bool is_open_state(const std::string& state) {
  return state == "ACTIVE" || state == "PAUSED" || state.starts_with("STOPPING_");
}

// Read on the head's loop.
ClusterSlots read_slots(const head::HeadCore& core) {
  ClusterSlots slots;
  std::set<std::string> machines;
  for (const auto& [id, node] : core.tables().nodes.all()) {
    if (!node.is_member()) continue;
    const auto pool = node.labels.find("pool");
    slots.view.nodes.push_back({.cpus = static_cast<double>(node.total.get("cpus")) / kUnit,
                                .gpus = static_cast<double>(node.total.get("gpus")) / kUnit,
                                .pool = pool == node.labels.end() ? "default" : pool->second});
    machines.insert(node.machine_id);
  }
  slots.machines = machines.size();
  return slots;
}

}  // namespace

// ---- the thread ----

bool ExperimentServer::Impl::post(std::function<void()> function, bool may_refuse) {
  {
    const std::lock_guard lock(mutex);
    if (stopped || (may_refuse && requests.size() >= options.requests)) return false;
    requests.push_back(std::move(function));
  }
  wake.notify_all();
  return true;
}

ExperimentJobs::Parts ExperimentServer::Impl::job_parts() {
  return {.registry = registry,
          .submit = options.submit,
          .core = core,
          .post = [this](std::function<void()> function) { post(std::move(function)); },
          .later = [this](std::chrono::milliseconds delay,
                          std::function<void()> function) { later(delay, std::move(function)); },
          .now_ms = [this] { return now_ms(); },
          .env = [this] { return job_env(); },
          .token = [this](const std::string& note, Done<Token> done) { make_token(note, std::move(done)); },
          .seen = [this](const v1::Job& job) { seen(job); },
          .other = [this](const v1::Job& job) { boards.on_job(job); }};
}

std::vector<std::pair<std::string, std::string>> ExperimentServer::Impl::job_env() const {
  std::vector<std::pair<std::string, std::string>> env{{"VOLADOR_ADDRESS", options.address},
                                                       {"DET_CLUSTER_ID", options.cluster_id}};
  const std::lock_guard lock(mutex);
  if (!page.empty()) env.emplace_back("DET_MASTER", page);
  return env;
}

void ExperimentServer::Impl::note_row(std::string_view table, std::string_view key,
                                      const std::optional<std::string>& value) {
  if (table != experiments::kExperimentsTable) return;
  const auto id = key_number(key);
  protocol::ExperimentDefinition row;
  const bool is_there = value && row.ParseFromString(*value);
  const std::lock_guard lock(mutex);
  if (const auto known = kept.find(id); known != kept.end()) {
    tokens.erase(known->second.token_id);
    kept.erase(known);
  }
  if (!is_there) return;
  if (!row.token_id().empty()) tokens[row.token_id()] = id;
  kept[id] = {.files = row.info().files_sha256(), .token_id = row.token_id()};
}

void ExperimentServer::Impl::open() {
  const Result<void> read = journal->load([this](std::string_view table, std::string_view key, std::string_view value) {
    if (table == kServerTable) {
      if (key == kDriverKey) driver = id_from_raw<DriverId>(value);
      return;
    }
    note_row(table, key, std::string(value));
    const bool is_known =
        experiments::ModelRegistry::has_table(table) ? models.load(table, key, value) : core.load(table, key, value);
    if (!is_known) log::warn("experiments", "skipped an unreadable row", {{"table", std::string(table)}});
  });
  auto opened = experiments::MetricStore::open({.folder = options.metrics, .sync = options.survive_power_cut});
  const std::optional<Error> failed = !read     ? std::optional(read.error())
                                      : !opened ? std::optional(opened.error())
                                                : std::nullopt;
  if (failed) {
    readable = false;
    refusal = failed;
    log::error("experiments", "what is stored cannot be read; no experiments are taken", {{"why", failed->message}});
    return;
  }
  metrics.emplace(std::move(*opened));
  {
    const std::lock_guard lock(mutex);
    loaded = true;
    any_shown = !kept.empty();
  }
  if (driver.is_nil()) {
    driver = new_id<DriverId>(random);
    batch.push_back({.table = std::string(kServerTable), .key = std::string(kDriverKey), .value = raw(driver)});
  }
  models.start();
  core.start(now_ms());
  jobs.recover();
}

// Takes what the core wants done, after each event of it: reports and rewinds of metrics keep their order.
void ExperimentServer::Impl::collect() {
  ExperimentActions taken = core.take();
  experiments::ModelActions of_models = models.take();
  for (auto* rows : {&taken.rows, &of_models.rows}) {
    for (experiments::ExperimentRow& row : *rows) {
      note_row(row.table, row.key, row.value);
      batch.push_back({.table = std::move(row.table), .key = std::move(row.key), .value = std::move(row.value)});
    }
  }
  for (experiments::MetricRewind& rewind : taken.rewinds) reports.emplace_back(rewind);
  for (experiments::MetricReport& report : taken.metrics) reports.emplace_back(std::move(report));
  const auto append = [](auto& to, auto& from) {
    to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
  };
  append(actions.submit, taken.submit);
  append(actions.stop, taken.stop);
  append(actions.priorities, taken.priorities);
  append(actions.garbage, taken.garbage);
  append(actions.deleted_experiments, taken.deleted_experiments);
  append(actions.trials, taken.trials);
  append(actions.experiments, taken.experiments);
  append(actions.revoke, taken.revoke);
  append(actions.events, taken.events);
  append(actions.events, of_models.events);
}

// Writes what waits for the journal and the metrics; on an error the rest is tried again later.
Result<void> ExperimentServer::Impl::keep() {
  if (!batch.empty()) {
    VOLADOR_TRY(journal->commit(batch));
    batch.clear();
  }
  while (!reports.empty()) {
    if (const auto* rewind = std::get_if<experiments::MetricRewind>(&reports.front())) {
      VOLADOR_TRY(metrics->rewind(*rewind));
      reports.pop_front();
      continue;
    }
    std::vector<experiments::MetricReport> together;
    for (const auto& one : reports) {
      const auto* report = std::get_if<experiments::MetricReport>(&one);
      if (report == nullptr) break;
      together.push_back(*report);
    }
    VOLADOR_TRY(metrics->append(together));
    // Reports of a trial come one after the other, often many of them.
    int64_t trial = 0, started_ms = 0;
    for (const experiments::MetricReport& report : together) {
      if (report.trial != trial) {
        trial = report.trial;
        const auto info = core.trial(trial, head_itself());
        started_ms = info ? info->started_ms() : 0;
        changed[report.experiment].insert(trial);
      }
      points[trial].add(report, started_ms);
    }
    reports.erase(reports.begin(), reports.begin() + static_cast<std::ptrdiff_t>(together.size()));
  }
  return {};
}

// Returns whether everything is stored.
bool ExperimentServer::Impl::store() {
  const Result<void> stored = keep();
  if (stored) {
    if (refusal) log::info("experiments", "the store takes changes again", {});
    refusal.reset();
    return true;
  }
  if (!refusal)
    log::warn("experiments", "changes are not stored, no trial starts",
              {{"store", journal->description()}, {"why", stored.error().message}});
  refusal = Error{ErrorCode::kUnavailable,
                  fmt::format("experiments cannot be stored now ({}); ask again, with the same request_id",
                              stored.error().message)};
  return false;
}

// Does what the core asked for; its rows are stored.
void ExperimentServer::Impl::act() {
  ExperimentActions todo = std::exchange(actions, {});
  for (const experiments::TrialStop& stop : todo.stop) jobs.stop(stop);
  for (experiments::TrialJob& job : todo.submit) jobs.submit(std::move(job));
  for (const experiments::TrialPriority& priority : todo.priorities) jobs.set_priority(priority);
  for (const std::string& token : todo.revoke) jobs.revoke(token);
  for (const int64_t experiment : todo.garbage) jobs.collect_garbage(experiment);
  for (const int64_t experiment : todo.deleted_experiments) {
    if (const auto removed = metrics->remove(experiment); !removed)
      log::warn("experiments", "metrics are not removed",
                {{"experiment", std::to_string(experiment)}, {"why", removed.error().message}});
    planned.erase(experiment);
    bests.erase(experiment);
    outlooks.erase(experiment);
  }
  if (!todo.events.empty()) {
    head.runner().tell([events = std::move(todo.events)](head::HeadCore& head_core) {
      for (const experiments::ExperimentEvent& event : events)
        head_core.context().event(log::Level::kInfo, event.text, event.fields);
    });
  }
  const std::set<int64_t> trials(todo.trials.begin(), todo.trials.end());
  const std::set<int64_t> of(todo.experiments.begin(), todo.experiments.end());
  for (const int64_t trial : trials) {
    if (const auto experiment = core.experiment_of(trial)) changed[*experiment].insert(trial);
    polls.on_changed({.is_trial = true, .id = trial});
  }
  for (const int64_t experiment : of) {
    changed[experiment];
    polls.on_changed({.is_trial = false, .id = experiment});
  }
  polls.on_time(clock.now());
  tell_resources(of, trials, todo.deleted_experiments);
}

// Stores the changes, then does the rest and sends the replies.
void ExperimentServer::Impl::settle() {
  if (!readable) {
    for (const auto& answer : std::exchange(answers, {})) answer(refusal);
    return;
  }
  const std::optional<Error> unstored = store() ? std::nullopt : refusal;
  if (!unstored) {
    act();
    collect();  // What replies of other parts in this thread changed.
  }
  for (const auto& answer : std::exchange(answers, {})) answer(unstored);
  if (unstored) return;
  if (any_shown || !changed.empty()) connect();
  if (welcome && clock.now() >= rows_after) show_changes();
}

std::chrono::milliseconds ExperimentServer::Impl::patience() const {
  std::chrono::milliseconds least = kIdlePatience;
  const auto until = [&](BootTime time) {
    least = std::min(least, std::max(0ms, std::chrono::ceil<std::chrono::milliseconds>(time - clock.now())));
  };
  if (!readable) return least;
  if (!batch.empty() || !reports.empty()) {
    if (refusal) return kStoreExperimentsAgainAfter;
    return 0ms;
  }
  if (const auto deadline = core.deadline_ms())
    least = std::min(least, std::chrono::milliseconds(std::max<int64_t>(*deadline - now_ms(), 0)));
  if (const auto deadline = polls.deadline()) until(*deadline);
  if (!timers.empty()) until(timers.begin()->first);
  if (welcome && !changed.empty()) until(rows_after);
  if (!session && (any_shown || !changed.empty()) && connect_after) until(*connect_after);
  return least;
}

void ExperimentServer::Impl::run() {
  open();
  {
    const std::lock_guard lock(mutex);
    was_read = true;
  }
  wake.notify_all();
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
      while (!requests.empty() && turn.size() < kRequestsATurn) {
        turn.push_back(std::move(requests.front()));
        requests.pop_front();
      }
    }
    for (const auto& request : turn) {
      request();
      if (readable) collect();
    }
    if (readable) {
      while (!timers.empty() && timers.begin()->first <= clock.now()) {
        const auto function = std::move(timers.begin()->second);
        timers.erase(timers.begin());
        function();
        collect();
      }
      if (const auto deadline = core.deadline_ms(); deadline && *deadline <= now_ms()) {
        core.on_tick(now_ms());
        collect();
      }
    }
    settle();
  }
}

// ---- requests ----

void ExperimentServer::Impl::make_token(const std::string& note, Done<Token> done) {
  v1::CreateTokenRequest request;
  request.set_role(std::string(to_string(security::TokenRole::kDriver)));
  request.set_note(note);
  registry.call<v1::CreateTokenReply>("Cluster/CreateToken", principal_of_cluster(), request,
                                      [done = std::move(done)](const Result<v1::CreateTokenReply>& reply) {
                                        if (!reply) return done(make_error(reply.error()));
                                        done(Token(reply->token().id(), reply->text()));
                                      });
}

void ExperimentServer::Impl::make_token(const Principal& by, const std::string& note, Done<Token> done) {
  if (by.user.empty()) return make_token(note, std::move(done));
  v1::CreateUserTokenRequest request;
  request.set_role(std::string(to_string(security::TokenRole::kDriver)));
  request.set_note(note);
  registry.call<v1::CreateUserTokenReply>("Users/CreateUserToken", by, request,
                                          [done = std::move(done)](const Result<v1::CreateUserTokenReply>& reply) {
                                            if (!reply) return done(make_error(reply.error()));
                                            done(Token(reply->token_id(), reply->token()));
                                          });
}

// Asks the head for its nodes, checks the configuration, makes a token for the trials, and creates the experiment.
void ExperimentServer::Impl::create(const Principal& by, const v1::CreateExperimentRequest& request,
                                    const std::string& katib, Done<v1::CreateExperimentReply> done) {
  head.runner().ask([self = weak_from_this(), by, request, katib, done](const head::HeadCore& head_core, BootTime) {
    auto impl = self.lock();
    if (!impl) return;
    impl->queue<v1::CreateExperimentReply>(
        done, [impl = impl.get(), by, request, katib, done, slots = read_slots(head_core)] {
          impl->create_with(by, request, katib, slots, done);
        });
  });
}

void ExperimentServer::Impl::create_with(const Principal& by, const v1::CreateExperimentRequest& request,
                                         const std::string& katib, const ClusterSlots& slots,
                                         Done<v1::CreateExperimentReply> done) {
  const ExperimentRequester requester = requester_from(by);
  const auto refuse = [&](const Error& error) {
    answer<v1::CreateExperimentReply>(
        done, make_error(error),
        request.validate_only()
            ? std::nullopt
            : std::optional(head::AuditRequest{.by = by.token_id, .action = "create_experiment", .object = {}}));
  };
  if (refusal) return refuse(*refusal);
  if (auto earlier = core.created(request, requester)) {
    *earlier->mutable_experiment() = named(earlier->experiment());
    return answer<v1::CreateExperimentReply>(done, std::move(*earlier));
  }
  std::error_code ignored;
  const std::string& files = request.files_sha256();
  const bool is_hash = files.size() == 64 && files.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (!files.empty() && (!is_hash || !std::filesystem::exists(options.files / files, ignored))) {
    return refuse({ErrorCode::kNotFound,
                   fmt::format("files_sha256: the head has no archive {}; send it with PutJobFiles first", files)});
  }
  const auto checked = core.check(request, requester, slots.view);
  if (!checked) return refuse(checked.error());
  if (request.validate_only())
    return answer<v1::CreateExperimentReply>(done, core.create(request, requester, {}, slots.view, now_ms()));
  make_token(
      by, fmt::format("experiment {}", checked->config.name),
      [self = weak_from_this(), by, requester, request, katib, slots, done](const Result<Token>& token) {
        auto impl = self.lock();
        if (!impl) return;
        impl->queue<v1::CreateExperimentReply>(
            done, [impl = impl.get(), by, requester, request, katib, slots, done, token] {
              Result<v1::CreateExperimentReply> reply =
                  impl->refusal ? make_error(*impl->refusal)
                  : !token      ? make_error(token.error())
                                : impl->core.create(request, requester, *token, slots.view, impl->now_ms(), katib);
              head::AuditRequest asked{.by = by.token_id, .action = "create_experiment", .object = {}};
              if (!reply) {
                if (token) impl->jobs.revoke(token->first);
              } else {
                v1::ExperimentInfo& made = *reply->mutable_experiment();
                made = impl->named(made);
                asked.object = fmt::format("{} {}", made.id(), made.name());
                const std::string& local = impl->options.local_storage;
                if (!local.empty() && slots.machines > 1 && made.storage().starts_with(local)) {
                  reply->add_warnings(fmt::format(
                      "checkpoint_storage: checkpoints go to {} on each machine, and the nodes are on {} machines: a "
                      "trial that moves to another machine starts anew. Name storage that all of them reach in the "
                      "configuration, or start the head with --experiments-checkpoint-storage",
                      local, slots.machines));
                }
              }
              impl->answer<v1::CreateExperimentReply>(done, std::move(reply), std::move(asked));
            });
      });
}

Result<v1::GetExperimentFilesReply> ExperimentServer::Impl::get_files(const v1::GetExperimentFilesRequest& request,
                                                                      const ExperimentRequester& by) const {
  const auto experiment = core.get(request.id(), by);
  if (!experiment) return make_error(experiment.error());
  if (experiment->files_sha256().empty())
    return make_error(ErrorCode::kNotFound, fmt::format("experiment {} was created without code", request.id()));
  const std::filesystem::path path = options.files / experiment->files_sha256();
  std::error_code failed;
  const auto size = static_cast<int64_t>(std::filesystem::file_size(path, failed));
  if (failed) {
    return make_error(
        ErrorCode::kNotFound,
        fmt::format("the head has lost the archive of the code of experiment {}: {}", request.id(), failed.message()));
  }
  if (request.offset() < 0 || request.offset() > size) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("offset: expected 0 to {}, got {}", size, request.offset()));
  }
  v1::GetExperimentFilesReply reply;
  reply.set_size_bytes(size);
  std::string& data = *reply.mutable_data();
  data.resize(static_cast<size_t>(std::min<int64_t>(kFilesPieceBytes, size - request.offset())));
  std::ifstream in(path, std::ios::binary);
  in.seekg(request.offset());
  in.read(data.data(), static_cast<std::streamsize>(data.size()));
  if (in.gcount() != static_cast<std::streamsize>(data.size()))
    return make_error(ErrorCode::kUnavailable, "the archive of the code cannot be read; ask again");
  return reply;
}

Result<v1::GetMetricsReply> ExperimentServer::Impl::get_metrics(const v1::GetMetricsRequest& request,
                                                                const ExperimentRequester& by) const {
  if (static_cast<size_t>(request.trials_size()) > kMetricTrialsMax) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("trials: {} were asked for; at most {} at once",
                                                               request.trials_size(), kMetricTrialsMax));
  }
  for (const int64_t trial : request.trials()) {
    if (const auto shown = core.trial(trial, by); !shown) return make_error(shown.error());
  }
  return metrics->query(request, [this](int64_t trial) { return core.experiment_of(trial); });
}

void ExperimentServer::Impl::serve_users() {
  using v1::ExperimentInfo;
  using v1::TrialInfo;
  registry.serve<v1::CreateExperimentRequest, v1::CreateExperimentReply>(
      "Experiments/CreateExperiment",
      [this](const Principal& by, const v1::CreateExperimentRequest& request, Done<v1::CreateExperimentReply> done) {
        create(by, request, {}, std::move(done));
      });
  serve<v1::PreviewSearchRequest, v1::PreviewSearchReply>(
      "Experiments/PreviewSearch",
      [this](const Principal&, const v1::PreviewSearchRequest& request) { return core.preview(request); });
  const auto in_words = [this](Result<ExperimentInfo> found) -> Result<ExperimentInfo> {
    if (!found) return found;
    return named(std::move(*found));
  };
  serve<v1::GetExperimentRequest, ExperimentInfo>(
      "Experiments/GetExperiment", [this, in_words](const Principal& by, const v1::GetExperimentRequest& request) {
        return in_words(core.get(request.id(), requester_from(by)));
      });
  serve<v1::ListExperimentsRequest, v1::ListExperimentsReply>(
      "Experiments/ListExperiments", [this](const Principal& by, const v1::ListExperimentsRequest& request) {
        v1::ListExperimentsReply reply = core.list(request, requester_from(by));
        for (ExperimentInfo& one : *reply.mutable_experiments()) one.set_run(run_name_of(one));
        return Result<v1::ListExperimentsReply>(std::move(reply));
      });
  serve<v1::ChangeExperimentRequest, ExperimentInfo>(
      "Experiments/ChangeExperiment",
      [this, in_words](const Principal& by, const v1::ChangeExperimentRequest& request) {
        return in_words(core.change(request, requester_from(by), now_ms()));
      });
  serve<v1::EditExperimentRequest, ExperimentInfo>(
      "Experiments/EditExperiment", [this, in_words](const Principal& by, const v1::EditExperimentRequest& request) {
        return in_words(core.edit(request, requester_from(by), now_ms()));
      });
  serve<v1::GetTrialInfoRequest, TrialInfo>("Experiments/GetTrialInfo",
                                            [this](const Principal& by, const v1::GetTrialInfoRequest& request) {
                                              return core.trial(request.id(), requester_from(by));
                                            });
  serve<v1::ListTrialInfosRequest, v1::ListTrialInfosReply>(
      "Experiments/ListTrialInfos", [this](const Principal& by, const v1::ListTrialInfosRequest& request) {
        return core.trials(request, requester_from(by));
      });
  serve<v1::KillTrialRequest, TrialInfo>("Experiments/KillTrial",
                                         [this](const Principal& by, const v1::KillTrialRequest& request) {
                                           return core.kill_trial(request.id(), requester_from(by), now_ms());
                                         });
  serve<v1::GetCheckpointRequest, v1::CheckpointInfo>(
      "Experiments/GetCheckpoint", [this](const Principal& by, const v1::GetCheckpointRequest& request) {
        return core.checkpoint(request.id(), requester_from(by));
      });
  serve<v1::ListCheckpointsRequest, v1::ListCheckpointsReply>(
      "Experiments/ListCheckpoints", [this](const Principal& by, const v1::ListCheckpointsRequest& request) {
        return core.checkpoints(request, requester_from(by));
      });
  serve<v1::DeleteCheckpointsRequest, v1::DeleteCheckpointsReply>(
      "Experiments/DeleteCheckpoints",
      [this](const Principal& by, const v1::DeleteCheckpointsRequest& request) -> Result<v1::DeleteCheckpointsReply> {
        VOLADOR_TRY(core.delete_checkpoints(request, requester_from(by)));
        return v1::DeleteCheckpointsReply();
      });
  serve<v1::GetExperimentFilesRequest, v1::GetExperimentFilesReply>(
      "Experiments/GetExperimentFiles", [this](const Principal& by, const v1::GetExperimentFilesRequest& request) {
        return get_files(request, requester_from(by));
      });
  serve<v1::GetMetricsRequest, v1::GetMetricsReply>("Experiments/GetMetrics",
                                                    [this](const Principal& by, const v1::GetMetricsRequest& request) {
                                                      return get_metrics(request, requester_from(by));
                                                    });
  serve_wait<v1::GetSearcherEventsRequest, v1::GetSearcherEventsReply>(
      "Experiments/GetSearcherEvents",
      [](const v1::GetSearcherEventsRequest& request) {
        return LongPolls::Key{.is_trial = false, .id = request.experiment()};
      },
      [this](const ExperimentRequester& by, const v1::GetSearcherEventsRequest& request) {
        return core.searcher_events(request.experiment(), by);
      });
  serve<v1::PostSearcherOperationsRequest, v1::PostSearcherOperationsReply>(
      "Experiments/PostSearcherOperations",
      [this](const Principal& by,
             const v1::PostSearcherOperationsRequest& request) -> Result<v1::PostSearcherOperationsReply> {
        VOLADOR_TRY(core.searcher_operations(request, requester_from(by), now_ms()));
        return v1::PostSearcherOperationsReply();
      });
}

void ExperimentServer::Impl::serve_trials() {
  serve<v1::StartTrialRunRequest, v1::StartTrialRunReply>(
      "Experiments/StartTrialRun",
      [this](const Principal& by, const v1::StartTrialRunRequest& request) -> Result<v1::StartTrialRunReply> {
        // The programs of a run that knows no page ask the head's own port, which has no HTTP API, for ever.
        if (const std::lock_guard lock(mutex); options.has_page && page.empty())
          return make_error(ErrorCode::kUnavailable, "the head is starting: its dashboard is not open yet");
        auto reply = core.start_run(request, requester_from(by), now_ms());
        if (!reply) return reply;
        (*reply->mutable_env())["DET_CLUSTER_ID"] = options.cluster_id;
        const std::lock_guard lock(mutex);
        if (!page.empty()) (*reply->mutable_env())["DET_MASTER"] = page;
        if (!page_authority.empty()) (*reply->mutable_env())[experiments::kMasterAuthority] = page_authority;
        return reply;
      });
  serve_wait<v1::GetTrialOperationRequest, v1::GetTrialOperationReply>(
      "Experiments/GetTrialOperation",
      [](const v1::GetTrialOperationRequest& request) {
        return LongPolls::Key{.is_trial = true, .id = request.trial()};
      },
      [this](const ExperimentRequester& by, const v1::GetTrialOperationRequest& request) {
        return core.operation(request.trial(), request.run(), by);
      });
  serve_wait<v1::WaitPreemptionRequest, v1::WaitPreemptionReply>(
      "Experiments/WaitPreemption",
      [](const v1::WaitPreemptionRequest& request) { return LongPolls::Key{.is_trial = true, .id = request.trial()}; },
      [this](const ExperimentRequester& by,
             const v1::WaitPreemptionRequest& request) -> Result<std::optional<v1::WaitPreemptionReply>> {
        const auto preempt = core.should_preempt(request.trial(), request.run(), by);
        if (!preempt) return make_error(preempt.error());
        if (!*preempt) return std::nullopt;
        v1::WaitPreemptionReply reply;
        reply.set_preempt(true);
        return reply;
      });
  // Calls without a reply of their own.
  const auto serve_report = [this]<class Request, class Reply>(std::string_view name, Reply, auto method) {
    serve<Request, Reply>(name, [method](const Principal& by, const Request& request) -> Result<Reply> {
      VOLADOR_TRY(method(request, requester_from(by)));
      return Reply();
    });
  };
  serve_report.template operator()<v1::CompleteTrialOperationRequest>(
      "Experiments/CompleteTrialOperation", v1::CompleteTrialOperationReply(),
      [this](const auto& request, const ExperimentRequester& by) { return core.complete(request, by, now_ms()); });
  serve<v1::ReportMetricsRequest, v1::ReportMetricsReply>(
      "Experiments/ReportMetrics", [this](const Principal& by, const v1::ReportMetricsRequest& request) {
        return core.report_metrics(request, requester_from(by), now_ms());
      });
  serve_report.template operator()<v1::ReportProgressRequest>(
      "Experiments/ReportProgress", v1::ReportProgressReply(),
      [this](const auto& request, const ExperimentRequester& by) {
        return core.report_progress(request, by, now_ms());
      });
  serve_report.template operator()<v1::ReportTrialExitRequest>(
      "Experiments/ReportTrialExit", v1::ReportTrialExitReply(),
      [this](const auto& request, const ExperimentRequester& by) { return core.report_exit(request, by, now_ms()); });
  serve_report.template operator()<v1::ReportCheckpointRequest>(
      "Experiments/ReportCheckpoint", v1::ReportCheckpointReply(),
      [this](const auto& request, const ExperimentRequester& by) {
        return core.report_checkpoint(request, by, now_ms());
      });
  serve_report.template operator()<v1::AcknowledgePreemptionRequest>(
      "Experiments/AcknowledgePreemption", v1::AcknowledgePreemptionReply(),
      [this](const auto& request, const ExperimentRequester& by) {
        return core.acknowledge_preemption(request.trial(), request.run(), by, now_ms());
      });
  serve<v1::GetGarbageRequest, v1::GetGarbageReply>("Experiments/GetGarbage",
                                                    [this](const Principal& by, const v1::GetGarbageRequest& request) {
                                                      return core.garbage(request.experiment(), requester_from(by));
                                                    });
  serve_report.template operator()<v1::ReportGarbageRequest>(
      "Experiments/ReportGarbage", v1::ReportGarbageReply(),
      [this](const auto& request, const ExperimentRequester& by) {
        return core.garbage_collected(request, by, now_ms());
      });
}

// ---- rows in the head's list of experiments ----

// Opens a connection to the head as the program that shows the experiments.
void ExperimentServer::Impl::connect() {
  if (session || (connect_after && clock.now() < *connect_after)) return;
  connect_after = clock.now() + kConnectAgainAfter;
  session = head.runner().open_client(std::make_shared<Outbox>(weak_from_this(), ++connection), principal_of_cluster());
  protocol::ClientMessage message;
  protocol::Hello& hello = *message.mutable_hello();
  hello.set_protocol_version(control::kProtocolVersion);
  hello.set_version(std::string(kVersion));
  hello.set_driver_id(raw(driver));
  hello.set_name("experiments");
  hello.set_pid(::getpid());
  hello.set_machine_id(machine_id().value_or(""));
  head.runner().on_client_message(*session, std::move(message), [] {});
}

void ExperimentServer::Impl::on_lost(uint64_t number) {
  if (number != connection) return;
  session.reset();
  welcome = false;
}

void ExperimentServer::Impl::on_message(uint64_t number, const protocol::HeadMessage& message) {
  if (number != connection || !session) return;
  for (const std::string& part : message.batch()) {
    protocol::HeadMessage one;
    if (one.ParseFromString(part)) on_message(number, one);
  }
  if (message.has_refused()) {
    log::error("experiments", "the head refuses the rows of experiments", {{"why", message.refused().message()}});
    return on_lost(number);
  }
  if (message.has_welcome()) {
    welcome = true;
    show_all();
  }
  if (message.has_request()) on_request(message.request());
}

// A request from the page or `volador stop`, which the head has checked and recorded.
void ExperimentServer::Impl::on_request(const protocol::ExperimentRequest& request) {
  const auto id = experiment_of_run(request.experiment());
  if (!id) return;
  const auto refused = [&](const std::string& why) {
    head.runner().tell([why, what = request.experiment(), act = request.act()](head::HeadCore& head_core) {
      head_core.context().event(log::Level::kWarn, "a request for an experiment had no effect",
                                {{"experiment", what}, {"act", act}, {"why", why}});
    });
  };
  if (!request.trial().empty()) {
    const auto trial = trial_of_row(request.trial());
    if (!trial || request.act() != "stop") return refused("a trial of it can only be stopped");
    if (const auto killed = core.kill_trial(*trial, head_itself(), now_ms()); !killed) refused(killed.error().message);
    return;
  }
  const std::string& act = request.act();
  v1::ChangeExperimentRequest change;
  change.set_id(*id);
  change.set_command(act == "stop" ? "cancel" : act == "pause" ? "pause" : act == "resume" ? "activate" : "");
  if (change.command().empty()) return refused("its search decides on its trials");
  if (const auto changed_now = core.change(change, head_itself(), now_ms()); !changed_now)
    refused(changed_now.error().message);
}

void ExperimentServer::Impl::seen(const v1::Job& job) {
  const auto of = trial_run_of(job.spec().trial());
  if (!of) return;
  TrialPlace& place = places[of->trial];
  if (of->run < place.run) return;
  TrialPlace now = place_of(job, of->run);
  if (now.actor.empty() && now.run == place.run) {  // A job that is queued again keeps the logs of its last attempt.
    now.actor = place.actor;
    now.node = place.node;
  }
  place = std::move(now);
  if (const auto experiment = core.experiment_of(of->trial)) changed[*experiment].insert(of->trial);
}

// After a new connection: open experiments, and those that ended lately, since the head may have missed it.
void ExperimentServer::Impl::show_all() {
  v1::ListExperimentsRequest request;
  request.set_archived(true);
  request.set_limit(10'000);
  const v1::ListExperimentsReply all = core.list(request, head_itself());
  for (const v1::ExperimentInfo& one : all.experiments()) {
    if (is_open_state(one.state()) || one.ended_ms() + kShownAfterEndMs > now_ms()) show(one.id(), nullptr);
  }
}

void ExperimentServer::Impl::show_changes() {
  if (changed.empty()) return;
  rows_after = clock.now() + kRowsEvery;
  for (const auto& [experiment, trials] : std::exchange(changed, {})) show(experiment, &trials);
}

// `trials`: null: all.
void ExperimentServer::Impl::show(int64_t experiment, const std::set<int64_t>* trials) {
  const auto info = core.get(experiment, head_itself());
  if (!info) return;
  any_shown = true;
  if (!planned.contains(experiment)) planned[experiment] = planned_trials(info->config());
  protocol::ExperimentUpdate update = experiment_update(*info, planned.at(experiment));
  if (update.state().empty()) return;  // It is being deleted: shown as it ended.
  if (info->best_trial() != 0 && info->has_best_metric()) {
    const std::pair best(info->best_trial(), info->best_metric());
    const auto known = bests.find(experiment);
    if (trials == nullptr || known == bests.end() || known->second != best) {
      if (const auto trial = core.trial(best.first, head_itself())) {
        *update.mutable_best() = best_trial(*trial, best.second);
        *update.mutable_best_so_far() = update.best();
        bests[experiment] = best;
      }
    }
  }
  fill(update, outlook_of(*info));
  const auto add = [&](const v1::TrialInfo& trial) {
    const auto place = places.find(trial.id());
    const bool has_ended = trial.ended_ms() != 0;
    protocol::TrialRow& row = *update.add_trials();
    row = trial_row(trial, place == places.end() ? nullptr : &place->second);
    if (const auto found = points.find(trial.id()); found != points.end()) {
      for (protocol::TrialPoint& point : found->second.take(has_ended)) *row.add_points() = std::move(point);
      if (has_ended) points.erase(found);
    }
    if (update.trials_size() < kRowsAMessage) return;
    send(update);
    update.clear_trials();
  };
  if (trials != nullptr) {
    for (const int64_t id : *trials) {
      if (const auto trial = core.trial(id, head_itself())) add(*trial);
    }
  } else {
    v1::ListTrialInfosRequest request;
    request.set_experiment(experiment);
    request.set_limit(kRowsAMessage);
    while (true) {
      const auto some = core.trials(request, head_itself());
      if (!some || some->trials().empty()) break;
      for (const v1::TrialInfo& trial : some->trials()) add(trial);
      request.set_after(some->trials(some->trials_size() - 1).id());
    }
  }
  send(std::move(update));
}

// Estimated anew at most every kOutlookEvery, and in a small share of the time of this thread.
const experiments::SearchOutlook& ExperimentServer::Impl::outlook_of(const v1::ExperimentInfo& experiment) {
  auto& [outlook, after] = outlooks[experiment.id()];
  const BootTime begin = clock.now();
  if (begin < after && is_open_state(experiment.state())) return outlook;
  outlook = core.outlook(experiment.id(), now_ms());
  const BootTime end = clock.now();
  after = end + std::max<std::chrono::nanoseconds>(kOutlookEvery, (end - begin) * kOutlookShare);
  return outlook;
}

void ExperimentServer::Impl::send(protocol::ExperimentUpdate update) {
  if (!session) return;
  protocol::ClientMessage message;
  *message.mutable_experiment() = std::move(update);
  head.runner().on_client_message(*session, std::move(message), [] {});
}

// ---- the server ----

ExperimentServer::ExperimentServer(std::unique_ptr<head::Journal> journal, head::HeadAccess& head,
                                   operations::Registry& registry, ExperimentServerOptions options, const Clock& clock)
    : impl_(std::make_shared<Impl>(std::move(journal), head, registry, std::move(options), clock)) {
  impl_->thread = std::thread([impl = impl_.get()] { impl->run(); });
}

ExperimentServer::~ExperimentServer() { stop(); }

void ExperimentServer::stop() {
  std::deque<std::function<void()>> dropped;
  {
    const std::lock_guard lock(impl_->mutex);
    if (impl_->stopped) return;
    impl_->stopped = true;
    dropped.swap(impl_->requests);
  }
  impl_->wake.notify_all();
  if (impl_->thread.joinable()) impl_->thread.join();
}

void ExperimentServer::set_page(std::string url, std::string authority_pem) {
  const std::lock_guard lock(impl_->mutex);
  impl_->page = std::move(url);
  impl_->page_authority = std::move(authority_pem);
}

void ExperimentServer::wait_until_read() {
  std::unique_lock lock(impl_->mutex);
  impl_->wake.wait(lock, [this] { return impl_->was_read; });
}

void ExperimentServer::serve() {
  impl_->serve_users();
  impl_->serve_trials();
  impl_->serve_models();
  impl_->serve_boards();
}

void ExperimentServer::on_job(const v1::Job& job) {
  impl_->post([impl = impl_.get(), job] { impl->jobs.on_job(job); });
}

bool ExperimentServer::needs_files(const std::string& sha256) const {
  const std::lock_guard lock(impl_->mutex);
  return !impl_->loaded || std::any_of(impl_->kept.begin(), impl_->kept.end(),
                                       [&](const auto& one) { return one.second.files == sha256; });
}

bool ExperimentServer::is_of_trials(std::string_view token_id) const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->tokens.contains(token_id);
}

}  // namespace volador
