#include "tune/results/experiment_state.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

namespace volador::tune {
namespace {

using Json = nlohmann::ordered_json;  // Preserves the order of configurations and metrics.

constexpr int kVersion = 1;

// NaN and infinities are written as text, since JSON has neither.
Json number(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}

Json metrics_json(const Metrics& metrics) {
  Json fields = Json::object();
  for (const auto& [name, value] : metrics) fields[name] = number(value);
  return fields;
}

Json resources_json(const ResourceSet& resources) {
  Json fields = Json::object();
  for (const auto& [name, amount] : resources.entries()) fields[name] = static_cast<double>(amount) / kUnit;
  return fields;
}

// Adds a structured reason beside its text.
void add_why(Json& object, const char* name, const Reason& reason) {
  if (const std::string why = reason.to_json(); !why.empty()) object[name] = Json::parse(why, nullptr, false);
}

Json texts_json(const std::vector<Reason>& reasons) {
  Json texts = Json::array();
  for (const Reason& reason : reasons) texts.push_back(reason.text());
  return texts;
}

// Adds one per reason, null if the text is sufficient; omitted if that holds for all.
void add_whys(Json& object, const char* name, const std::vector<Reason>& reasons) {
  Json whys = Json::array();
  bool any = false;
  for (const Reason& reason : reasons) {
    const std::string why = reason.to_json();
    whys.push_back(why.empty() ? Json() : Json::parse(why, nullptr, false));
    any = any || !why.empty();
  }
  if (any) object[name] = std::move(whys);
}

Json trial_json(const Trial& trial) {
  Json summaries = Json::object();
  for (const auto& [name, summary] : trial.metrics) {
    summaries[name] = {
        {"last", number(summary.last)},   {"min", number(summary.min)},   {"max", number(summary.max)},
        {"mean", number(summary.mean)},   {"count", summary.count},       {"nan_count", summary.nan_count},
        {"last_step", summary.last_step}, {"min_step", summary.min_step}, {"max_step", summary.max_step}};
  }
  Json checkpoints = Json::array();
  for (const Checkpoint& checkpoint : trial.checkpoints) {
    checkpoints.push_back({{"step", checkpoint.step},
                           {"attempt", checkpoint.attempt},
                           {"location", checkpoint.location},
                           {"score", number(checkpoint.score)},
                           {"time_total_s", number(checkpoint.time_total_s)}});
  }
  Json out = {{"trial_id", to_string(trial.id)},
              {"index", trial.index},
              {"config", Json::parse(trial.config.to_json(), nullptr, false)},
              {"status", to_string(trial.status)},
              {"step", trial.step},
              {"step_max", trial.step_max},
              {"last_result", metrics_json(trial.last_result)},
              {"metrics", std::move(summaries)},
              {"attempt", trial.attempt},
              {"failures", trial.failures},
              {"losses", trial.losses},
              {"checkpoints", std::move(checkpoints)},
              {"time_total_s", number(trial.time_total_s)},
              {"started_ns", trial.started.time_since_epoch().count()},
              {"ended_ns", trial.ended.time_since_epoch().count()},
              {"node", trial.node},
              {"error", trial.error.text()},
              {"reason", trial.reason.text()}};
  add_why(out, "error_why", trial.error);
  add_why(out, "why", trial.reason);
  if (!trial.name.empty()) out["name"] = trial.name;
  if (!trial.folder.empty()) out["folder"] = trial.folder;
  if (!trial.tags.empty()) out["tags"] = trial.tags;
  if (trial.cloned_from) out["cloned_from"] = to_string(*trial.cloned_from);
  if (!trial.resources.empty()) out["resources"] = resources_json(trial.resources);
  return out;
}

// Reads fields and records the first one that is missing or of another kind.
class Fields {
 public:
  Fields(const Json& object, std::string where, std::string& failed)
      : object_(object), where_(std::move(where)), failed_(failed) {
    if (!object_.is_object()) fail("an object");
  }

