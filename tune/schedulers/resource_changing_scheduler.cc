#include "tune/schedulers/resource_changing_scheduler.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "runtime/quantities.h"
#include "tune/schedulers/fifo_scheduler.h"
#include "tune/snapshot.h"
#include "tune/space/config.h"

namespace volador::tune {
namespace {

constexpr double kBeforeNewTrials = -1;  // The priority of new trials is 0.

Config config_of(const ResourceSet& set) {
  Config amounts = Config::list({});
  for (const auto& [name, amount] : set.entries()) amounts.push_back(Config::list({name, amount}));
  return amounts;
}

ResourceSet resources_from(const Config& amounts) {
  ResourceSet set;
  for (const Config& entry : amounts.items()) set.set(entry[0].text(), entry[1].integer());
  return set;
}

}  // namespace

struct ResourceChangingScheduler::State {
  struct Standing {
    int64_t step = 0;  // Step of its last report.
    Decision decision = Decision::kContinue;
    bool paused = false;  // Paused by the base scheduler: it holds no resources.
    bool fixed = false;   // No node had room for more.
  };

  State(std::unique_ptr<Scheduler> base_in, ResourceAllocation allocation_in, const SchedulerContext& context_in)
      : base(std::move(base_in)), allocation(std::move(allocation_in)), context(context_in) {}

  const std::unique_ptr<Scheduler> base;
  const ResourceAllocation allocation;
  const SchedulerContext context;
  ResourceSet total;  // Empty: unknown.
  ResourceSet used;
  std::map<TrialId, AllocationQuery::Live> live;
  std::map<TrialId, Standing> standing;  // All trials.
  std::vector<Order> orders;
  std::vector<DecisionRecord> decisions;

  void hold(TrialId trial, bool holds) {
    const auto found = live.find(trial);
    Standing& one = standing.at(trial);
    if (found == live.end() || one.paused == !holds) return;
    one.paused = !holds;
    if (holds)
      used += found->second.resources;
    else
      used -= found->second.resources;
  }

  void leave(TrialId trial) {
    const auto found = live.find(trial);
    if (found == live.end()) return;
    if (!standing.at(trial).paused) used -= found->second.resources;
    live.erase(found);
  }

  void give(TrialId trial, const ResourceSet& resources) {
    AllocationQuery::Live& one = live.at(trial);
    if (!standing.at(trial).paused) {
      used -= one.resources;
      used += resources;
    }
    one.resources = resources;
  }

  // Returns the new resources; no value: unchanged.
  Result<std::optional<ResourceSet>> asked(const Report& report) {
    if (total.empty() || standing.at(report.trial).fixed) return std::optional<ResourceSet>();
    std::optional<Resources> wanted;
    try {
      wanted = allocation({report, live, used, context.resources, total, context.mode});
    } catch (const std::exception& error) {
      return make_error(ErrorCode::kApplication, fmt::format("resources_allocation_function threw for trial {}: {}",
                                                             to_string(report.trial), error.what()));
    }
    if (!wanted) return std::optional<ResourceSet>();
    auto set = ResourceSet::from(*wanted);
    if (!set) {
      return make_error(ErrorCode::kApplication,
                        fmt::format("resources_allocation_function gave trial {} what cannot be: {}",
                                    to_string(report.trial), set.error().message));
    }
    if (*set == live.at(report.trial).resources) return std::optional<ResourceSet>();
    return std::optional(std::move(*set));
  }

