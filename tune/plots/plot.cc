#include "tune/plots/plot.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <unordered_map>

#include "runtime/files/durable_file.h"
#include "runtime/nearest_word.h"
#include "runtime/quantities.h"
#include "tune/plots/curves_plot.h"
#include "tune/plots/fanova.h"
#include "tune/plots/importance_plot.h"
#include "tune/plots/journal_plots.h"
#include "tune/plots/parallel_plot.h"
#include "tune/plots/parameter_columns.h"
#include "tune/plots/pareto_plot.h"
#include "tune/plots/scale.h"
#include "tune/refusal.h"
#include "tune/results/saved_run.h"

namespace volador::tune {
namespace {

constexpr size_t kGroupsMax = 8;
constexpr size_t kNumberGroups = 5;  // Groups of a number with many values.
constexpr size_t kImportanceTrialsMin = 10;
constexpr size_t kPairsShown = 5;
constexpr double kPairShareMin = 0.01;

Unit unit_of(const std::string& metric) {
  if (metric == "training_iteration") return Unit::kCount;
  return metric.ends_with("_s") ? Unit::kSeconds : Unit::kNumber;
}
std::string axis_title(const std::string& metric) {
  return metric == "training_iteration" ? "step (training_iteration)" : metric;
}

class Plotter {
 public:
  Plotter(const Analysis& analysis, const PlotOptions& options)
      : analysis_(analysis), options_(options), mode_(options.mode.value_or(analysis.state().mode)) {
    if (options.size.width < 320 || options.size.height < 240 || options.size.width > 20'000 ||
        options.size.height > 20'000)
      throw_refusal(fmt::format("plot: size must be from 320 × 240 to 20000 × 20000, got {} × {}", options.size.width,
                                options.size.height));
  }

  std::string draw() {
    switch (options_.kind) {
      case PlotKind::kCurves:
        return curves();
      case PlotKind::kParallel:
        return parallel();
      case PlotKind::kImportance:
        return importance();
      case PlotKind::kRungs:
        return rungs();
      case PlotKind::kPareto:
        return pareto();
      case PlotKind::kGantt:
        return gantt();
    }
    throw_refusal("plot: no such kind");
  }

 private:
  const ExperimentState& state() const { return analysis_.state(); }

  std::string about() const {
    return fmt::format("{} · {}{}", state().name, counted(state().trials.size(), "trial"),
                       state().state == "running" ? " · goes on" : "");
  }

  // Returns a metric that trials reported, or any metric if nothing was reported yet.
  std::string checked(const std::string& metric) const {
    if (metric.empty()) throw_refusal("plot: the run has no metric; give one: .metric, --metric=NAME");
    std::set<std::string> reported;
    for (const Trial& trial : state().trials) {
      for (const auto& [name, value] : trial.last_result) reported.insert(name);
      for (const auto& [name, summary] : trial.metrics) reported.insert(name);
    }
    if (reported.empty() || reported.contains(metric)) return metric;
    throw_refusal(fmt::format("plot: no trial reported \"{}\"; reported: {}", metric, fmt::join(reported, ", ")));
  }
  std::string metric() const { return checked(options_.metric.empty() ? state().metric : options_.metric); }
  // Metrics that the loop adds to each result need no check.
  std::string over() const {
    return options_.x == "training_iteration" || options_.x == "time_total_s" ? options_.x : checked(options_.x);
  }
  std::string better_is() const { return mode_ == Mode::kMax ? "more is better" : "less is better"; }

  double value_of(const Trial& trial, const std::string& metric) const {
    const auto found = trial.metrics.find(metric);
    if (found == trial.metrics.end()) return trial.last_result.get(metric).value_or(kNoValue);
    return standing_of(found->second, options_.scope, mode_).value;
  }

  // Returns the space as text from the journal, if there is one.
  std::string space() const {
    const auto journal = load_journal(analysis_.directory());
    return journal ? journal->header.space : "";
  }
  JournalContents journal() const {
    auto journal = load_journal(analysis_.directory());
    if (!journal) throw Exception(std::move(journal).error());
    return std::move(*journal);
  }

  std::vector<const Trial*> all_trials() const {
    std::vector<const Trial*> trials;
    for (const Trial& trial : state().trials) trials.push_back(&trial);
    return trials;
  }

  static std::string tip_of(const Trial& trial) {
    return fmt::format("{} ({}) {}", to_string(trial.id), to_string(trial.status), trial.config.to_json());
  }

  // ---- Curves.

  std::string curves() {
    const std::string name = metric(), x = over();
    CurvesPlot plot{.heading = {fmt::format("{} over {}", name, x == "training_iteration" ? "steps" : x),
                                about() + " · " + better_is()},
                    .x = {axis_title(x), unit_of(x)},
                    .y = {name, unit_of(name)},
                    .log_x = options_.log_x,
                    .log_y = options_.log_y,
                    .mode = mode_,
                    .size = options_.size};
    std::unordered_map<TrialId, size_t> curve_of;
    for (const Analysis::Row& row : analysis_.results()) {
      const auto at = row.result.get(x), value = row.result.get(name);
      if (!at || !value || !std::isfinite(*at)) continue;
      const auto [found, fresh] = curve_of.emplace(row.trial, plot.curves.size());
      if (fresh) plot.curves.push_back({.label = to_string(row.trial)});
      std::vector<PlotPoint>& points = plot.curves[found->second].points;
      // Drop steps that were repeated after a failure.
      while (!points.empty() && points.back().x >= *at) points.pop_back();
      points.push_back({*at, *value});
    }
    for (const Trial& trial : state().trials) {
      if (const auto found = curve_of.find(trial.id); found != curve_of.end())
        plot.curves[found->second].tip = tip_of(trial);
    }
    if (!options_.group_by.empty()) group(plot, curve_of);
    return curves_svg(plot);
  }

  void group(CurvesPlot& plot, const std::unordered_map<TrialId, size_t>& curve_of) {
    const std::vector<const Trial*> trials = all_trials();
    const auto columns = parameter_columns(trials, space());
    const auto column = std::find_if(columns.begin(), columns.end(),
                                     [this](const ParameterColumn& one) { return one.path == options_.group_by; });
    if (column == columns.end()) {
      if (trials.size() < 2) return;  // Nothing can vary yet.
      std::vector<std::string> names;
      for (const ParameterColumn& one : columns) names.push_back(one.path);
      throw_refusal(fmt::format("plot: no parameter \"{}\" varies in this run; those that do: {}", options_.group_by,
                                fmt::join(names, ", ")));
    }
    plot.group_title = column->path;
    const std::vector<size_t> groups =
        column->categories.empty() ? number_groups(plot, *column) : category_groups(plot, *column);
    for (size_t i = 0; i < trials.size(); ++i) {
      if (const auto found = curve_of.find(trials[i]->id); found != curve_of.end())
        plot.curves[found->second].group = groups[i];
    }
  }

  static size_t none_group(CurvesPlot& plot, const ParameterColumn& column) {
    if (std::any_of(column.values.begin(), column.values.end(), [](double value) { return std::isnan(value); }))
      plot.groups.push_back("none");
    return plot.groups.size() - 1;
  }

  static std::vector<size_t> category_groups(CurvesPlot& plot, const ParameterColumn& column) {
    plot.groups = column.categories;
    const bool too_many = plot.groups.size() > kGroupsMax;
    if (too_many) {
      plot.groups.resize(kGroupsMax - 1);
      plot.groups.push_back("others");
    }
    const size_t last = plot.groups.size() - 1;
    const size_t none = none_group(plot, column);
    std::vector<size_t> groups;
    for (const double value : column.values)
      groups.push_back(std::isnan(value) ? none : std::min(static_cast<size_t>(value), last));
    return groups;
  }

  // Returns one group per value, or groups of equal size if there are many values.
  static std::vector<size_t> number_groups(CurvesPlot& plot, const ParameterColumn& column) {
    std::vector<double> values;
    for (const double value : column.values) {
      if (!std::isnan(value)) values.push_back(value);
    }
    std::sort(values.begin(), values.end());
    std::vector<double> distinct = values;
    distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
    std::vector<double> lows;  // Lower bounds of the groups.
    plot.groups_ordered = true;
    if (distinct.size() <= kNumberGroups + 1) {
      lows = distinct;
      for (const double low : lows) plot.groups.push_back(value_text(low));
    } else {
      for (size_t i = 0; i < kNumberGroups; ++i) {
        const size_t begin = values.size() * i / kNumberGroups, end = values.size() * (i + 1) / kNumberGroups;
        if (!lows.empty() && values[begin] <= lows.back()) continue;
        lows.push_back(values[begin]);
        plot.groups.push_back(fmt::format("{} to {}", value_text(values[begin]), value_text(values[end - 1])));
      }
    }
    const size_t none = none_group(plot, column);
    std::vector<size_t> groups;
    for (const double value : column.values) {
      const auto after = std::upper_bound(lows.begin(), lows.end(), value);
      groups.push_back(std::isnan(value) || after == lows.begin() ? none
                                                                  : static_cast<size_t>(after - lows.begin()) - 1);
    }
    return groups;
  }

  // ---- Parameters.

  std::string parallel() {
    const std::string name = metric();
    const std::vector<const Trial*> trials = all_trials();
    const auto columns = parameter_columns(trials, space());
    ParallelPlot plot{.heading = {fmt::format("Parameters and {}", name),
                                  about() + " · " + better_is() + ": strong lines, the best in orange"},
                      .mode = mode_,
                      .size = options_.size};
    for (const ParameterColumn& column : columns) plot.axes.push_back({column.path, column.log, column.categories});
    plot.axes.push_back({name, options_.log_y, {}});
    for (size_t i = 0; i < trials.size(); ++i) {
      ParallelPlot::Line line{.tip = tip_of(*trials[i])};
      for (const ParameterColumn& column : columns) line.values.push_back(column.values[i]);
      line.values.push_back(value_of(*trials[i], name));
      plot.lines.push_back(std::move(line));
    }
    return parallel_svg(plot);
  }

  std::string importance() {
    const std::string name = metric();
    std::vector<const Trial*> trials;
    for (const Trial& trial : state().trials) {
      if (std::isfinite(value_of(trial, name))) trials.push_back(&trial);
    }
    ImportancePlot plot{.heading = {fmt::format("What {} depends on", name), about()}, .size = options_.size};
    if (trials.size() < kImportanceTrialsMin)
      return empty_plot(plot.size, plot.heading,
                        fmt::format("importance needs {} trials with a finite {}; there {} {}", kImportanceTrialsMin,
                                    name, trials.size() == 1 ? "is" : "are", trials.size()));
    std::vector<std::string> left_out;
    std::vector<ParameterColumn> columns;
    for (ParameterColumn& column : parameter_columns(trials, space())) {
      const bool whole =
          std::all_of(column.values.begin(), column.values.end(), [](double value) { return std::isfinite(value); });
      if (whole && column.categories.size() <= 64) {
        columns.push_back(std::move(column));
      } else {
        left_out.push_back(column.path);
      }
    }
    const auto found = fanova(forest_data(columns, trials, name), {.seed = state().seed});
    if (!found) return empty_plot(plot.size, plot.heading, found.error().message);
    plot.heading.subtitle = fmt::format("{} · fANOVA of {} values · R² of unseen trials {:.2f}{}", about(),
                                        trials.size(), found->fit, found->fit < 0.3 ? ": a weak ground" : "");
    if (!left_out.empty())
      plot.heading.subtitle += fmt::format(" · left out, not in every trial: {}", fmt::join(left_out, ", "));
    for (const ParameterShare& share : found->parameters)
      plot.bars.push_back({columns[share.parameter].path, share.share, share.deviation});
    for (size_t i = 0; i < std::min(kPairsShown, found->pairs.size()); ++i) {
      const PairShare& pair = found->pairs[i];
      if (pair.share >= kPairShareMin)
        plot.bars.push_back(
            {columns[pair.first].path + " × " + columns[pair.second].path, pair.share, pair.deviation, true});
    }
    std::stable_sort(plot.bars.begin(), plot.bars.end(),
                     [](const auto& a, const auto& b) { return a.share > b.share; });
    return importance_svg(plot);
  }

  FanovaData forest_data(const std::vector<ParameterColumn>& columns, const std::vector<const Trial*>& trials,
                         const std::string& name) const {
    FanovaData data;
    const auto place = [](const ParameterColumn& column, double value) { return column.log ? std::log(value) : value; };
    for (const ParameterColumn& column : columns)
      data.parameters.push_back({column.categories.size(), place(column, column.lo), place(column, column.hi)});
    for (size_t i = 0; i < trials.size(); ++i) {
      std::vector<double>& point = data.points.emplace_back();
      for (const ParameterColumn& column : columns) point.push_back(place(column, column.values[i]));
      data.values.push_back(value_of(*trials[i], name));
    }
    return data;
  }

  // ---- From the journal.

  std::string rungs() {
    const JournalContents told = journal();
    const std::string name = told.header.metric.empty() ? "value" : told.header.metric;
    const RungsPlot plot{
        .heading = {fmt::format("Rungs by {}", name), fmt::format("{} · {}", about(), told.header.scheduler)},
        .y = {name, unit_of(name)},
        .log_y = options_.log_y,
        .mode = mode_,
        .rungs = rungs_of(told),
        .size = options_.size};
    if (plot.rungs.empty())
      return empty_plot(
          plot.size, plot.heading,
          fmt::format("no trial has reached a rung: \"{}\" has none, or it is too early", told.header.scheduler));
    return rungs_svg(plot);
  }

  std::string gantt() {
    const JournalContents told = journal();
    return gantt_svg(
        {.heading = {"Trials over slots", about()}, .bars = attempts_of(told), .end_s = 0, .size = options_.size});
  }

  // ---- Objectives.

  Goals goals() const {
    const std::vector<Objective>& of_run = state().goals.objectives;
    Goals goals{.constraints = state().goals.constraints};
    if (options_.versus.empty() && options_.metric.empty() && of_run.size() >= 2) {
      goals.objectives = {of_run[0], of_run[1]};
      return goals;
    }
    if (options_.versus.empty())
      throw_refusal(
          "plot: a front needs two metrics: .objectives of the run, or .metric and .versus (--metric=A --versus=B)");
    goals.objectives = {{options_.metric.empty() ? state().metric : options_.metric, mode_},
                        {options_.versus, options_.versus_mode.value_or(Mode::kMin)}};
    return goals;
  }

  std::string pareto() {
    const Goals wanted = goals();
    for (const Objective& objective : wanted.objectives) (void)checked(objective.metric);
    const Objective &x = wanted.objectives[0], &y = wanted.objectives[1];
    ParetoPlot plot{.heading = {fmt::format("{} and {}", x.metric, y.metric), about()},
                    .x = {x.metric, unit_of(x.metric)},
                    .y = {y.metric, unit_of(y.metric)},
                    .log_x = options_.log_x,
                    .log_y = options_.log_y,
                    .mode_x = x.mode,
                    .mode_y = y.mode,
                    .size = options_.size};
    std::vector<Outcome> outcomes;
    std::vector<size_t> dots;
    for (const Trial& trial : state().trials) {
      const Outcome outcome = outcome_of(trial.last_result, wanted);
      const bool numbers =
          std::none_of(outcome.values.begin(), outcome.values.end(), [](double value) { return std::isnan(value); });
      if (!numbers || trial.status == TrialStatus::kFailed) continue;
      const double at = *trial.last_result.get(x.metric), up = *trial.last_result.get(y.metric);
      plot.dots.push_back(
          {.label = to_string(trial.id),
           .tip = fmt::format("{}  {} {}  {} {}", tip_of(trial), x.metric, value_text(at), y.metric, value_text(up)),
           .x = at,
           .y = up,
           .feasible = outcome.violation <= 0});
      if (outcome.violation > 0) continue;
      outcomes.push_back(outcome);
      dots.push_back(plot.dots.size() - 1);
    }
    mark_front(plot, outcomes, dots);
    return pareto_svg(plot);
  }

  // Marks the front of two objectives: sorted by the first, each point that is better in the second than all before it.
  static void mark_front(ParetoPlot& plot, const std::vector<Outcome>& outcomes, const std::vector<size_t>& dots) {
    std::vector<size_t> order(outcomes.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return outcomes[a].values < outcomes[b].values; });
    const Outcome* last = nullptr;
    for (const size_t i : order) {
      const bool front =
          last == nullptr || outcomes[i].values[1] < last->values[1] || outcomes[i].values == last->values;
      if (!front) continue;
      plot.dots[dots[i]].front = true;
      last = &outcomes[i];
    }
  }

  const Analysis& analysis_;
  const PlotOptions& options_;
  const Mode mode_;
};

}  // namespace

std::string_view to_string(PlotKind kind) {
  constexpr std::array<std::string_view, kPlotKinds.size()> kNames{"curves", "parallel", "importance",
                                                                   "rungs",  "pareto",   "gantt"};
  return kNames[static_cast<size_t>(kind)];
}

std::string plot(const Analysis& analysis, const PlotOptions& options) { return Plotter(analysis, options).draw(); }

void save_plot(const Analysis& analysis, const PlotOptions& options, const std::filesystem::path& path) {
  if (auto written = write_file_atomically(path, plot(analysis, options)); !written)
    throw Exception(std::move(written).error());
}

}  // namespace volador::tune
