// The table of routes, and the matching of requests.
#include "dashboard/api.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "dashboard/operation_json.h"
#include "dashboard/row_list.h"
#include "dashboard/row_members.h"
#include "runtime/nearest_word.h"

namespace volador::dashboard {
namespace {

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

// Matches "{name}:drain" with "heron:drain".
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

const std::vector<Api::Parameter> kListQuery{
    {"filter", "terms joined by spaces: state=alive, metrics.loss<0.1, or a word that the row contains"},
    {"order", "a member to sort by, as metrics.loss; with - before it the greatest first"},
    {"fields", "members of a row that are wanted, joined by commas: id,state,metrics.loss; all where not given"},
    {"page_size", "rows at a time, 1000 where not given, at most 20000", 1, RowList::kPageMax},
    {"page_token", "next_page_token of the page before", 0, RowList::kTokenMax}};

std::vector<Api::Parameter> with_list_query(std::vector<Api::Parameter> more) {
  std::vector<Api::Parameter> all = kListQuery;
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

const BodyField kRequestId{"request_id", BodyField::Type::kText,
                           "of your choice: the same one gets the same answer and does nothing twice"};

}  // namespace

// Adds the routes of the catalogue.
std::vector<Api::Route> Api::with_operations(std::vector<Route> routes) {
  for (const operations::Entry& operation : operations::catalogue()) {
    for (const v1::HttpRoute& http : operation.rule->http()) {
      routes.push_back({.method = http.method(),
                        .pattern = http.path(),
                        .access = operation.rule->access() == v1::READ     ? Access::kViewer
                                  : operation.rule->access() == v1::SUBMIT ? Access::kUser
                                                                           : Access::kOperator,
                        .about = http.about(),
                        .query = {},
                        .body = http.example().empty() ? std::string_view("{}") : std::string_view(http.example()),
                        .handler = &Api::operate,
                        .fields = body_fields_of(operation, http),
                        .operation = &operation,
                        .http = &http});
    }
  }
  return routes;
}

std::span<const Api::Route> Api::routes() {
  static const std::vector<Route> kRoutes = with_operations({
      {"GET", "/api/v1/cluster", Access::kViewer, "The cluster as one row", {}, "", &Api::cluster},
      {"GET", "/api/v1/nodes", Access::kViewer, "Nodes", kListQuery, "", &Api::nodes},
      {"GET", "/api/v1/actors", Access::kViewer, "Actors", kListQuery, "", &Api::actors},
      {"GET", "/api/v1/drivers", Access::kViewer, "Programs that are connected, or may come back", kListQuery, "",
       &Api::drivers},
      {"GET", "/api/v1/queue", Access::kViewer, "What waits for a place, and why", kListQuery, "", &Api::queue},
      {"GET",
       "/api/v1/actors/{id}/metrics",
       Access::kViewer,
       "The measures that an actor has of its own, by its whole id",
       {},
       "",
       &Api::actor_metrics},
      {"GET", "/api/v1/groups", Access::kViewer, "Placement groups with their bundles", kListQuery, "", &Api::groups},
      {"GET", "/api/v1/objects", Access::kViewer, "The 1000 largest objects in the nodes' stores, asked of them now",
       kListQuery, "", &Api::objects},
      {"GET", "/api/v1/object_groups", Access::kViewer, "Objects by the program line that put them", kListQuery, "",
       &Api::object_groups},
      {"GET", "/api/v1/object_stores", Access::kViewer, "How full the nodes' object stores are", kListQuery, "",
       &Api::object_stores},
      {"GET", "/api/v1/experiments", Access::kViewer, "Experiments with their best trial so far", kListQuery, "",
       &Api::experiments},
      {"GET", "/api/v1/trials", Access::kViewer, "Trials of all experiments", kListQuery, "", &Api::trials},
      {"GET", "/api/v1/experiments/{name}/trials", Access::kViewer, "Trials of an experiment", kListQuery, "",
       &Api::experiment_trials},
      {"GET",
       "/api/v1/experiments/{name}/curves",
       Access::kViewer,
       "Learning curves: a metric over the steps of every trial",
       {{"metric", "its name; the one that the experiment optimises where not given"},
        {"points", "at most so many a trial, 200 where not given", 2, 10'000}},
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
        {"name",
         "only of this measure: cpu_cores_used, memory_bytes_used, cpus_granted, gpus_granted, disk_read_bytes_per_s, "
         "gpu0_utilization_ratio"},
        {"from_ms", "Unix time; an hour ago where not given", 0, kTimeMostMs},
        {"to_ms", "Unix time; now where not given", 0, kTimeMostMs},
        {"points", "at most so many of each, 600 where not given", 1, 10'000}},
       "",
       &Api::series},
      {"GET", "/api/v1/events", Access::kViewer, "What happened, newest first; the last 10000", kListQuery, "",
       &Api::events},
      {"GET",
       "/api/v1/explain",
       Access::kViewer,
       "Why an actor, trial, placement group or node is as it is",
       {{"id", "an id, the start of one, or a name"}},
       "",
       &Api::explain},
      {"GET",
       "/api/v1/logs",
       Access::kViewer,
       "The newest lines of an actor or trial (id), or of a node with what its actors wrote",
       {{"id", "of an actor or trial"},
        {"node", "its name"},
        {"tail", "lines, 100 where not given, at most 10000", 1, 10'000}},
       "",
       &Api::logs},
      {"GET",
       "/api/v1/logs/lines",
       Access::kViewer,
       "Some lines of the whole log of an actor, a trial or a node's worker, by their numbers; or what a search finds "
       "in it, and from which line it goes on",
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
      {"GET",
       "/api/v1/actors/{id}/stack",
       Access::kViewer,
       "Where the threads of an actor's process are, the innermost function first; id as of explain",
       {},
       "",
       &Api::stack},
      {"GET",
       "/api/v1/nodes/{name}/processes",
       Access::kViewer,
       "Processes of the cluster on a node: head, worker, programs, actors, spare ones and templates; asked of the "
       "node",
       {},
       "",
       &Api::processes},
      {"GET",
       "/api/v1/timeline",
       Access::kViewer,
       "Calls and tasks that processes ran lately, as Chrome and Perfetto read them; at most 200000 events",
       {{"id", "of an actor: of its process only"},
        {"limit", "events of each thread, all where not given", 1, 1'000'000}},
       "",
       &Api::timeline},
      {"GET",
       "/api/v1/experiments/{name}/trials.csv",
       Access::kViewer,
       "Trials with their configuration and last metrics, to be saved",
       {},
       "",
       &Api::trials_table},
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
      {"GET",
       "/api/v1/experiments/{name}/files",
       Access::kViewer,
       "Files in the directory of a run; 409 where nobody of the cluster is on its machine",
       {},
       "",
       &Api::files},
      {"GET",
       "/api/v1/experiments/{name}/files/{file}",
       Access::kViewer,
       "One of them, to be saved",
       {},
       "",
       &Api::file},
      {"GET",
       "/api/v1/experiments/{name}/trials/{trial}/files",
       Access::kViewer,
       "Files and checkpoints of a trial",
       {},
       "",
       &Api::trial_files},
      {"GET",
       "/api/v1/experiments/{name}/trials/{trial}/files/{file}",
       Access::kViewer,
       "One of them, to be saved; a checkpoint as a tar file",
       {},
       "",
       &Api::trial_file},
      {"GET", "/api/v1/audit", Access::kOperator,
       "Who asked the cluster to change what, and what came of it, newest first; the last 10000", kListQuery, "",
       &Api::audit},
      {"GET", "/api/v1/users", Access::kOperator, "Users; never their passwords", kListQuery, "", &Api::list_users},
      {"GET", "/api/v1/user_groups", Access::kOperator, "Groups of users and their members", kListQuery, "",
       &Api::list_user_groups},
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
      {"GET", "/api/v1/studies", Access::kViewer, "Shared studies with the best of each so far", kListQuery, "",
       &Api::list_studies},
      {"POST",
       "/api/v1/studies",
       Access::kOperator,
       "Make a study: workers ask it for configurations and tell it what came of them",
       {},
       R"({"name":"digits","space":{"lr":{"loguniform":[0.0001,0.1]},"batch":{"choice":[16,32,64]}},"objectives":[{"metric":"loss","mode":"min"}]})",
       &Api::create_study,
       {kRequestId,
        {"name", BodyField::Type::kText, "letters, digits, _ - and .; at most 64", true},
        {"space", BodyField::Type::kObject,
         "parameters; a domain is an object with its name: {\"lr\":{\"loguniform\":[0.0001,0.1]}}", true},
        {"objectives", BodyField::Type::kObjectives, "one; several with searchers that take them", true},
        {"searcher", BodyField::Type::kText,
         "tpe where not given; random, grid, gp, trees, cmaes, nsga2, bohb, sobol, halton, with options as "
         "tpe:n_startup_trials=5"},
        {"scheduler", BodyField::Type::kText,
         "asha:max_t=81, median_stopping, percentile or wilcoxon; none where not given"},
        {"seed", BodyField::Type::kInteger, "makes proposals repeat; 0 where not given"},
        {"max_trials", BodyField::Type::kInteger, "0: as many as a study may have, 20000"},
        {"lease_s", BodyField::Type::kInteger,
         "how long a worker may say nothing of its trial; 600 where not given, 0 for ever"},
        {"max_retries", BodyField::Type::kInteger,
         "how often a trial whose lease ended is given out again; 2 where not given"},
        {"load_if_exists", BodyField::Type::kBoolean,
         "a study of this name and definition is the answer, not an error"}}},
      {"GET", "/api/v1/studies/{name}", Access::kViewer, "A study with its best trials", {}, "", &Api::get_study},
      {"DELETE",
       "/api/v1/studies/{name}",
       Access::kOperator,
       "Delete a study with its trials",
       {{"request_id", "the same one gets the same answer and does nothing twice"}},
       "",
       &Api::delete_study},
      {"GET", "/api/v1/studies/{name}/trials", Access::kViewer, "Trials of a study by their number", kListQuery, "",
       &Api::list_study_trials},
      {"POST",
       "/api/v1/studies/{name}:ask",
       Access::kOperator,
       "Get trials to run",
       {},
       R"({"count":1,"worker":"heron-3"})",
       &Api::ask_study,
       {kRequestId,
        {"count", BodyField::Type::kInteger, "1 where not given, at most 100"},
        {"worker", BodyField::Type::kText, "who asks, for people"}}},
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
       {kRequestId,
        {"step", BodyField::Type::kInteger, "from 1; without it only the lease is renewed"},
        {"value", BodyField::Type::kNumber, "of the metric at that step"}}},
      {"GET", "/api/v1/jobs", Access::kViewer, "Jobs, newest first", kListQuery, "", &Api::list_jobs},
      {"GET",
       "/api/v1/jobs/{job}",
       Access::kViewer,
       "A job with its ranks, by its id, its number, or a name that only it has",
       {},
       "",
       &Api::get_job},
      {"POST",
       "/api/v1/job_files",
       Access::kUser,
       "Send a part of the archive of a code folder; the first one at offset 0, the others in order",
       {},
       R"({"sha256":"9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"})",
       &Api::put_job_files,
       {{"sha256", BodyField::Type::kText, "of the archive, 64 hex digits", true},
        {"size_bytes", BodyField::Type::kInteger, "of the whole archive"},
        {"offset", BodyField::Type::kInteger, "where the part begins"},
        {"data", BodyField::Type::kBytes,
         "the part, in base64; without it the reply says whether the head has the archive"}}},
      {"GET", "/api/v1/job_usage", Access::kViewer, "What jobs used, by day, project and owner", kListQuery, "",
       &Api::list_usage},
      {"GET",
       "/api/v1/job_queue",
       Access::kViewer,
       "Pools, projects and settings of the job queue",
       {},
       "",
       &Api::get_queue},
      {"GET", "/api/v1/determined/experiments", Access::kViewer,
       "Experiments in the form of Determined, newest first; the last 10000", kListQuery, "",
       &Api::list_determined_experiments},
      {"GET",
       "/api/v1/determined/experiments/{id}",
       Access::kViewer,
       "One of them with its configuration, secrets hidden",
       {},
       "",
       &Api::get_determined_experiment},
      {"GET",
       "/api/v1/determined/experiments/{id}/code",
       Access::kUser,
       "A piece of the archive of its code folder: at most 1 MiB, in base64",
       {{"offset", "where it begins, 0 where not given", 0, kCodeBytesMost}},
       "",
       &Api::get_experiment_code},
      {"GET", "/api/v1/determined/experiments/{id}/trials", Access::kViewer,
       "Its trials by their number; the first 10000", kListQuery, "", &Api::list_determined_trials},
      {"GET", "/api/v1/determined/experiments/{id}/checkpoints", Access::kViewer,
       "Checkpoints of its trials, newest first, also deleted ones", kListQuery, "", &Api::list_experiment_checkpoints},
      {"GET", "/api/v1/determined/trials/{id}", Access::kViewer, "A trial", {}, "", &Api::get_determined_trial},
      {"GET",
       "/api/v1/determined/trials/{trial}/metrics",
       Access::kViewer,
       "Series of a trial's metrics over the batches that it trained",
       {{"group", "validation where not given, training, or another one that the program reported"},
        {"metrics", "names joined by commas; all where not given"},
        {"from_batch", "only from these batches on", 0, kBatchesMost},
        {"to_batch", "only up to these batches", 0, kBatchesMost},
        {"points", "at most so many of each, 1000 where not given; more are thinned out", 2, 100'000}},
       "",
       &Api::get_trial_metrics},
      {"GET", "/api/v1/determined/trials/{trial}/checkpoints", Access::kViewer,
       "Checkpoints of a trial, newest first, also deleted ones", kListQuery, "", &Api::list_trial_checkpoints},
      {"GET",
       "/api/v1/determined/checkpoints/{id}",
       Access::kViewer,
       "A checkpoint, by its id or the start of exactly one",
       {},
       "",
       &Api::get_checkpoint},
      {"GET", "/api/v1/katib/resources", Access::kViewer,
       "Resources of kind Experiment, Suggestion, Trial, Job, PyTorchJob, TFJob, MPIJob and TrainJob",
       with_list_query({{"kind", "only of this kind"},
                        {"namespace", "only of this namespace"},
                        {"name", "only with this name"},
                        {"labels", "only with these labels: katib.kubeflow.org/experiment=random,team=a"}}),
       "", &Api::list_katib_resources},
      {"GET",
       "/api/v1/katib/algorithms",
       Access::kViewer,
       "Algorithms that a resource of kind Experiment may name, with their settings",
       {},
       "",
       &Api::list_katib_algorithms},
      {"GET", "/api/v1/models", Access::kViewer,
       "Models of the registry, the last changed first, also archived ones; 10000 at most", kListQuery, "",
       &Api::list_models},
      {"GET", "/api/v1/models/{model}", Access::kViewer, "A model, by its name or id", {}, "", &Api::get_model},
      {"GET", "/api/v1/models/{model}/versions", Access::kViewer,
       "Versions of a model with their checkpoints, newest first; the last 10000", kListQuery, "",
       &Api::list_model_versions},
      {"GET",
       "/api/v1/models/{model}/versions/{version}",
       Access::kViewer,
       "A version of a model, by its number or an alias",
       {},
       "",
       &Api::get_model_version},
      {"GET", "/api/v1/openapi.json", Access::kViewer, "This description", {}, "", &Api::describe},
      {"GET", "/metrics", Access::kViewer, "For Prometheus", {}, "", &Api::metrics},
  });
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
  if (of_one)
    pattern = topic == "trials"         ? "/api/v1/experiments/{name}/trials"
              : topic == "study_trials" ? "/api/v1/studies/{name}/trials"
                                        : "";
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
  return check_members(route.pattern, query);
}

}  // namespace volador::dashboard
