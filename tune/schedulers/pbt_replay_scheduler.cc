#include "tune/schedulers/pbt_replay_scheduler.h"

#include <fmt/format.h>

#include <unordered_map>

#include "runtime/files/durable_file.h"
#include "runtime/quantities.h"
#include "tune/snapshot.h"

namespace volador::tune {
namespace {

struct PbtReplayTrial {
  Config config;
  int64_t last_step = 0;
  size_t next = 0;  // Index of the next change.
  Decision decision = Decision::kContinue;
  bool live = true;
};

}  // namespace

struct PbtReplayScheduler::State {
  PbtPolicy policy;
  std::unordered_map<TrialId, PbtReplayTrial> trials;
  std::vector<TrialId> order;
  std::unordered_map<TrialId, Config> configs;  // Configurations of trials that are not added yet.
  std::vector<Order> orders;

  Result<void> read(const Config& state);
};

PbtReplayScheduler::PbtReplayScheduler(PbtPolicy policy) : state_(std::make_unique<State>()) {
  state_->policy = std::move(policy);
}
PbtReplayScheduler::~PbtReplayScheduler() = default;

void PbtReplayScheduler::on_trial_config(TrialId trial, Config& config) {
  if (state_->trials.contains(trial)) return;
  for (const auto& [path, value] : state_->policy.initial.flatten()) config.set(path, value);
  state_->configs[trial] = config;
}

void PbtReplayScheduler::on_trial_add(TrialId trial) {
  const auto [added, fresh] = state_->trials.try_emplace(trial);
  if (!fresh) return;
  added->second.config = state_->policy.initial;
  if (const auto config = state_->configs.extract(trial)) added->second.config = config.mapped();
  state_->order.push_back(trial);
}

Result<Decision> PbtReplayScheduler::on_report(const Report& report) {
  const auto found = state_->trials.find(report.trial);
  if (found == state_->trials.end()) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("pbt_replay: trial {} reported before it was added", to_string(report.trial)));
  }
  if (report.step < 1) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("pbt_replay: trial {} reported step {}, expected at least 1", to_string(report.trial),
                                  report.step));
  }
  PbtReplayTrial& trial = found->second;
  if (!trial.live || report.step <= trial.last_step) return trial.decision;
  trial.last_step = report.step;
  trial.decision = Decision::kContinue;
  const auto& changes = state_->policy.changes;
  if (trial.next == changes.size() || report.step < changes[trial.next].step) return trial.decision;
  while (trial.next < changes.size() && report.step >= changes[trial.next].step) {
    for (const auto& [path, value] : changes[trial.next].config.flatten()) trial.config.set(path, value);
    ++trial.next;
  }
  trial.decision = Decision::kPause;
  state_->orders.push_back(CloneOrder{report.trial, report.trial, trial.config});
  return trial.decision;
}

void PbtReplayScheduler::on_complete(TrialId trial) {
  const auto found = state_->trials.find(trial);
  if (found == state_->trials.end()) return;
  found->second.live = false;
  std::erase_if(state_->orders, [&](const Order& order) { return std::get<CloneOrder>(order).trial == trial; });
}

std::vector<Order> PbtReplayScheduler::take_orders() { return std::exchange(state_->orders, {}); }

std::string PbtReplayScheduler::describe() const {
  return fmt::format("PBT replay of {}", counted(state_->policy.changes.size(), "change"));
}

std::string PbtReplayScheduler::snapshot() const {
  Config trials = Config::list({});
  for (const TrialId id : state_->order) {
    const PbtReplayTrial& trial = state_->trials.at(id);
    trials.push_back({{"id", to_string(id)},
                      {"config", trial.config},
                      {"last_step", trial.last_step},
                      {"next", trial.next},
                      {"decision", static_cast<int>(trial.decision)},
                      {"live", trial.live}});
  }
  return Config{{"version", 1}, {"trials", trials}}.to_json();
}

Result<void> PbtReplayScheduler::State::read(const Config& state) {
  const auto refuse = [](std::string_view what) { return snapshot_does_not_fit("pbt_replay", what); };
  const Config all = state["trials"];
  for (const Config& entry : all.items()) {
    auto id = TrialId::parse(entry.text("id"));
    if (!id) return make_error(id.error());
    const int64_t decision = entry.integer("decision");
    const int64_t next = entry.integer("next");
    if (decision != static_cast<int64_t>(Decision::kContinue) && decision != static_cast<int64_t>(Decision::kPause))
      return refuse("unknown decision");
    if (next < 0 || next > static_cast<int64_t>(policy.changes.size()))
      return refuse("more changes than the policy has");
    const Config config = entry["config"];
    if (!config.is_map()) return refuse("a configuration is no object");
    PbtReplayTrial trial{config, entry.integer("last_step"), static_cast<size_t>(next), static_cast<Decision>(decision),
                         entry.boolean("live")};
    if (!trials.emplace(*id, std::move(trial)).second) return refuse("a trial stands in it twice");
    order.push_back(*id);
  }
  return {};
}

Result<void> PbtReplayScheduler::restore(std::string_view snapshot) {
  auto fresh = std::make_unique<State>();
  fresh->policy = state_->policy;
  VOLADOR_TRY(read_snapshot("pbt_replay", snapshot, [&fresh](const Config& state) { return fresh->read(state); }));
  state_ = std::move(fresh);
  return {};
}

void PbtReplayScheduler::check_invariants() const {
  VOLADOR_CHECK(state_->order.size() == state_->trials.size());
  for (const TrialId id : state_->order)
    VOLADOR_CHECK(state_->trials.at(id).next <= state_->policy.changes.size(), to_string(id));
}

SchedulerFactory pbt_replay(const std::filesystem::path& policy) {
  return [policy](const SchedulerContext&) -> Result<std::unique_ptr<Scheduler>> {
    const auto text = read_file(policy, SIZE_MAX);
    if (!text) return make_error(text.error());
    auto parsed = parse_pbt_policy(*text);
    if (!parsed) {
      Error error = parsed.error();
      error.message = fmt::format("{}: {}", policy.string(), error.message);
      return make_error(std::move(error));
    }
    return std::unique_ptr<Scheduler>(std::make_unique<PbtReplayScheduler>(std::move(*parsed)));
  };
}

}  // namespace volador::tune
