#include "dashboard/api.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "dashboard/actor_metrics.h"
#include "dashboard/api_later.h"
#include "dashboard/json_text.h"
#include "dashboard/process_json.h"
#include "dashboard/row_list.h"
#include "dashboard/row_text.h"
#include "runtime/duration_histogram.h"
#include "runtime/nearest_word.h"
#include "runtime/version.h"

namespace volador::dashboard {
namespace {

std::string_view title_of(int status) {
  switch (status) {
    case 400: return "Bad request";
    case 401: return "Sign in first";
    case 403: return "Not allowed";
    case 404: return "Not found";
    case 405: return "Method not allowed";
    case 409: return "Not possible";
    case 421: return "Another host";
    case 429: return "Too many requests";
    case 503: return "Not available now";
    case 504: return "Too late";
    default: return "Error";
  }
}

int status_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument: return 400;
    case ErrorCode::kUnauthenticated: return 401;
    case ErrorCode::kPermissionDenied: return 403;
    case ErrorCode::kNotFound:
    case ErrorCode::kObjectLost: return 404;
    case ErrorCode::kInfeasible:
    case ErrorCode::kCancelled:
    case ErrorCode::kActorDied: return 409;
    case ErrorCode::kStoreFull:
    case ErrorCode::kUnavailable: return 503;
    case ErrorCode::kTimeout: return 504;
    case ErrorCode::kUnknownOutcome:
    case ErrorCode::kInternal:
    case ErrorCode::kApplication: return 500;
  }
  return 500;
}

std::vector<std::string_view> segments_of(std::string_view path) {
  std::vector<std::string_view> out;
  path.remove_prefix(std::min<size_t>(1, path.size()));
  while (true) {
    const size_t end = std::min(path.find('/'), path.size());
    out.push_back(path.substr(0, end));
    if (end == path.size()) return out;
    path.remove_prefix(end + 1);
  }
}

// "{name}:drain" against "heron:drain".
bool matches(std::string_view pattern, std::string_view segment, std::map<std::string, std::string>& parameters) {
  if (!pattern.starts_with('{')) return pattern == segment;
  const size_t end = pattern.find('}');
  const std::string_view suffix = pattern.substr(end + 1);
  if (!segment.ends_with(suffix) || segment.size() == suffix.size()) return false;
  const std::string_view value = segment.substr(0, segment.size() - suffix.size());
  if (suffix.empty() && value.find(':') != std::string_view::npos) return false;
  parameters[std::string(pattern.substr(1, end - 1))] = value;
  return true;
}

std::string token_json(const v1::Token& token, int64_t now_ms) {
  std::string text;
  JsonObject row(text);
  row.text("id", token.id());
  row.text("role", token.role());
  row.integer("created_ms", token.created_wall_ns() / 1'000'000);
  row.integer("expires_ms", token.expires_wall_ns() / 1'000'000);
  const bool expired = token.expires_wall_ns() != 0 && token.expires_wall_ns() / 1'000'000 <= now_ms;
  row.text("state", token.revoked() ? "revoked" : expired ? "expired" : "active");
  row.text("note", token.note());
  row.end();
  return text;
}

const std::vector<Api::Parameter> kListQuery{{"filter", "terms joined by spaces: state=alive, metrics.loss<0.1, or a word that the row contains"},
                                             {"order", "a member to sort by, as metrics.loss; with - before it the greatest first"},
                                             {"fields", "members of a row that are wanted, joined by commas: id,state,metrics.loss; all where not given"},
                                             {"page_size", "rows at a time, 1000 where not given, at most 20000", 1, RowList::kPageMax},
                                             {"page_token", "next_page_token of the page before", 0, RowList::kTokenMax}};

constexpr int64_t kTimeMostMs = int64_t{1} << 45;
constexpr int64_t kLineMost = int64_t{1} << 52;

const BodyField kRequestId{"request_id", BodyField::Type::kText, "of your choice: the same one gets the same answer and does nothing twice"};

}  // namespace

HttpResponse json_response(std::string body, int status) {
  return {.status = status, .content_type = "application/json", .body = std::move(body), .headers = {{"Cache-Control", "no-store"}}};
}

HttpResponse problem(int status, const Error& error, std::string_view next) {
  std::string body;
  JsonObject object(body);
  object.text("type", "about:blank");
  object.text("title", title_of(status));
  object.integer("status", status);
  object.text("code", to_string(error.code));
  object.text("detail", error.message);
  object.text("next", next);
  object.end();
  return {.status = status, .content_type = "application/problem+json", .body = std::move(body), .headers = {{"Cache-Control", "no-store"}}};
}

HttpResponse problem(const Error& error) { return problem(status_of(error.code), error); }

