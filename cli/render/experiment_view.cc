#include "cli/render/experiment_view.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "cli/render/table.h"
#include "cli/render/time_text.h"
#include "runtime/protocol/volador/v1/experiments.pb.h"
#include "runtime/quantities.h"
#include "runtime/resources.h"

namespace volador::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kShortId = 8;

std::string paint_experiment_state(std::string_view state, const Terminal& terminal) {
  Colour colour = Colour::kNone;
  if (state == "ACTIVE" || state == "COMPLETED") colour = Colour::kGreen;
  if (state == "PAUSED" || state.starts_with("STOPPING_") || state == "DELETING") colour = Colour::kYellow;
  if (state == "ERROR" || state == "DELETE_FAILED") colour = Colour::kRed;
  return terminal.paint(colour, state);
}

std::string percent(double progress) { return fmt::format("{:.0f}%", std::clamp(progress, 0.0, 1.0) * 100); }

Json values_of(const std::string& text) {
  Json json = text.empty() ? Json() : Json::parse(text, nullptr, /*allow_exceptions=*/false);
  return json.is_discarded() ? Json() : json;
}

std::string short_value(const Json& value) {
  if (value.is_number_float()) return fmt::format("{:.4g}", value.get<double>());
  if (value.is_string()) return value.get<std::string>();
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

// "lr=0.1 layers.n=2".
void add_values(const Json& map, const std::string& prefix, std::vector<std::string>& out) {
  for (const auto& [name, value] : map.items()) {
    if (value.is_object()) {
      add_values(value, prefix + name + ".", out);
    } else {
      out.push_back(prefix + name + "=" + short_value(value));
    }
  }
}

// "0.1", "log -4 to -1", "one of 16, 32": a hyperparameter of a complete configuration; nested ones one a line.
void add_hyperparameters(const Json& map, const std::string& prefix, std::vector<std::string>& out) {
  for (const auto& [name, value] : map.items()) {
    const std::string key = prefix + name;
    const std::string type = value.is_object() && value.contains("type") && value["type"].is_string()
                                 ? value["type"].get<std::string>()
                                 : std::string();
    if (type == "const") {
      out.push_back(fmt::format("{} = {}", key, short_value(value.value("val", Json()))));
    } else if (type == "categorical") {
      std::vector<std::string> choices;
      for (const Json& one : value.value("vals", Json::array())) choices.push_back(short_value(one));
      out.push_back(fmt::format("{}: {}", key, fmt::join(choices, ", ")));
    } else if (!type.empty()) {
      out.push_back(fmt::format("{}: {} {}…{}", key, type, short_value(value.value("minval", Json())),
                                short_value(value.value("maxval", Json()))));
    } else if (value.is_object()) {
      add_hyperparameters(value, key + ".", out);
    } else {
      out.push_back(fmt::format("{} = {}", key, short_value(value)));
    }
  }
}

std::string entrypoint_text(const Json& config) {
  const Json entrypoint = config.value("entrypoint", Json());
  if (!entrypoint.is_array()) return entrypoint.is_null() ? "" : short_value(entrypoint);
  std::vector<std::string> words;
  for (const Json& word : entrypoint) words.push_back(short_value(word));
  return fmt::format("{}", fmt::join(words, " "));
}

std::string length_text(const Json& length) {
  if (length.is_object() && length.size() == 1)
    return fmt::format("{} {}", short_value(length.begin().value()), length.begin().key());
  return length.is_null() ? "" : short_value(length);
}

std::string by_state(const v1::ExperimentInfo& experiment) {
  std::vector<std::string> parts;
  for (const auto& [state, count] : experiment.trials_by_state())
    if (count > 0) parts.push_back(fmt::format("{} {}", count, state));
  std::ranges::sort(parts);
  return parts.empty() ? std::to_string(experiment.trials())
                       : fmt::format("{}: {}", experiment.trials(), fmt::join(parts, ", "));
}

std::string ran(int64_t from_ms, int64_t to_ms, int64_t now_ms) {
  if (from_ms == 0) return {};
  const int64_t end = to_ms == 0 ? now_ms : to_ms;
  return format_duration(std::chrono::milliseconds(std::max<int64_t>(end - from_ms, 0)));
}

std::string place_of(const v1::ExperimentInfo& experiment) {
  if (experiment.workspace().empty()) return printable(experiment.project());
  return printable(experiment.workspace() + "/" + experiment.project());
}

}  // namespace

