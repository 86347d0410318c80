// Routes of experiments that hand out files and tables, and that take what people say of a run.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "dashboard/api.h"
#include "dashboard/api_later.h"
#include "dashboard/downloads.h"
#include "dashboard/json_text.h"
#include "dashboard/row_list.h"
#include "dashboard/run_files.h"
#include "runtime/protocol/volador/v1/cluster.pb.h"

namespace volador::dashboard {
namespace {

using Ordered = nlohmann::ordered_json;

// To be saved, never to be shown: what lies in a run's folder is anybody's text.
HttpResponse attachment(std::string_view file_name, std::string content_type) {
  return {.content_type = std::move(content_type),
          .headers = {{"Cache-Control", "no-store"}, {"Content-Disposition", fmt::format("attachment; filename=\"{}\"", safe_file_name(file_name))}}};
}

HttpResponse files_json(const std::string& directory, const std::vector<RunFiles::Entry>& entries) {
  std::string body;
  JsonObject object(body);
  object.text("directory", directory);
  std::string& rows = object.value_of("rows");
  rows += '[';
  for (const RunFiles::Entry& entry : entries) {
    if (rows.back() != '[') rows += ',';
    JsonObject row(rows);
    row.text("name", entry.name);
    row.text("kind", entry.kind);
    row.integer("bytes", entry.bytes);
    row.integer("modified_ms", entry.modified_ms);
    row.end();
  }
  rows += ']';
  object.end();
  return json_response(std::move(body));
}

}  // namespace

void Api::annotate_experiment(const Call& call, const Respond& respond) {
  const Ordered& body = *call.json;
  v1::AnnotateExperimentRequest request;
  request.set_experiment(call.path.at("name"));
  for (const auto& tag : body.value("add_tags", Ordered::array())) request.add_add_tags(tag.get<std::string>());
  for (const auto& tag : body.value("remove_tags", Ordered::array())) request.add_remove_tags(tag.get<std::string>());
  if (body.contains("note")) request.set_note(body["note"].get<std::string>());
  if (body.contains("archived")) request.set_archived(body["archived"].get<bool>());
  port_.annotate_experiment(request, call.by, later<void>(respond, [](const Result<void>&) { return json_response("{}"); }));
}

void Api::trials_table(const Call& call, const Respond& respond) {
  const std::string& name = call.path.at("name");
  if (!model_.has_experiment(name)) return respond(no_experiment(name));
  HttpResponse response = attachment(name + "-trials.csv", "text/csv; charset=utf-8");
  response.source = trials_csv(model_, to_here_, name);
  respond(std::move(response));
}

void Api::curves_table(const Call& call, const Respond& respond) {
  const std::string& name = call.path.at("name");
  if (!model_.has_experiment(name)) return respond(no_experiment(name));
  HttpResponse response = attachment(name + "-curves.csv", "text/csv; charset=utf-8");
  response.source = curves_csv(model_, name, text_in(call.query, "metric"));
  respond(std::move(response));
}

// The best trial's where none is named.
void Api::config(const Call& call, const Respond& respond) {
  const std::string& name = call.path.at("name");
  if (!model_.has_experiment(name)) return respond(no_experiment(name));
  const std::string format = call.query.contains("format") ? call.query.at("format") : "json";
  if (format != "json" && format != "yaml") return respond(problem({ErrorCode::kInvalidArgument, fmt::format("format: expected json or yaml, got \"{}\"", format)}));
  std::string trial = text_in(call.query, "trial");
  if (trial.empty()) {
    const auto row = Ordered::parse(model_.table(Topic::kExperiments).rows().at(name).text, nullptr, false);
    if (!row.contains("best") || !row["best"].is_object()) {
      return respond(problem(404, {ErrorCode::kNotFound, fmt::format("experiment \"{}\" has no best trial yet", name)}, "name a trial with ?trial="));
    }
    trial = row["best"]["trial"].get<std::string>();
  }
  const auto& trials = model_.table(Topic::kTrials).rows();
  const auto found = trials.find(trial_key(name, trial));
  if (found == trials.end()) return respond(problem(404, {ErrorCode::kNotFound, fmt::format("experiment \"{}\" has no trial \"{}\"", name, trial)}));
  const auto row = Ordered::parse(found->second.text, nullptr, false);
  const Ordered config = row.contains("config_text") ? row["config_text"] : row["config"];
  const bool yaml = format == "yaml";
  HttpResponse response = attachment(fmt::format("{}-{}.{}", name, trial, format), yaml ? "application/yaml" : "application/json");
  response.body = yaml ? yaml_text(config) : config.dump(2, ' ', false, Ordered::error_handler_t::replace) + "\n";
  respond(std::move(response));
}

void Api::list_files(const std::string& trial, const Call& call, const Respond& respond) {
  const auto directory = model_.directory_of(call.path.at("name"));
  if (!directory) return respond(problem(directory.error()));
  const auto entries = RunFiles(*directory).list(trial);
  respond(entries ? files_json(trial.empty() ? *directory : *directory + "/" + trial, *entries) : problem(entries.error()));
}

void Api::send_file(const std::string& trial, const Call& call, const Respond& respond) {
  const auto directory = model_.directory_of(call.path.at("name"));
  if (!directory) return respond(problem(directory.error()));
  auto opened = RunFiles(*directory).open(trial, call.path.at("file"));
  if (!opened) return respond(problem(opened.error()));
  const std::string name = trial.empty() ? call.path.at("name") + "-" + opened->file_name : opened->file_name;
  HttpResponse response = attachment(name, opened->content_type);
  response.source = std::move(opened->body);
  respond(std::move(response));
}

}  // namespace volador::dashboard
