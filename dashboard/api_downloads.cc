// Experiment routes for file and table downloads, and for user notes.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "dashboard/api.h"
#include "dashboard/api_later.h"
#include "dashboard/downloads.h"
#include "dashboard/json_text.h"
#include "dashboard/remote_body.h"
#include "dashboard/row_list.h"
#include "runtime/files/run_files.h"
#include "runtime/protocol/volador/v1/cluster.pb.h"

namespace volador::dashboard {
namespace {

using Ordered = nlohmann::ordered_json;

// Sent as attachment and never displayed: files in a run's folder are untrusted.
HttpResponse attachment(std::string_view file_name, std::string content_type) {
  return {.content_type = std::move(content_type),
          .headers = {{"Cache-Control", "no-store"},
                      {"Content-Disposition", fmt::format("attachment; filename=\"{}\"", safe_file_name(file_name))}}};
}

class LocalBody final : public BodySource {
 public:
  explicit LocalBody(std::unique_ptr<FilePieces> pieces) : pieces_(std::move(pieces)) {}
  std::optional<uint64_t> length() const override { return pieces_->length(); }
  void next(Done done) override { done(pieces_->next()); }

 private:
  const std::unique_ptr<FilePieces> pieces_;
};

// The run's program or a node of its user may read files that this process may not.
bool is_for_others(const Error& error) { return error.code == ErrorCode::kPermissionDenied; }

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

// Uses the best trial if none is given.
void Api::config(const Call& call, const Respond& respond) {
  const std::string& name = call.path.at("name");
  if (!model_.has_experiment(name)) return respond(no_experiment(name));
  const std::string format = call.query.contains("format") ? call.query.at("format") : "json";
  if (format != "json" && format != "yaml")
    return respond(
        problem({ErrorCode::kInvalidArgument, fmt::format("format: expected json or yaml, got \"{}\"", format)}));
  std::string trial = text_in(call.query, "trial");
  if (trial.empty()) {
    const auto row = Ordered::parse(model_.table(Topic::kExperiments).rows().at(name).text, nullptr, false);
    if (!row.contains("best") || !row["best"].is_object()) {
      return respond(problem(404, {ErrorCode::kNotFound, fmt::format("experiment \"{}\" has no best trial yet", name)},
                             "name a trial with ?trial="));
    }
    trial = row["best"]["trial"].get<std::string>();
  }
  const auto& trials = model_.table(Topic::kTrials).rows();
  const auto found = trials.find(trial_key(name, trial));
  if (found == trials.end())
    return respond(
        problem(404, {ErrorCode::kNotFound, fmt::format("experiment \"{}\" has no trial \"{}\"", name, trial)}));
  const auto row = Ordered::parse(found->second.text, nullptr, false);
  const Ordered config = row.contains("config_text") ? row["config_text"] : row["config"];
  const bool yaml = format == "yaml";
  HttpResponse response =
      attachment(fmt::format("{}-{}.{}", name, trial, format), yaml ? "application/yaml" : "application/json");
  response.body = yaml ? yaml_text(config) : config.dump(2, ' ', false, Ordered::error_handler_t::replace) + "\n";
  respond(std::move(response));
}

void Api::list_files(const std::string& trial, const Call& call, const Respond& respond) {
  const std::string& name = call.path.at("name");
  const auto place = model_.place_of(name);
  if (!place) return respond(problem(place.error()));
  const std::string directory = trial.empty() ? place->directory : place->directory + "/" + trial;
  if (place->here) {
    const auto entries = RunFiles(place->directory).list(trial);
    if (entries) return respond(files_json(directory, *entries));
    if (!is_for_others(entries.error())) return respond(problem(entries.error()));
  }
  using Entries = std::vector<RunFiles::Entry>;
  port_.list_run_files(name, trial, later<Entries>(respond, [directory](const Result<Entries>& entries) {
                         return files_json(directory, *entries);
                       }));
}

void Api::send_file(const std::string& trial, const Call& call, const Respond& respond) {
  const std::string& name = call.path.at("name");
  const std::string& file = call.path.at("file");
  const auto place = model_.place_of(name);
  if (!place) return respond(problem(place.error()));
  const auto shown = [trial, name](const std::string& saved_as, const std::string& content_type) {
    return attachment(trial.empty() ? name + "-" + saved_as : saved_as, content_type);
  };
  if (place->here) {
    auto opened = RunFiles(place->directory).open(trial, file);
    if (opened) {
      HttpResponse response = shown(opened->file_name, opened->content_type);
      response.source = std::make_shared<LocalBody>(std::move(opened->pieces));
      return respond(std::move(response));
    }
    if (!is_for_others(opened.error())) return respond(problem(opened.error()));
  }
  port_.open_run_file(name, trial, file,
                      later<RemoteFile>(respond, [shown, to_here = to_here_](const Result<RemoteFile>& opened) {
                        HttpResponse response = shown(opened->file_name, opened->content_type);
                        response.source = std::make_shared<RemoteBody>(opened->pieces, opened->length, to_here);
                        return response;
                      }));
}

}  // namespace volador::dashboard