std::string metric_text(bool has, double value) { return has ? fmt::format("{:.6g}", value) : std::string(); }

std::string values_text(const std::string& json) {
  std::vector<std::string> values;
  if (const Json map = values_of(json); map.is_object()) add_values(map, "", values);
  return fmt::format("{}", fmt::join(values, " "));
}

bool is_final_state(std::string_view state) { return state == "COMPLETED" || state == "CANCELED" || state == "ERROR"; }

std::string experiment_line(const v1::ExperimentInfo& experiment, const Terminal& terminal) {
  std::string out = terminal.fill("experiment {} ({}): {}", experiment.id(), printable(experiment.name()),
                                  paint_experiment_state(experiment.state(), terminal));
  if (!experiment.phase().empty()) out += ", " + experiment.phase();
  if (experiment.state() == "ACTIVE" && experiment.progress() > 0) out += ", " + percent(experiment.progress());
  if (experiment.best_trial() != 0 && experiment.has_best_metric()) {
    out += "; " + terminal.fill("best {} {} (trial {})", printable(experiment.metric()),
                                fmt::format("{:.6g}", experiment.best_metric()), experiment.best_trial());
  }
  if (!experiment.reason().empty()) out += "; " + printable(terminal.reason(experiment.reason(), experiment.why()));
  return out;
}

std::string experiments_text(const v1::ListExperimentsReply& reply, int64_t now_ms, const Terminal& terminal) {
  if (reply.experiments().empty())
    return terminal.tr("no experiments; volador experiment create CONFIG FOLDER creates one") + "\n";
  Table table({{.title = terminal.tr("id"), .align = Align::kRight},
               {.title = terminal.tr("name"), .width_max = 30, .width_min = 10, .cut = Cut::kMiddle},
               {.title = terminal.tr("state")},
               {.title = terminal.tr("progress"), .align = Align::kRight, .rank = 1},
               {.title = terminal.tr("trials"), .align = Align::kRight, .rank = 3},
               {.title = terminal.tr("searcher"), .rank = 5},
               {.title = terminal.tr("best"), .align = Align::kRight, .rank = 2},
               {.title = terminal.tr("created"), .rank = 4},
               {.title = terminal.tr("ran"), .align = Align::kRight, .rank = 6},
               {.title = terminal.tr("user"), .rank = 7},
               {.title = terminal.tr("labels"), .rank = 8, .width_max = 20, .width_min = 6},
               {.title = terminal.tr("why"), .width_max = 90, .width_min = 20, .first = true}});
  for (const v1::ExperimentInfo& each : reply.experiments()) {
    std::string state = paint_experiment_state(each.state(), terminal);
    if (!each.phase().empty() && each.phase() != "RUNNING") state += " " + each.phase();
    if (each.archived()) state += " " + terminal.tr("archived");
    table.add({std::to_string(each.id()), printable(each.name()), state,
               each.progress() > 0 ? percent(each.progress()) : "", std::to_string(each.trials()), each.searcher(),
               metric_text(each.has_best_metric(), each.best_metric()), clock_time(each.created_ms(), now_ms),
               ran(each.created_ms(), each.ended_ms(), now_ms), printable(each.user()),
               printable(fmt::format("{}", fmt::join(each.labels(), ","))),
               printable(terminal.reason(each.reason(), each.why()))});
  }
  std::string out = fitted(table, terminal);
  if (reply.total() > reply.experiments_size())
    out += terminal.fill("… {} more; --limit shows them", reply.total() - reply.experiments_size()) + "\n";
  return out;
}