  void change(const Report& report, ResourceSet resources) {
    decisions.push_back(
        {.trial = report.trial,
         .step = report.step,
         .act = Act::kResized,
         .rule = "resources",
         .value = report.value,
         .detail = reason("decision.resized", resources, live.at(report.trial).resources, live.size(), total)});
    give(report.trial, resources);
    orders.push_back(ResourcesOrder{report.trial, std::move(resources)});
    orders.push_back(ResumeOrder{.trial = report.trial, .priority = kBeforeNewTrials, .yields = true});
  }
};

ResourceChangingScheduler::ResourceChangingScheduler(std::unique_ptr<State> state) : state_(std::move(state)) {}
ResourceChangingScheduler::~ResourceChangingScheduler() = default;

Result<std::unique_ptr<ResourceChangingScheduler>> ResourceChangingScheduler::create(
    const ResourceChangingOptions& options, const SchedulerContext& context) {
  auto base = options.base_scheduler ? options.base_scheduler(context) : fifo()(context);
  if (!base) return make_error(base.error());
  ResourceAllocation allocation =
      options.resources_allocation_function ? options.resources_allocation_function : distribute_resources();
  return std::unique_ptr<ResourceChangingScheduler>(
      new ResourceChangingScheduler(std::make_unique<State>(std::move(*base), std::move(allocation), context)));
}

void ResourceChangingScheduler::on_trial_config(TrialId trial, Config& config) {
  state_->base->on_trial_config(trial, config);
}

void ResourceChangingScheduler::on_trial_add(TrialId trial) {
  state_->base->on_trial_add(trial);
  if (!state_->standing.try_emplace(trial).second) return;
  state_->live[trial] = {state_->context.resources, std::numeric_limits<double>::quiet_NaN()};
  state_->used += state_->context.resources;
}

Result<Decision> ResourceChangingScheduler::on_report(const Report& report) {
  auto decision = state_->base->on_report(report);
  const auto found = state_->standing.find(report.trial);
  const auto live = state_->live.find(report.trial);
  if (!decision || found == state_->standing.end()) return decision;
  State::Standing& standing = found->second;
  const bool goes_on = *decision == Decision::kContinue || *decision == Decision::kCheckpoint;
  if (report.step <= standing.step)
    return goes_on && standing.decision == Decision::kPause ? Decision::kPause : *decision;
  standing.step = report.step;
  standing.decision = *decision;
  if (live == state_->live.end()) return decision;
  live->second.value = report.value;
  if (*decision == Decision::kPause) state_->hold(report.trial, false);
  if (!goes_on) return decision;
  state_->hold(report.trial, true);
  auto resources = state_->asked(report);
  if (!resources) return make_error(resources.error());
  if (!*resources) return decision;
  state_->change(report, std::move(**resources));
  return standing.decision = Decision::kPause;
}

void ResourceChangingScheduler::on_complete(TrialId trial) {
  state_->base->on_complete(trial);
  state_->leave(trial);
  std::erase_if(state_->orders, [trial](const Order& order) {
    return std::visit([](const auto& one) { return one.trial; }, order) == trial;
  });
}
void ResourceChangingScheduler::on_checkpoint(TrialId trial, int64_t step) { state_->base->on_checkpoint(trial, step); }
void ResourceChangingScheduler::on_cloned(const CloneOrder& order, int64_t step) {
  state_->base->on_cloned(order, step);
  const auto found = state_->standing.find(order.trial);
  if (found != state_->standing.end()) found->second.step = step;
}
void ResourceChangingScheduler::on_no_more_trials() { state_->base->on_no_more_trials(); }
void ResourceChangingScheduler::on_cluster(const ResourceSet& total) {
  state_->base->on_cluster(total);
  state_->total = total;
}

void ResourceChangingScheduler::on_resources_refused(TrialId trial) {
  if (!state_->live.contains(trial)) return;
  state_->give(trial, state_->context.resources);
  state_->standing.at(trial).fixed = true;
}

std::vector<Order> ResourceChangingScheduler::take_orders() {
  std::vector<Order> orders = std::exchange(state_->orders, {});
  const size_t own = orders.size();
  for (Order& order : state_->base->take_orders()) {
    const TrialId trial = std::visit([](const auto& one) { return one.trial; }, order);
    const bool goes_on = std::holds_alternative<ResumeOrder>(order) || std::holds_alternative<CloneOrder>(order);
    if (goes_on && state_->standing.contains(trial)) state_->hold(trial, true);
    // A trial that the base scheduler resumes at once continues with other resources: its pause stands.
    const bool resized =
        std::any_of(orders.begin(), orders.begin() + static_cast<std::ptrdiff_t>(own), [&](const Order& one) {
          const auto* resources = std::get_if<ResourcesOrder>(&one);
          return resources != nullptr && resources->trial == trial;
        });
    if (!resized || !std::holds_alternative<ResumeOrder>(order)) orders.push_back(std::move(order));
  }
  return orders;
}

std::vector<DecisionRecord> ResourceChangingScheduler::take_decisions() {
  std::vector<DecisionRecord> decisions = state_->base->take_decisions();
  for (DecisionRecord& own : std::exchange(state_->decisions, {})) decisions.push_back(std::move(own));
  return decisions;
}

std::vector<RungState> ResourceChangingScheduler::rungs(size_t members_max) const {
  return state_->base->rungs(members_max);
}
bool ResourceChangingScheduler::clones() const { return state_->base->clones(); }
bool ResourceChangingScheduler::needs_metric() const { return state_->base->needs_metric(); }
std::string ResourceChangingScheduler::describe() const { return state_->base->describe() + ", resources change"; }

std::string ResourceChangingScheduler::snapshot() const {
  Config trials = Config::list({});
  for (const auto& [trial, one] : state_->standing) {
    const auto live = state_->live.find(trial);
    Config entry{{"trial", static_cast<int64_t>(trial.value())},
                 {"step", one.step},
                 {"decision", static_cast<int64_t>(one.decision)},
                 {"paused", one.paused},
                 {"fixed", one.fixed}};
    if (live != state_->live.end()) {
      entry.set("resources", config_of(live->second.resources));
      entry.set("value", live->second.value);
    }
    trials.push_back(std::move(entry));
  }
  return Config({{"version", 1},
                 {"base", state_->base->snapshot()},
                 {"total", config_of(state_->total)},
                 {"trials", std::move(trials)}})
      .to_json();
}

Result<void> ResourceChangingScheduler::restore(std::string_view snapshot) {
  return read_snapshot(describe(), snapshot, [this](const Config& state) -> Result<void> {
    std::map<TrialId, State::Standing> standing;
    std::map<TrialId, AllocationQuery::Live> live;
    ResourceSet used;
    const Config trials = state["trials"];
    for (const Config& entry : trials.items()) {
      const TrialId trial(static_cast<uint32_t>(entry.integer("trial")));
      const int64_t decision = entry.integer("decision");
      if (decision < 0 || decision > static_cast<int64_t>(Decision::kClone))
        return snapshot_does_not_fit(describe(), "a decision that there is not");
      const State::Standing one{entry.integer("step"), static_cast<Decision>(decision), entry.boolean("paused"),
                                entry.boolean("fixed")};
      if (!standing.emplace(trial, one).second) return snapshot_does_not_fit(describe(), "a trial twice");
      if (entry.find("resources") == nullptr) continue;
      const ResourceSet resources = resources_from(entry["resources"]);
      if (!one.paused) used += resources;
      live[trial] = {resources, entry.real("value")};
    }
    const ResourceSet total = resources_from(state["total"]);
    if (auto base = state_->base->restore(state.text("base")); !base) return base;
    state_->standing = std::move(standing);
    state_->live = std::move(live);
    state_->used = used;
    state_->total = total;
    return {};
  });
}

void ResourceChangingScheduler::check_invariants() const {
  state_->base->check_invariants();
  ResourceSet used;
  for (const auto& [trial, one] : state_->live) {
    VOLADOR_CHECK(state_->standing.contains(trial), to_string(trial));
    if (!state_->standing.at(trial).paused) used += one.resources;
  }
  VOLADOR_CHECK(used == state_->used, to_string(used) + " against " + to_string(state_->used));
}

SchedulerFactory resource_changing(const ResourceChangingOptions& options) {
  return [options](const SchedulerContext& context) -> Result<std::unique_ptr<Scheduler>> {
    auto made = ResourceChangingScheduler::create(options, context);
    if (!made) return make_error(made.error());
    return std::unique_ptr<Scheduler>(std::move(*made));
  };
}

}  // namespace volador::tune