std::span<const Api::Route> Api::routes() {
  static const std::vector<Route> kRoutes{
      {"GET", "/api/v1/cluster", Access::kViewer, "The cluster as one row", {}, "", &Api::cluster},
      {"GET", "/api/v1/nodes", Access::kViewer, "Nodes", kListQuery, "", &Api::nodes},
      {"GET", "/api/v1/actors", Access::kViewer, "Actors", kListQuery, "", &Api::actors},
      {"GET", "/api/v1/drivers", Access::kViewer, "Programs that are connected, or may come back", kListQuery, "", &Api::drivers},
      {"GET", "/api/v1/queue", Access::kViewer, "What waits for a place, and why", kListQuery, "", &Api::queue},
      {"GET", "/api/v1/actors/{id}/metrics", Access::kViewer, "The measures that an actor has of its own, by its whole id", {}, "", &Api::actor_metrics},
      {"GET", "/api/v1/groups", Access::kViewer, "Placement groups with their bundles", kListQuery, "", &Api::groups},
      {"GET", "/api/v1/objects", Access::kViewer, "The 1000 largest objects in the nodes' stores, asked of them now", kListQuery, "", &Api::objects},
      {"GET", "/api/v1/object_groups", Access::kViewer, "Objects by the program line that put them", kListQuery, "", &Api::object_groups},
      {"GET", "/api/v1/object_stores", Access::kViewer, "How full the nodes' object stores are", kListQuery, "", &Api::object_stores},
      {"GET", "/api/v1/experiments", Access::kViewer, "Experiments with their best trial so far", kListQuery, "", &Api::experiments},
      {"GET", "/api/v1/trials", Access::kViewer, "Trials of all experiments", kListQuery, "", &Api::trials},
      {"GET", "/api/v1/experiments/{name}/trials", Access::kViewer, "Trials of an experiment", kListQuery, "", &Api::experiment_trials},
      {"GET",
       "/api/v1/experiments/{name}/curves",
       Access::kViewer,
       "Learning curves: a metric over the steps of every trial",
       {{"metric", "its name; the one that the experiment optimises where not given"}, {"points", "at most so many a trial, 200 where not given", 2, 10'000}},
       "",
       &Api::curves},
      {"GET",
       "/api/v1/series",
       Access::kViewer,
       "Measures over time",
       {{"node", "only of this node"},
        {"actor", "of this actor, by its whole id, instead: cpu_cores, memory_bytes, calls_per_s, call_ms"},
        {"experiment", "with trial: of the actors that ran this trial, instead"},
        {"trial", "its whole id"},
        {"name", "only of this measure: cpu_cores_used, memory_bytes_used, cpus_granted, gpus_granted, disk_read_bytes_per_s, gpu0_utilization_ratio"},
        {"from_ms", "Unix time; an hour ago where not given", 0, kTimeMostMs},
        {"to_ms", "Unix time; now where not given", 0, kTimeMostMs},
        {"points", "at most so many of each, 600 where not given", 1, 10'000}},
       "",
       &Api::series},
      {"GET", "/api/v1/events", Access::kViewer, "What happened, newest first; the last 10000", kListQuery, "", &Api::events},
      {"GET", "/api/v1/explain", Access::kViewer, "Why an actor, trial, placement group or node is as it is", {{"id", "an id, the start of one, or a name"}}, "", &Api::explain},
      {"GET",
       "/api/v1/logs",
       Access::kViewer,
       "The newest lines of an actor or trial (id), or of a node with what its actors wrote",
       {{"id", "of an actor or trial"}, {"node", "its name"}, {"tail", "lines, 100 where not given, at most 10000", 1, 10'000}},
       "",
       &Api::logs},
      {"GET",
       "/api/v1/logs/lines",
       Access::kViewer,
       "Some lines of the whole log of an actor, a trial or a node's worker, by their numbers; or what a search finds in it, and from which line it goes on",
       {{"id", "of an actor or trial"},
        {"node", "its name: the log of its worker"},
        {"stream", "out (as where not given) or err"},
        {"run", "of an actor that was restarted, from 1 on; the newest where not given", 1, 1'000'000},
        {"from", "a line's number; where not given the newest lines, or the start of a search", 1, kLineMost},
        {"lines", "at most, 200 where not given", 1, 1000},
        {"find", "only lines that hold this text, whatever the case of A to Z"},
        {"trouble", "1: only lines that tell of an error", 0, 1},
        {"backward", "1: the search goes to older lines, from the newest where no line is given", 0, 1}},
       "",
       &Api::log_lines},
      {"GET", "/api/v1/actors/{id}/stack", Access::kViewer, "Where the threads of an actor's process are, the innermost function first; id as of explain", {}, "", &Api::stack},
      {"GET", "/api/v1/nodes/{name}/processes", Access::kViewer, "Processes of a node's worker: actors, spare ones and itself; asked of the node", {}, "", &Api::processes},
      {"GET",
       "/api/v1/timeline",
       Access::kViewer,
       "Calls and tasks that processes ran lately, as Chrome and Perfetto read them; at most 200000 events",
       {{"id", "of an actor: of its process only"}, {"limit", "events of each thread, all where not given", 1, 1'000'000}},
       "",
       &Api::timeline},
      {"POST", "/api/v1/nodes/{name}:drain", Access::kOperator, "Place nothing new on a node, or undo that", {}, R"({"undo":false})", &Api::drain,
       {kRequestId, {"undo", BodyField::Type::kBoolean, "take the drain back"}}},
      {"POST", "/api/v1/actors/{id}:kill", Access::kOperator, "Kill an actor: what it has under way fails; id as of explain", {}, R"({"restart":false})", &Api::kill,
       {kRequestId, {"restart", BodyField::Type::kBoolean, "start it again where it has restarts left; else, and where not given, it ends for good"}}},
      {"POST",
       "/api/v1/experiments/{name}:stop",
       Access::kOperator,
       "Stop an experiment, or one of its trials: they save a checkpoint where they can, and end",
       {},
       R"({"trial":""})",
       &Api::stop_experiment,
       {kRequestId, {"trial", BodyField::Type::kText, "its id, or the start of it; empty: the whole experiment"}}},
      {"POST",
       "/api/v1/experiments/{name}:pause",
       Access::kOperator,
       "Pause an experiment, or one of its trials: they save a checkpoint and give their places back",
       {},
       R"({"trial":""})",
       &Api::pause_experiment,
       {kRequestId, {"trial", BodyField::Type::kText, "its id, or the start of it; empty: the whole experiment"}}},
      {"POST",
       "/api/v1/experiments/{name}:resume",
       Access::kOperator,
       "Go on with an experiment or a trial that was paused",
       {},
       R"({"trial":""})",
       &Api::resume_experiment,
       {kRequestId, {"trial", BodyField::Type::kText, "its id, or the start of it; empty: the whole experiment"}}},
      {"POST",
       "/api/v1/experiments/{name}:add",
       Access::kOperator,
       "Have an experiment try a configuration besides those of its searcher",
       {},
       R"({"config":{"lr":0.01}})",
       &Api::add_to_experiment,
       {kRequestId, {"config", BodyField::Type::kObject, "parameters by name, as the experiment's space may draw them; those left out are drawn", true}}},
      {"POST",
       "/api/v1/experiments/{name}:annotate",
       Access::kOperator,
       "Tags, note and archive of a run; what is left out stays as it is",
       {},
       R"({"add_tags":["baseline"],"remove_tags":[],"note":"","archived":false})",
       &Api::annotate_experiment,
       {kRequestId,
        {"add_tags", BodyField::Type::kTexts, "1 to 64 characters each, without a space or comma; at most 32 of an experiment"},
        {"remove_tags", BodyField::Type::kTexts, "those that are not there have no effect"},
        {"note", BodyField::Type::kText, "at most 16 KiB; empty: none any more"},
        {"archived", BodyField::Type::kBoolean, "lists of people leave it out"}}},
      {"GET", "/api/v1/experiments/{name}/trials.csv", Access::kViewer, "Trials with their configuration and last metrics, to be saved", {}, "", &Api::trials_table},
      {"GET",
       "/api/v1/experiments/{name}/curves.csv",
       Access::kViewer,
       "Learning curves, a point a row, to be saved",
       {{"metric", "its name; all where not given"}},
       "",
       &Api::curves_table},
      {"GET",
       "/api/v1/experiments/{name}/config",
       Access::kViewer,
       "The configuration of a trial, to be saved",
       {{"trial", "its whole id; the best one's where not given"}, {"format", "json (as where not given) or yaml"}},
       "",
       &Api::config},
      {"GET", "/api/v1/experiments/{name}/files", Access::kViewer, "Files in the directory of a run; 409 where nobody of the cluster is on its machine", {}, "", &Api::files},
      {"GET", "/api/v1/experiments/{name}/files/{file}", Access::kViewer, "One of them, to be saved", {}, "", &Api::file},
      {"GET", "/api/v1/experiments/{name}/trials/{trial}/files", Access::kViewer, "Files and checkpoints of a trial", {}, "", &Api::trial_files},
      {"GET", "/api/v1/experiments/{name}/trials/{trial}/files/{file}", Access::kViewer, "One of them, to be saved; a checkpoint as a tar file", {}, "", &Api::trial_file},
      {"GET", "/api/v1/tokens", Access::kOperator, "Tokens; never their secrets", {}, "", &Api::tokens},
      {"POST",
       "/api/v1/tokens",
       Access::kOperator,
       "Make a token; its text is shown this once",
       {},
       R"({"role":"viewer","valid_for_s":86400,"note":"for the wall screen"})",
       &Api::create_token,
       {kRequestId,
        {"role", BodyField::Type::kText, "join, driver, viewer or operator", true},
        {"valid_for_s", BodyField::Type::kInteger, "0: without end; a day where not given; at most ten years"},
        {"note", BodyField::Type::kText, "whom it is for"}}},
      {"POST", "/api/v1/tokens/{id}:revoke", Access::kOperator, "Make a token worthless; sessions made with it end", {}, "{}", &Api::revoke_token, {kRequestId}},
      {"GET", "/api/v1/studies", Access::kViewer, "Shared studies with the best of each so far", kListQuery, "", &Api::list_studies},
      {"POST",
       "/api/v1/studies",
       Access::kOperator,
       "Make a study: workers ask it for configurations and tell it what came of them",
       {},
       R"({"name":"digits","space":{"lr":{"loguniform":[0.0001,0.1]},"batch":{"choice":[16,32,64]}},"objectives":[{"metric":"loss","mode":"min"}]})",
       &Api::create_study,
       {kRequestId,
        {"name", BodyField::Type::kText, "letters, digits, _ - and .; at most 64", true},
        {"space", BodyField::Type::kObject, "parameters; a domain is an object with its name: {\"lr\":{\"loguniform\":[0.0001,0.1]}}", true},
        {"objectives", BodyField::Type::kObjectives, "one; several with searchers that take them", true},
        {"searcher", BodyField::Type::kText, "tpe where not given; random, grid, gp, cmaes, nsga2, bohb, sobol, halton, with options as tpe:n_startup_trials=5"},
        {"scheduler", BodyField::Type::kText, "asha:max_t=81, median_stopping, percentile or wilcoxon; none where not given"},
        {"seed", BodyField::Type::kInteger, "makes proposals repeat; 0 where not given"},
        {"max_trials", BodyField::Type::kInteger, "0: as many as a study may have, 20000"},
        {"lease_s", BodyField::Type::kInteger, "how long a worker may say nothing of its trial; 600 where not given, 0 for ever"},
        {"max_retries", BodyField::Type::kInteger, "how often a trial whose lease ended is given out again; 2 where not given"},
        {"load_if_exists", BodyField::Type::kBoolean, "a study of this name and definition is the answer, not an error"}}},
      {"GET", "/api/v1/studies/{name}", Access::kViewer, "A study with its best trials", {}, "", &Api::get_study},
      {"DELETE",
       "/api/v1/studies/{name}",
       Access::kOperator,
       "Delete a study with its trials",
       {{"request_id", "the same one gets the same answer and does nothing twice"}},
       "",
       &Api::delete_study},
      {"GET", "/api/v1/studies/{name}/trials", Access::kViewer, "Trials of a study by their number", kListQuery, "", &Api::list_study_trials},
      {"POST",
       "/api/v1/studies/{name}:ask",
       Access::kOperator,
       "Get trials to run",
       {},
       R"({"count":1,"worker":"heron-3"})",
       &Api::ask_study,
       {kRequestId, {"count", BodyField::Type::kInteger, "1 where not given, at most 100"}, {"worker", BodyField::Type::kText, "who asks, for people"}}},
      {"POST",
       "/api/v1/studies/{name}/trials/{number}:tell",
       Access::kOperator,
       "Say how a trial ended",
       {},
       R"({"values":[0.12]})",
       &Api::tell_study,
       {kRequestId,
        {"state", BodyField::Type::kText, "complete where not given, pruned or fail"},
        {"values", BodyField::Type::kNumbers, "of the objectives; one that is not finite makes it a failed trial"},
        {"reason", BodyField::Type::kText, "why it failed, for people"}}},
      {"POST",
       "/api/v1/studies/{name}/trials/{number}:report",
       Access::kOperator,
       "Say how a trial does, which renews its lease, and hear whether it should stop",
       {},
       R"({"step":1,"value":0.5})",
       &Api::report_study,
       {kRequestId, {"step", BodyField::Type::kInteger, "from 1; without it only the lease is renewed"}, {"value", BodyField::Type::kNumber, "of the metric at that step"}}},
      {"GET", "/api/v1/openapi.json", Access::kViewer, "This description", {}, "", &Api::describe},
      {"GET", "/metrics", Access::kViewer, "For Prometheus", {}, "", &Api::metrics},
  };
  return kRoutes;
}

Api::Match Api::match(std::string_view method, std::string_view path) {
  Match out;
  const auto segments = segments_of(path);
  const std::string_view wanted = method == "HEAD" ? "GET" : method;
  for (const Route& route : routes()) {
    const auto pattern = segments_of(route.pattern);
    if (pattern.size() != segments.size()) continue;
    std::map<std::string, std::string> parameters;
    bool fits = true;
    for (size_t at = 0; at < pattern.size() && fits; ++at) fits = matches(pattern[at], segments[at], parameters);
    if (!fits) continue;
    out.allowed += (out.allowed.empty() ? "" : ", ") + std::string(route.method);
    if (route.method != wanted) continue;
    out.route = &route;
    out.parameters = std::move(parameters);
  }
  return out;
}

const Api::Route* Api::list_of(std::string_view topic, bool of_one) {
  std::string pattern = fmt::format("/api/v1/{}", topic);
  if (of_one) pattern = topic == "trials" ? "/api/v1/experiments/{name}/trials" : topic == "study_trials" ? "/api/v1/studies/{name}/trials" : "";
  for (const Route& route : routes()) {
    const bool lists = !route.query.empty() && route.query.front().name == "filter";
    if (lists && route.pattern == pattern) return &route;
  }
  return nullptr;
}

Result<void> Api::check_query(const Route& route, const std::map<std::string, std::string>& query) {
  std::vector<std::string> names;
  for (const Parameter& one : route.query) names.emplace_back(one.name);
  for (const auto& [name, value] : query) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    const std::string shown = name.substr(0, 80);
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("query: there is no member \"{}\"{}; known: {}", shown, did_you_mean(shown, names),
                                  names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))));
  }
  return {};
}

void Api::answer(const Route& route, Call call, const Respond& respond) {
  if (const auto known = check_query(route, call.query); !known) return respond(problem(known.error()));
  nlohmann::ordered_json json;
  if (!route.body.empty()) {
    auto parsed = parse_body(call.body, route.fields);
    if (!parsed) return respond(problem(parsed.error()));
    json = std::move(*parsed);
    call.json = &json;
  }
  // Studies keep the ids of their requests themselves, on disk.
  const bool remembers = !route.body.empty() && !route.pattern.starts_with("/api/v1/studies");
  const std::string id = remembers ? json.value("request_id", "") : "";
  std::string what(route.pattern);
  for (const auto& [name, value] : call.path) what += '\n' + value;
  if (const Respond answer = requests_.once({.by = call.by, .id = id, .what = what + '\n' + json.dump()}, respond)) (this->*route.handler)(call, answer);
}

void Api::list(Topic topic, const std::string& experiment, bool newest_first, const Call& call, const Respond& respond) const {
  const auto wanted = RowList::parse(call.query);
  if (!wanted) return respond(problem(wanted.error()));
  std::vector<std::string_view> rows;
  const LiveTable& table = model_.table(topic);
  const auto look_at = [&](const LiveTable::Row& row) {
    if (experiment.empty() || row.group == experiment) rows.push_back(row.text);
  };
  if (newest_first) {
    for (auto at = table.order().rbegin(); at != table.order().rend(); ++at) look_at(table.rows().at(*at->second));
  } else {
    for (const auto& [id, row] : table.rows()) look_at(row);
  }
  respond(json_response(wanted->page(rows)));
}

// Of what the nodes answer now; the largest first where no order is asked for.
void Api::list_objects(std::vector<std::string> (*rows_of)(const v1::ListObjectsReply&), const Call& call, const Respond& respond) {
  const auto wanted = RowList::parse(call.query);
  if (!wanted) return respond(problem(wanted.error()));
  port_.objects(kObjectsMax, later<v1::ListObjectsReply>(respond, [wanted = *wanted, rows_of](const Result<v1::ListObjectsReply>& found) {
                  const std::vector<std::string> rows = rows_of(*found);
                  return json_response(wanted.page({rows.begin(), rows.end()}));
                }));
}

void Api::objects(const Call& call, const Respond& respond) {
  list_objects(
      [](const v1::ListObjectsReply& found) {
        std::vector<std::string> rows;
        for (const v1::Object& object : found.objects()) rows.push_back(object_text(object));
        return rows;
      },
      call, respond);
}
void Api::object_groups(const Call& call, const Respond& respond) {
  list_objects(
      [](const v1::ListObjectsReply& found) {
        std::vector<std::string> rows;
        for (const v1::ObjectGroup& group : found.groups()) rows.push_back(object_group_text(group));
        return rows;
      },
      call, respond);
}
void Api::object_stores(const Call& call, const Respond& respond) {
  list_objects(
      [](const v1::ListObjectsReply& found) {
        std::vector<std::string> rows;
        for (const v1::ObjectStore& store : found.stores()) rows.push_back(object_store_text(store));
        return rows;
      },
      call, respond);
}

void Api::cluster(const Call& call, const Respond& respond) { list(Topic::kCluster, {}, false, call, respond); }
void Api::nodes(const Call& call, const Respond& respond) { list(Topic::kNodes, {}, false, call, respond); }
void Api::actors(const Call& call, const Respond& respond) { list(Topic::kActors, {}, false, call, respond); }
void Api::drivers(const Call& call, const Respond& respond) { list(Topic::kDrivers, {}, false, call, respond); }
void Api::queue(const Call& call, const Respond& respond) { list(Topic::kQueue, {}, false, call, respond); }
void Api::groups(const Call& call, const Respond& respond) { list(Topic::kGroups, {}, false, call, respond); }
void Api::experiments(const Call& call, const Respond& respond) { list(Topic::kExperiments, {}, false, call, respond); }
void Api::trials(const Call& call, const Respond& respond) { list(Topic::kTrials, {}, false, call, respond); }
void Api::events(const Call& call, const Respond& respond) { list(Topic::kEvents, {}, true, call, respond); }

HttpResponse no_experiment(const std::string& name) {
  return problem(404, {ErrorCode::kNotFound, fmt::format("there is no experiment \"{}\"", name)}, "GET /api/v1/experiments shows those that there are");
}

void Api::experiment_trials(const Call& call, const Respond& respond) {
  const std::string& name = call.path.at("name");
  if (!model_.has_experiment(name)) return respond(no_experiment(name));
  list(Topic::kTrials, name, false, call, respond);
}

void Api::curves(const Call& call, const Respond& respond) {
  const std::string& name = call.path.at("name");
  if (!model_.has_experiment(name)) return respond(no_experiment(name));
  const auto points = integer_in(call.query, "points", 200, 2, 10'000);
  if (!points) return respond(problem(points.error()));
  std::string body = "{\"curves\":[";
  if (const LiveCurves* curves = model_.curves(name, text_in(call.query, "metric"))) {
    for (const auto& [trial, line] : curves->lines()) {
      if (body.back() != '[') body += ',';
      body += line_text(trial, line, LiveCurves::kAll, static_cast<size_t>(*points), "trial");
    }
  }
  respond(json_response(body + "]}"));
}

// What is measured: all whose names, with a "/" behind, begin so.
std::string Api::series_prefix(const Query& query) const {
  const std::string actor = text_in(query, "actor"), experiment = text_in(query, "experiment"), node = text_in(query, "node");
  if (!actor.empty()) return model_.series_of_actor(actor) + "/";
  if (!experiment.empty()) return "trial/" + trial_key(experiment, text_in(query, "trial")) + "/";
  return node.empty() ? "node/" : "node/" + node + "/";
}

void Api::series(const Call& call, const Respond& respond) {
  const std::string name = text_in(call.query, "name");
  const int64_t newest_s = now_ms_() / 1000;
  const auto to = integer_in(call.query, "to_ms", (newest_s + 1) * 1000, 0, kTimeMostMs);
  if (!to) return respond(problem(to.error()));
  const auto from = integer_in(call.query, "from_ms", *to - 3'600'000, 0, kTimeMostMs);
  if (!from) return respond(problem(from.error()));
  const auto points = integer_in(call.query, "points", 600, 1, 10'000);
  if (!points) return respond(problem(points.error()));
  const std::string prefix = series_prefix(call.query);
  std::string body = "{\"series\":[";
  const SeriesStore::All& all = model_.series_store().all();
  const std::string_view first = std::string_view(prefix).substr(0, prefix.size() - 1);
  for (auto at = all.lower_bound(std::string(first)); at != all.end() && at->first.starts_with(first); ++at) {
    const std::string& of = at->first;
    if (!(of + "/").starts_with(prefix)) continue;
    for (const SeriesStore::Measure& measure : at->second) {
      if (!name.empty() && name != *measure.name) continue;
      if (body.back() != '[') body += ',';
      body += series_text(of, *measure.name, measure.series.read(*from / 1000, (*to + 999) / 1000, static_cast<size_t>(*points)));
    }
  }
  respond(json_response(body + "]}"));
}

void Api::explain(const Call& call, const Respond& respond) {
  const std::string id = text_in(call.query, "id");
  if (id.empty()) return respond(problem({ErrorCode::kInvalidArgument, "explain: name an actor, trial, placement group or node with ?id="}));
  port_.explain(id, later<v1::ExplainReply>(respond, [](const Result<v1::ExplainReply>& found) {
                  std::string why = "[";
                  for (const std::string& line : found->why()) {
                    if (why.size() > 1) why += ',';
                    why += line.empty() ? "null" : line;
                  }
                  std::string body;
                  JsonObject object(body);
                  object.text("text", found->text());
                  object.raw("why", why + "]");
                  object.end();
                  return json_response(std::move(body));
                }));
}

void Api::logs(const Call& call, const Respond& respond) {
  const std::string id = text_in(call.query, "id"), node = text_in(call.query, "node");
  if (id.empty() == node.empty()) return respond(problem({ErrorCode::kInvalidArgument, "logs: name an actor or trial with ?id=, or a node with ?node="}));
  const auto tail = integer_in(call.query, "tail", 100, 1, 10'000);
  if (!tail) return respond(problem(tail.error()));
  port_.logs(id, node, static_cast<int>(*tail), later<LiveClient::FoundLogs>(respond, [](const Result<LiveClient::FoundLogs>& found) {
               std::string body = "{\"lines\":[";
               for (const v1::LogLine& line : found->lines) body += (body.back() == '[' ? "" : ",") + line_json(line);
               return json_response(body + "]}");
             }));
}

void Api::log_lines(const Call& call, const Respond& respond) {
  v1::ReadLogRequest request;
  request.set_id(text_in(call.query, "id"));
  request.set_node(text_in(call.query, "node"));
  request.set_find(text_in(call.query, "find"));
  const std::string stream = text_in(call.query, "stream");
  if (!stream.empty() && stream != "out" && stream != "err") {
    return respond(problem({ErrorCode::kInvalidArgument, fmt::format("stream: expected out or err, got \"{}\"", stream)}));
  }
  request.set_is_stderr(stream == "err");
  const auto run = integer_in(call.query, "run", 0, 1, 1'000'000);
  const auto from = integer_in(call.query, "from", 0, 1, kLineMost);
  const auto lines = integer_in(call.query, "lines", 200, 1, 1000);
  const auto trouble = integer_in(call.query, "trouble", 0, 0, 1);
  const auto backward = integer_in(call.query, "backward", 0, 0, 1);
  for (const auto* one : {&run, &from, &lines, &trouble, &backward}) {
    if (!*one) return respond(problem(one->error()));
  }
  request.set_run(static_cast<int32_t>(*run));
  request.set_from(*from);
  request.set_lines(static_cast<int32_t>(*lines));
  request.set_trouble(*trouble != 0);
  request.set_backward(*backward != 0);
  port_.read_log(request, later<v1::ReadLogReply>(respond, [](const Result<v1::ReadLogReply>& reply) { return json_response(log_part_json(*reply)); }));
}

void Api::stack(const Call& call, const Respond& respond) {
  port_.stack(call.path.at("id"), later<v1::StackReply>(respond, [](const Result<v1::StackReply>& reply) {
                return json_response(stack_object(*reply).dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
              }));
}

void Api::processes(const Call& call, const Respond& respond) {
  port_.processes(call.path.at("name"), later<v1::NodeProcesses>(respond, [](const Result<v1::NodeProcesses>& found) { return json_response(processes_text(*found)); }));
}

void Api::timeline(const Call& call, const Respond& respond) {
  const auto limit = integer_in(call.query, "limit", 0, 1, 1'000'000);
  if (!limit) return respond(problem(limit.error()));
  v1::TimelineRequest request;
  request.set_id(text_in(call.query, "id"));
  request.set_limit(static_cast<int32_t>(*limit));
  port_.timeline(request, later<v1::TimelineReply>(respond, [](const Result<v1::TimelineReply>& reply) { return json_response(chrome_trace(*reply)); }));
}

void Api::drain(const Call& call, const Respond& respond) {
  port_.drain(call.path.at("name"), call.json->value("undo", false), call.by, later<void>(respond, [](const Result<void>&) { return json_response("{}"); }));
}

void Api::kill(const Call& call, const Respond& respond) {
  v1::KillRequest request;
  request.set_actor(call.path.at("id"));
  request.set_restart(call.json->value("restart", false));
  port_.kill(request, call.by, later<v1::KillReply>(respond, [](const Result<v1::KillReply>& killed) {
               std::string body;
               JsonObject object(body);
               object.text("actor", killed->actor());
               object.text("display", killed->display());
               object.boolean("restarts", killed->restarts());
               object.end();
               return json_response(std::move(body));
             }));
}

void Api::control_experiment(const Call& call, const std::string& act, const Respond& respond) {
  v1::ControlExperimentRequest request;
  request.set_experiment(call.path.at("name"));
  request.set_trial(call.json->value("trial", ""));
  request.set_act(act);
  if (call.json->contains("config")) request.set_config(call.json->at("config").dump());
  request.set_request_id(call.json->value("request_id", ""));
  port_.control_experiment(request, call.by, later<void>(respond, [](const Result<void>&) { return json_response("{}"); }));
}

void Api::tokens(const Call&, const Respond& respond) {
  std::vector<std::string> texts;
  for (const v1::Token& token : port_.tokens()) texts.push_back(token_json(token, now_ms_()));
  respond(json_response(rows_json({texts.begin(), texts.end()}, static_cast<int64_t>(texts.size()), "")));
}

void Api::create_token(const Call& call, const Respond& respond) {
  const std::chrono::seconds valid_for(call.json->value("valid_for_s", int64_t{86'400}));
  constexpr std::chrono::seconds kMost = std::chrono::hours(24 * 3650);
  if (valid_for.count() < 0 || valid_for > kMost) {
    return respond(problem({ErrorCode::kInvalidArgument, "valid_for_s: expected 0 (without end) to ten years"}));
  }
  port_.create_token(call.json->at("role").get<std::string>(), valid_for, call.json->value("note", ""), later<NewToken>(respond, [](const Result<NewToken>& made) {
                       std::string out;
                       JsonObject object(out);
                       object.text("id", made->id);
                       object.text("role", made->role);
                       object.text("token", made->text);
                       object.end();
                       return json_response(std::move(out), 201);
                     }));
}

void Api::revoke_token(const Call& call, const Respond& respond) {
  port_.revoke_token(call.path.at("id"), later<void>(respond, [](const Result<void>&) { return json_response("{}"); }));
}

void Api::metrics(const Call&, const Respond& respond) {
  std::string out;
  const auto declare = [&out](std::string_view name, std::string_view kind, std::string_view help) {
    out += fmt::format("# HELP {0} {2}\n# TYPE {0} {1}\n", name, kind, help);
  };
  const auto label = [](std::string_view text) { return label_text(text); };
  const v1::StatusReply& totals = model_.totals();
  declare("volador_build_info", "gauge", "1, with the version as a label.");
  out += fmt::format("volador_build_info{{version=\"{}\"}} 1\n", kVersion);

  std::map<std::string, int64_t> nodes, waiting;
  struct NodeUse {
    std::string name;
    double cores = 0, memory = 0;
  };
  std::vector<NodeUse> uses;
  std::map<std::string_view, std::string> machine;  // Samples by measure.
  std::string free, total;
  for (const auto& [id, row] : model_.table(Topic::kNodes).rows()) {
    const auto node = nlohmann::json::parse(row.text, nullptr, false);
    ++nodes[node.value("state", "")];
    if (node.value("state", "") == "dead") continue;
    const std::string name = node.value("name", "");
    uses.push_back({name, node.value("cpu_cores_used", 0.0), node.value("memory_bytes_used", 0.0)});
    for (const std::string_view measure : kMachineMeasures) {
      if (const auto value = node.find(measure); value != node.end()) machine[measure] += fmt::format("volador_node_{}{{node=\"{}\"}} {}\n", measure, label(name), value->get<double>());
    }
    for (const auto& one : node.value("file_systems", nlohmann::json::array())) {
      const std::string labels = fmt::format("{{node=\"{}\",path=\"{}\"}}", label(name), label(one.value("path", "")));
      free += fmt::format("volador_node_file_system_free_bytes{} {}\n", labels, one.value("free", int64_t{0}));
      total += fmt::format("volador_node_file_system_bytes{} {}\n", labels, one.value("total", int64_t{0}));
    }
  }
  declare("volador_nodes", "gauge", "Nodes by their state.");
  for (const auto& [state, count] : nodes) out += fmt::format("volador_nodes{{state=\"{}\"}} {}\n", label(state), count);
  declare("volador_node_cpu_cores_used", "gauge", "Cores in use on a node.");
  for (const NodeUse& use : uses) out += fmt::format("volador_node_cpu_cores_used{{node=\"{}\"}} {}\n", label(use.name), use.cores);
  declare("volador_node_memory_used_bytes", "gauge", "Memory in use on a node.");
  for (const NodeUse& use : uses) out += fmt::format("volador_node_memory_used_bytes{{node=\"{}\"}} {}\n", label(use.name), use.memory);
  for (const auto& [measure, samples] : machine) {
    declare(fmt::format("volador_node_{}", measure), "gauge", "Of a node's machine, where it is measured.");
    out += samples;
  }
  if (!total.empty()) {
    declare("volador_node_file_system_free_bytes", "gauge", "Free on the file systems that a node's worker uses.");
    out += free;
    declare("volador_node_file_system_bytes", "gauge", "Size of the file systems that a node's worker uses.");
    out += total;
  }
  declare("volador_actors", "gauge", "Actors by their state; dead ones while they are remembered.");
  for (const auto& [state, count] : std::map<std::string, int64_t>(totals.actors_by_state().begin(), totals.actors_by_state().end())) {
    out += fmt::format("volador_actors{{state=\"{}\"}} {}\n", label(state), count);
  }
  const auto amounts = [&](std::string_view metric, const auto& map) {
    for (const auto& [name, amount] : std::map<std::string, int64_t>(map.begin(), map.end())) {
      out += fmt::format("{}{{resource=\"{}\"}} {}\n", metric, label(name), name == "memory" ? static_cast<double>(amount) : static_cast<double>(amount) / 10'000);
    }
  };
  declare("volador_resource_total", "gauge", "What the nodes offer; memory in bytes.");
  amounts("volador_resource_total", totals.total());
  declare("volador_resource_allocated", "gauge", "What is granted to actors; memory in bytes.");
  amounts("volador_resource_allocated", totals.used());
  std::map<std::string, int64_t> by_status;
  for (const auto& [id, row] : model_.table(Topic::kExperiments).rows()) {
    const auto experiment = nlohmann::json::parse(row.text, nullptr, false);
    const auto counts = experiment.value("trials_by_status", nlohmann::json::object());
    for (const auto& [status, count] : counts.items()) by_status[status] += count.get<int64_t>();
  }
  declare("volador_trials", "gauge", "Trials of all experiments by their status.");
  for (const auto& [status, count] : by_status) out += fmt::format("volador_trials{{status=\"{}\"}} {}\n", label(status), count);
  declare("volador_experiments", "gauge", "Experiments that the head remembers.");
  out += fmt::format("volador_experiments {}\n", model_.table(Topic::kExperiments).rows().size());
  declare("volador_queue_length", "gauge", "Actors that wait for a place.");
  out += fmt::format("volador_queue_length {}\n", model_.table(Topic::kQueue).rows().size());
  declare("volador_drivers", "gauge", "Programs that are connected or may come back.");
  out += fmt::format("volador_drivers {}\n", totals.drivers());
  declare("volador_dashboard_clients", "gauge", "Open WebSockets.");
  out += fmt::format("volador_dashboard_clients {}\n", clients);
  declare("volador_dashboard_changes_total", "counter", "Changes of rows that the API has been told of.");
  out += fmt::format("volador_dashboard_changes_total {}\n", model_.seq());
  if (const DurationHistogram* times = port_.decision_times()) {
    declare("volador_head_decision_seconds", "histogram", "From the arrival of a message at the head to what it decided, without the journal's commit.");
    const DurationHistogram::Counts counts = times->counts();
    uint64_t sum = 0;
    for (size_t at = 0; at < DurationHistogram::kUpTo.size(); ++at) {
      sum += counts.in[at];
      out += fmt::format("volador_head_decision_seconds_bucket{{le=\"{}\"}} {}\n", std::chrono::duration<double>(DurationHistogram::kUpTo[at]).count(), sum);
    }
    out += fmt::format("volador_head_decision_seconds_bucket{{le=\"+Inf\"}} {0}\nvolador_head_decision_seconds_sum {1}\nvolador_head_decision_seconds_count {0}\n", counts.total, counts.sum_s);
  }
  declare("volador_actor_series", "gauge", "Series of actors' own measures that are shown here as volador_app_….");
  out += fmt::format("volador_actor_series {}\n", model_.actor_metrics().series());
  declare("volador_actor_series_left_out", "gauge", "Further ones that are not, by the limit of an actor or of the cluster.");
  out += fmt::format("volador_actor_series_left_out {}\n", model_.actor_metrics().left_out());
  const auto& actor_rows = model_.table(Topic::kActors).rows();
  model_.actor_metrics().append_prometheus(out, [&actor_rows](const std::string& id) -> ActorMetrics::Labels {
    const auto row = actor_rows.find(id);
    if (row == actor_rows.end()) return {};
    const auto actor = nlohmann::json::parse(row->second.text, nullptr, false);
    return {.name = actor.value("name", ""), .actor_namespace = actor.value("namespace", ""), .class_name = actor.value("class_name", ""), .node = actor.value("node", "")};
  });
  respond({.content_type = "text/plain; version=0.0.4; charset=utf-8", .body = std::move(out), .headers = {{"Cache-Control", "no-store"}}});
}

void Api::actor_metrics(const Call& call, const Respond& respond) {
  const std::string& id = call.path.at("id");
  if (!model_.table(Topic::kActors).rows().contains(id)) {
    return respond(problem(404, {ErrorCode::kNotFound, fmt::format("there is no actor \"{}\"", id)}, "GET /api/v1/actors shows those that there are, with their whole ids"));
  }
  respond(json_response(actor_metrics_json(model_.actor_metrics().find(id))));
}

void Api::describe(const Call&, const Respond& respond) { respond(json_response(openapi())); }

}  // namespace volador::dashboard