std::string experiment_text(const v1::ExperimentInfo& experiment, const v1::ListTrialInfosReply& trials, int64_t now_ms,
                            const Terminal& terminal) {
  std::string out = terminal.fill("experiment {}", experiment.id()) + " · " + printable(experiment.name()) + " · " +
                    paint_experiment_state(experiment.state(), terminal);
  if (!experiment.phase().empty()) out += ", " + experiment.phase();
  if (experiment.archived()) out += ", " + terminal.tr("archived");
  out += "\n";
  const auto line = [&](const std::string& title, const std::string& value) {
    if (!value.empty()) out += titled(title, value, 16);
  };
  const Json config = values_of(experiment.config());
  const auto section = [&](const char* key) {
    const auto found = config.is_object() ? config.find(key) : config.end();
    return config.is_object() && found != config.end() ? *found : Json::object();
  };
  line(terminal.tr("why"), printable(terminal.reason(experiment.reason(), experiment.why())));
  line(terminal.tr("description"), printable(experiment.description()));
  line(terminal.tr("labels"), printable(fmt::format("{}", fmt::join(experiment.labels(), ", "))));
  if (!is_final_state(experiment.state())) line(terminal.tr("progress"), percent(experiment.progress()));
  line(terminal.tr("trials"), by_state(experiment));
  if (experiment.best_trial() != 0) {
    line(terminal.tr("best"),
         terminal.fill("{} {}, trial {}", printable(experiment.metric()),
                       metric_text(experiment.has_best_metric(), experiment.best_metric()), experiment.best_trial()));
  }
  const Json searcher = section("searcher");
  const std::string length = searcher.is_object() ? length_text(searcher.value("max_length", Json())) : "";
  line(terminal.tr("searcher"), (experiment.smaller_is_better()
                                     ? terminal.fill("{}, minimizes {}", experiment.searcher(), experiment.metric())
                                     : terminal.fill("{}, maximizes {}", experiment.searcher(), experiment.metric())) +
                                    (length.empty() ? "" : ", " + terminal.fill("up to {}", length)));
  std::vector<std::string> hyperparameters;
  if (const Json given = section("hyperparameters"); given.is_object()) add_hyperparameters(given, "", hyperparameters);
  line(terminal.tr("hyperparameters"), printable(fmt::format("{}", fmt::join(hyperparameters, "; "))));
  if (config.is_object()) line(terminal.tr("entrypoint"), printable(entrypoint_text(config)));
  if (const Json resources = section("resources"); resources.is_object() && resources.contains("slots_per_trial"))
    line(terminal.tr("slots per trial"), short_value(resources["slots_per_trial"]));
  line(terminal.tr("created"), clock_time(experiment.created_ms(), now_ms));
  if (experiment.ended_ms() != 0) line(terminal.tr("ended"), clock_time(experiment.ended_ms(), now_ms));
  line(terminal.tr("ran"), ran(experiment.created_ms(), experiment.ended_ms(), now_ms));
  line(terminal.tr("user"), printable(experiment.user()));
  line(terminal.tr("project"), place_of(experiment));
  if (experiment.parent() != 0) line(terminal.tr("parent"), terminal.fill("experiment {}", experiment.parent()));
  line(terminal.tr("code"),
       experiment.files_sha256().empty() ? "" : "sha256:" + experiment.files_sha256().substr(0, kShortId) + "…");
  line(terminal.tr("storage"), printable(experiment.storage()));
  if (experiment.checkpoints() > 0) {
    line(terminal.tr("checkpoints"),
         fmt::format("{}, {}", experiment.checkpoints(), format_bytes(experiment.checkpoint_bytes())));
  }
  line(terminal.tr("notes"), printable(experiment.notes()));
  if (trials.trials().empty()) return out;
  out += "\n" + trial_infos_text(trials, now_ms, terminal);
  if (experiment.state() == "ERROR") {
    const auto failed = std::ranges::find_if(
        trials.trials(), [](const v1::TrialInfo& trial) { return trial.state() == "ERROR" && !trial.job().empty(); });
    if (failed != trials.trials().end()) out += terminal.fill("its output: volador trial logs {}", failed->id()) + "\n";
  }
  return out;
}

std::string trial_line(const v1::TrialInfo& trial, const Terminal& terminal) {
  std::string out = terminal.fill("trial {} of experiment {}: {}", trial.id(), trial.experiment(),
                                  paint_experiment_state(trial.state(), terminal));
  if (!trial.job().empty()) out += ", " + trial.job();
  if (!trial.reason().empty()) out += "; " + printable(terminal.reason(trial.reason(), trial.why()));
  return out;
}