  const Json& at(const char* name) {
    static const Json kNull;
    const auto found = object_.is_object() ? object_.find(name) : object_.end();
    if (!object_.is_object() || found == object_.end()) {
      fail(fmt::format("\"{}\"", name));
      return kNull;
    }
    return *found;
  }
  std::string text(const char* name) {
    const Json& value = at(name);
    if (value.is_string()) return value.get<std::string>();
    fail(fmt::format("text in \"{}\"", name));
    return {};
  }
  // Falls back to the text if the structured reason is missing or unknown to this version.
  Reason reason_at(const char* name, const char* why) {
    std::string said = text(name);
    const auto found = object_.is_object() ? object_.find(why) : object_.end();
    auto known = found == object_.end() ? std::nullopt : Reason::from_json(found->dump());
    return known ? std::move(*known) : Reason(std::move(said));
  }
  template <class T = int64_t>
  T integer(const char* name) {
    const Json& value = at(name);
    if (value.is_number_integer()) return value.get<T>();
    fail(fmt::format("an integer in \"{}\"", name));
    return {};
  }
  double real(const char* name) { return real(at(name), name); }
  double real(const Json& value, const std::string& name) {
    if (value.is_number()) return value.get<double>();
    if (value == "nan") return std::numeric_limits<double>::quiet_NaN();
    if (value == "inf") return std::numeric_limits<double>::infinity();
    if (value == "-inf") return -std::numeric_limits<double>::infinity();
    fail(fmt::format("a number in \"{}\"", name));
    return 0;
  }
  void fail(const std::string& expected) {
    if (failed_.empty()) failed_ = fmt::format("{}: expected {}", where_, expected);
  }