std::string trial_infos_text(const v1::ListTrialInfosReply& reply, int64_t now_ms, const Terminal& terminal) {
  if (reply.trials().empty()) return terminal.tr("no trials yet") + "\n";
  Table table({{.title = terminal.tr("trial"), .align = Align::kRight},
               {.title = terminal.tr("state")},
               {.title = terminal.tr("batches"), .align = Align::kRight},
               {.title = terminal.tr("best"), .align = Align::kRight},
               {.title = terminal.tr("latest"), .align = Align::kRight, .rank = 4},
               {.title = terminal.tr("checkpoint"), .rank = 5},
               {.title = terminal.tr("ran"), .align = Align::kRight, .rank = 3},
               {.title = terminal.tr("restarts"), .align = Align::kRight, .rank = 6},
               {.title = terminal.tr("job"), .rank = 2},
               {.title = terminal.tr("hyperparameters"), .rank = 1, .width_max = 60, .width_min = 12},
               {.title = terminal.tr("why"), .width_max = 90, .width_min = 20, .first = true}});
  for (const v1::TrialInfo& each : reply.trials()) {
    const std::string& checkpoint = each.best_checkpoint().empty() ? each.latest_checkpoint() : each.best_checkpoint();
    table.add({std::to_string(each.id()), paint_experiment_state(each.state(), terminal),
               std::to_string(each.batches()), metric_text(each.has_best_metric(), each.best_metric()),
               metric_text(each.has_latest_metric(), each.latest_metric()), checkpoint.substr(0, kShortId),
               ran(each.started_ms(), each.ended_ms(), now_ms),
               each.restarts() > 0 ? std::to_string(each.restarts()) : "", each.job(),
               printable(values_text(each.hparams())), printable(terminal.reason(each.reason(), each.why()))});
  }
  std::string out = fitted(table, terminal);
  if (reply.total() > reply.trials_size())
    out += terminal.fill("… {} more; volador experiment list-trials shows them", reply.total() - reply.trials_size()) +
           "\n";
  return out;
}

std::string trial_text(const v1::TrialInfo& trial, int64_t now_ms, const Terminal& terminal) {
  std::string out = terminal.fill("trial {} of experiment {}", trial.id(), trial.experiment()) + " · " +
                    paint_experiment_state(trial.state(), terminal) + "\n";
  const auto line = [&](const std::string& title, const std::string& value) {
    if (!value.empty()) out += titled(title, value, 18);
  };
  line(terminal.tr("why"), printable(terminal.reason(trial.reason(), trial.why())));
  line(terminal.tr("hyperparameters"), printable(values_text(trial.hparams())));
  line(terminal.tr("seed"), std::to_string(trial.seed()));
  if (!is_final_state(trial.state())) line(terminal.tr("progress"), percent(trial.progress()));
  line(terminal.tr("batches"), std::to_string(trial.batches()));
  if (trial.searched_length() > 0) line(terminal.tr("asked length"), std::to_string(trial.searched_length()));
  line(terminal.tr("best"), metric_text(trial.has_best_metric(), trial.best_metric()));
  line(terminal.tr("latest"), metric_text(trial.has_latest_metric(), trial.latest_metric()));
  line(terminal.tr("validation"), printable(values_text(trial.metrics())));
  line(terminal.tr("training"), printable(values_text(trial.training_metrics())));
  line(terminal.tr("best checkpoint"), trial.best_checkpoint());
  line(terminal.tr("latest checkpoint"), trial.latest_checkpoint());
  if (trial.warm_start_trial() != 0) {
    line(terminal.tr("started from"),
         terminal.fill("trial {}, checkpoint {}", trial.warm_start_trial(), trial.warm_start_checkpoint()));
  }
  line(terminal.tr("job"), trial.job());
  if (trial.run() > 0) line(terminal.tr("run"), std::to_string(trial.run()));
  if (trial.restarts() > 0) line(terminal.tr("restarts"), std::to_string(trial.restarts()));
  line(terminal.tr("created"), clock_time(trial.created_ms(), now_ms));
  if (trial.started_ms() != 0) line(terminal.tr("started"), clock_time(trial.started_ms(), now_ms));
  if (trial.ended_ms() != 0) line(terminal.tr("ended"), clock_time(trial.ended_ms(), now_ms));
  line(terminal.tr("ran"), ran(trial.started_ms(), trial.ended_ms(), now_ms));
  return out;
}