 private:
  const Json& object_;
  std::string where_;
  std::string& failed_;
};

std::vector<std::string> texts_from(const Json& list) {
  std::vector<std::string> texts;
  for (const Json& text : list) texts.push_back(text.is_string() ? text.get<std::string>() : "");
  return texts;
}

// Omits both if there are none.
void add_goals(Json& whole, const Goals& goals) {
  for (const Objective& objective : goals.objectives)
    whole["objectives"].push_back({{"metric", objective.metric}, {"mode", to_string(objective.mode)}});
  if (!goals.constraints.empty()) whole["constraints"] = goals.constraints;
}

Goals goals_from(const Json& whole, std::string& failed) {
  Goals goals;
  if (whole.contains("objectives")) {
    for (const Json& value : whole["objectives"]) {
      Fields objective(value, "experiment_state.json: an objective", failed);
      goals.objectives.push_back({objective.text("metric"), objective.text("mode") == "min" ? Mode::kMin : Mode::kMax});
    }
  }
  if (whole.contains("constraints")) {
    for (const Json& value : whole["constraints"])
      goals.constraints.push_back(value.is_string() ? value.get<std::string>() : "");
  }
  if (const auto valid = validate(goals); !valid && failed.empty())
    failed = "experiment_state.json: " + valid.error().message;
  return goals;
}

Json origin_json(const RunOrigin& origin) {
  return {{"arguments", origin.arguments},   {"working_directory", origin.working_directory},
          {"hostname", origin.hostname},     {"git_commit", origin.git_commit},
          {"git_branch", origin.git_branch}, {"git_changed", origin.git_changed}};
}

// Absent in runs of an earlier Volador.
RunOrigin origin_from(const Json& whole, std::string& failed) {
  RunOrigin origin;
  if (!whole.contains("origin")) return origin;
  Fields fields(whole["origin"], "experiment_state.json: origin", failed);
  for (const Json& argument : fields.at("arguments")) {
    if (argument.is_string()) origin.arguments.push_back(argument.get<std::string>());
  }
  origin.working_directory = fields.text("working_directory");
  origin.hostname = fields.text("hostname");
  origin.git_commit = fields.text("git_commit");
  origin.git_branch = fields.text("git_branch");
  const Json& changed = fields.at("git_changed");
  if (!changed.is_boolean())
    fields.fail("true or false in \"git_changed\"");
  else
    origin.git_changed = changed.get<bool>();
  return origin;
}

std::optional<TrialStatus> status_from(std::string_view name) {
  for (int i = 0; i < kTrialStatuses; ++i) {
    const auto status = static_cast<TrialStatus>(i);
    if (to_string(status) == name) return status;
  }
  return std::nullopt;
}

Trial trial_from(const Json& object, std::string& failed) {
  Fields fields(object, "experiment_state.json: a trial", failed);
  Trial trial;
  if (auto id = TrialId::parse(fields.text("trial_id"))) {
    trial.id = *id;
  } else {
    fields.fail("eight hex digits in \"trial_id\"");
  }
  trial.index = fields.integer("index");
  if (object.contains("name")) trial.name = fields.text("name");
  if (object.contains("folder")) trial.folder = fields.text("folder");
  if (object.contains("tags")) trial.tags = texts_from(object["tags"]);
  if (object.contains("cloned_from")) {
    if (const auto from = TrialId::parse(fields.text("cloned_from")))
      trial.cloned_from = *from;
    else
      fields.fail("eight hex digits in \"cloned_from\"");
  }
  if (auto config = Config::from_json(fields.at("config").dump())) {
    trial.config = std::move(*config);
  } else {
    fields.fail("a configuration in \"config\"");
  }
  if (const auto status = status_from(fields.text("status"))) {
    trial.status = *status;
  } else {
    fields.fail("a known \"status\"");
  }
  trial.step = fields.integer("step");
  trial.step_max = fields.integer("step_max");
  for (const auto& [name, value] : fields.at("last_result").items())
    trial.last_result.set(name, fields.real(value, name));
  for (const auto& [name, value] : fields.at("metrics").items()) {
    Fields summary(value, "experiment_state.json: metric " + name, failed);
    MetricSummary& of = trial.metrics[name];
    of = {.last = summary.real("last"),
          .min = summary.real("min"),
          .max = summary.real("max"),
          .mean = summary.real("mean"),
          .count = summary.integer("count"),
          .nan_count = summary.integer("nan_count")};
    if (!value.is_object() || !value.contains("last_step")) continue;  // A run of an earlier Volador.
    of.last_step = summary.integer("last_step");
    of.min_step = summary.integer("min_step");
    of.max_step = summary.integer("max_step");
  }
  trial.attempt = fields.integer("attempt");
  trial.failures = fields.integer("failures");
  trial.losses = fields.integer("losses");
  for (const Json& value : fields.at("checkpoints")) {
    Fields checkpoint(value, "experiment_state.json: a checkpoint", failed);
    trial.checkpoints.push_back({.step = checkpoint.integer("step"),
                                 .attempt = checkpoint.integer("attempt"),
                                 .location = checkpoint.text("location"),
                                 .score = checkpoint.real("score"),
                                 .time_total_s = checkpoint.real("time_total_s")});
  }
  trial.time_total_s = fields.real("time_total_s");
  // Runs from before 2026-11-23 have neither.
  if (object.contains("started_ns")) trial.started = WallTime(std::chrono::nanoseconds(fields.integer("started_ns")));
  if (object.contains("ended_ns")) trial.ended = WallTime(std::chrono::nanoseconds(fields.integer("ended_ns")));
  trial.node = fields.text("node");
  if (object.contains("resources")) {  // Present if its scheduler changed them.
    Fields resources(object["resources"], "experiment_state.json: resources of a trial", failed);
    for (const auto& [name, value] : object["resources"].items())
      trial.resources.set(name, static_cast<Amount>(std::llround(resources.real(value, name) * kUnit)));
  }
  trial.error = fields.reason_at("error", "error_why");
  trial.reason = fields.reason_at("reason", "why");
  return trial;
}

}  // namespace

std::string trial_to_json(const Trial& trial) {
  return trial_json(trial).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string to_json(const ExperimentState& state) {
  Json trials = Json::array();
  for (const Trial& trial : state.trials) trials.push_back(trial_json(trial));
  Json whole = {{"version", kVersion},
                {"name", state.name},
                {"state", state.state},
                {"reason", state.reason.text()},
                {"metric", state.metric},
                {"mode", to_string(state.mode)},
                {"seed", state.seed},
                {"tags", state.tags},
                {"scheduler", state.scheduler},
                {"searcher", state.searcher},
                {"space", state.space},
                {"stop", state.stop},
                {"origin", origin_json(state.origin)},
                {"started_ns", state.started.time_since_epoch().count()},
                {"written_ns", state.written.time_since_epoch().count()},
                {"notices", texts_json(state.notices)},
                {"trials", std::move(trials)}};
  add_why(whole, "why", state.reason);
  add_whys(whole, "notices_why", state.notices);
  add_goals(whole, state.goals);
  if (state.trials_planned > 0) whole["trials_planned"] = state.trials_planned;
  if (state.left)
    whole["left_s"] = {{"point", state.left->seconds}, {"low", state.left->low}, {"high", state.left->high}};
  return whole.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

Result<ExperimentState> experiment_state_from_json(std::string_view text) {
  const Json whole = Json::parse(text, nullptr, false);
  if (whole.is_discarded()) return make_error(ErrorCode::kInvalidArgument, "experiment_state.json: expected JSON");
  std::string failed;
  Fields fields(whole, "experiment_state.json", failed);
  ExperimentState state;
  if (const int64_t version = fields.integer("version"); failed.empty() && version != kVersion) {
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("experiment_state.json: version {} is not known, this Volador reads {}", version, kVersion));
  }
  state.name = fields.text("name");
  state.state = fields.text("state");
  state.reason = fields.reason_at("reason", "why");
  state.metric = fields.text("metric");
  state.mode = fields.text("mode") == "min" ? Mode::kMin : Mode::kMax;
  if (whole.is_object()) {
    state.goals = goals_from(whole, failed);
    state.origin = origin_from(whole, failed);
  }
  state.seed = fields.integer<uint64_t>("seed");
  if (whole.contains("tags")) state.tags = texts_from(whole["tags"]);
  if (whole.contains("space")) state.space = fields.text("space");
  if (whole.contains("stop")) state.stop = texts_from(whole["stop"]);
  state.scheduler = fields.text("scheduler");
  state.searcher = fields.text("searcher");
  state.started = WallTime(std::chrono::nanoseconds(fields.integer("started_ns")));
  state.written = WallTime(std::chrono::nanoseconds(fields.integer("written_ns")));
  const Json whys = whole.is_object() && whole.contains("notices_why") ? whole["notices_why"] : Json::array();
  size_t at = 0;
  for (const Json& notice : fields.at("notices")) {
    auto known =
        whys.is_array() && at < whys.size() && whys[at].is_array() ? Reason::from_json(whys[at].dump()) : std::nullopt;
    ++at;
    if (notice.is_string()) state.notices.push_back(known ? std::move(*known) : Reason(notice.get<std::string>()));
  }
  if (whole.contains("trials_planned")) state.trials_planned = fields.integer("trials_planned");
  if (whole.contains("left_s")) {
    Fields left(whole["left_s"], "experiment_state.json: left_s", failed);
    state.left = TimeLeft{left.real("point"), left.real("low"), left.real("high")};
  }
  for (const Json& trial : fields.at("trials")) state.trials.push_back(trial_from(trial, failed));
  if (!failed.empty()) return make_error(ErrorCode::kInvalidArgument, failed);
  return state;
}

}  // namespace volador::tune