std::string checkpoints_text(const v1::ListCheckpointsReply& reply, int64_t now_ms, const Terminal& terminal) {
  if (reply.checkpoints().empty()) return terminal.tr("no checkpoints") + "\n";
  Table table({{.title = terminal.tr("checkpoint"), .width_max = 36, .width_min = 8},
               {.title = terminal.tr("trial"), .align = Align::kRight},
               {.title = terminal.tr("batches"), .align = Align::kRight},
               {.title = terminal.tr("state")},
               {.title = terminal.tr("metric"), .align = Align::kRight},
               {.title = terminal.tr("size"), .align = Align::kRight, .rank = 1},
               {.title = terminal.tr("created"), .rank = 2}});
  for (const v1::CheckpointInfo& each : reply.checkpoints()) {
    table.add({each.id(), std::to_string(each.trial()), std::to_string(each.batches()),
               paint_experiment_state(each.state(), terminal), metric_text(each.has_metric(), each.metric()),
               format_bytes(each.bytes()), clock_time(each.created_ms(), now_ms)});
  }
  std::string out = fitted(table, terminal);
  if (reply.total() > reply.checkpoints_size())
    out += terminal.fill("… {} more; --limit shows them", reply.total() - reply.checkpoints_size()) + "\n";
  return out;
}

std::string checkpoint_text(const v1::CheckpointInfo& checkpoint, int64_t now_ms, const Terminal& terminal) {
  std::string out = terminal.fill("checkpoint {}", checkpoint.id()) + " · " +
                    paint_experiment_state(checkpoint.state(), terminal) + "\n";
  const auto line = [&](const std::string& title, const std::string& value) {
    if (!value.empty()) out += titled(title, value, 12);
  };
  line(terminal.tr("of"), terminal.fill("trial {} of experiment {}", checkpoint.trial(), checkpoint.experiment()));
  line(terminal.tr("batches"), std::to_string(checkpoint.batches()));
  line(terminal.tr("metric"), metric_text(checkpoint.has_metric(), checkpoint.metric()));
  line(terminal.tr("validation"), printable(values_text(checkpoint.metrics())));
  line(terminal.tr("created"), clock_time(checkpoint.created_ms(), now_ms));
  line(terminal.tr("storage"), printable(checkpoint.storage()));
  line(terminal.tr("size"), format_bytes(checkpoint.bytes()));
  line(terminal.tr("metadata"), printable(values_text(checkpoint.metadata())));
  if (checkpoint.resources().empty()) return out;
  Table table({{.title = terminal.tr("file")}, {.title = terminal.tr("size"), .align = Align::kRight}});
  std::vector<std::pair<std::string, int64_t>> files(checkpoint.resources().begin(), checkpoint.resources().end());
  std::ranges::sort(files);
  for (const auto& [name, bytes] : files)
    table.add({printable(name), name.ends_with('/') ? std::string() : format_bytes(bytes)});
  return out + "\n" + fitted(table, terminal);
}

std::string metrics_text(const v1::GetMetricsReply& reply, const Terminal& terminal) {
  if (reply.series().empty()) return terminal.tr("no metrics") + "\n";
  Table table({{.title = terminal.tr("trial"), .align = Align::kRight},
               {.title = terminal.tr("group")},
               {.title = terminal.tr("metric"), .width_max = 40, .width_min = 8},
               {.title = terminal.tr("points"), .align = Align::kRight},
               {.title = terminal.tr("batches"), .align = Align::kRight},
               {.title = terminal.tr("last"), .align = Align::kRight},
               {.title = terminal.tr("smallest"), .align = Align::kRight},
               {.title = terminal.tr("largest"), .align = Align::kRight}});
  for (const v1::TrialMetricSeries& series : reply.series()) {
    if (series.values().empty()) continue;
    const auto [low, high] = std::ranges::minmax_element(series.values());
    table.add({std::to_string(series.trial()), printable(series.group()), printable(series.metric()),
               std::to_string(series.values_size()),
               series.batches().empty() ? "" : std::to_string(*series.batches().rbegin()),
               fmt::format("{:.6g}", *series.values().rbegin()), fmt::format("{:.6g}", *low),
               fmt::format("{:.6g}", *high)});
  }
  return fitted(table, terminal);
}

std::string metrics_csv(const v1::GetMetricsReply& reply) {
  const auto quoted = [](const std::string& text) {
    if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
    std::string out = "\"";
    for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
    return out + "\"";
  };
  std::string out = "trial,group,metric,batches,value,time_ms\n";
  for (const v1::TrialMetricSeries& series : reply.series()) {
    const std::string start = fmt::format("{},{},{}", series.trial(), quoted(series.group()), quoted(series.metric()));
    for (int i = 0; i < series.values_size(); ++i) {
      out += fmt::format("{},{},{},{}\n", start, i < series.batches_size() ? series.batches(i) : 0, series.values(i),
                         i < series.times_ms_size() ? series.times_ms(i) : 0);
    }
  }
  return out;
}

}  // namespace volador::cli
