// openapi.json, generated from the table of routes.
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include <google/protobuf/descriptor.h>

#include "dashboard/api.h"
#include "dashboard/operation_json.h"
#include "runtime/protocol/volador/v1/experiments.pb.h"
#include "runtime/protocol/volador/v1/jobs.pb.h"
#include "runtime/protocol/volador/v1/models.pb.h"
#include "runtime/version.h"

namespace volador::dashboard {
namespace {

using OpenApi = nlohmann::ordered_json;

OpenApi object_of(std::initializer_list<std::pair<const char*, OpenApi>> members) {
  OpenApi properties = OpenApi::object(), required = OpenApi::array();
  for (const auto& [name, schema] : members) {
    properties[name] = schema;
    required.push_back(name);
  }
  return {{"type", "object"}, {"properties", properties}, {"required", required}};
}

// Adds optional members.
OpenApi and_perhaps(OpenApi object, std::initializer_list<std::pair<const char*, OpenApi>> members) {
  for (const auto& [name, schema] : members) object["properties"][name] = schema;
  return object;
}

const OpenApi kText{{"type", "string"}};
const OpenApi kWhole{{"type", "integer"}};
const OpenApi kTruth{{"type", "boolean"}};
const OpenApi kAny{{"type", "object"}};
OpenApi list_of(const OpenApi& items) { return {{"type", "array"}, {"items", items}}; }
OpenApi named(const char* schema) { return {{"$ref", std::string("#/components/schemas/") + schema}}; }

OpenApi schemas() {
  const OpenApi real{{"type", "number"}, {"nullable", true}};
  const OpenApi why{{"type", "array"}, {"items", OpenApi::object()}};
  const OpenApi objective = object_of({{"metric", kText}, {"mode", {{"type", "string"}, {"enum", {"min", "max"}}}}});
  return {
      {"Problem", object_of({{"type", kText},
                             {"title", kText},
                             {"status", kWhole},
                             {"code", kText},
                             {"detail", kText},
                             {"next", kText}})},
      {"Rows", object_of({{"rows", list_of(kAny)}, {"total", kWhole}, {"next_page_token", kText}})},
      {"Object", kAny},
      {"Curves",
       object_of({{"curves", list_of(object_of({{"trial", kText}, {"x", list_of(real)}, {"y", list_of(real)}}))}})},
      {"Measures",
       object_of(
           {{"series", list_of(object_of({{"name", kText},
                                          {"kind", {{"type", "string"}, {"enum", {"counter", "gauge", "histogram"}}}},
                                          {"help", kText},
                                          {"labels", kAny},
                                          {"value", real}}))},
            {"left_out", kWhole}})},
      {"Series", object_of({{"series", list_of(kAny)}})},
      {"Files",
       object_of({{"directory", kText},
                  {"rows", list_of(object_of(
                               {{"name", kText}, {"kind", kText}, {"bytes", kWhole}, {"modified_ms", kWhole}}))}})},
      {"Explanation",
       object_of(
           {{"text", kText}, {"why", list_of({{"type", "array"}, {"items", OpenApi::object()}, {"nullable", true}})}})},
      {"Lines", object_of({{"lines", list_of(kAny)}})},
      {"LogPart",
       object_of({{"node", kText},
                  {"first", kWhole},
                  {"last", kWhole},
                  {"next", kWhole},
                  {"run", kWhole},
                  {"lines", list_of(and_perhaps(object_of({{"line", kWhole}, {"text", kText}}),
                                                {{"time_ms", kWhole}, {"level", kText}}))},
                  {"runs", list_of(object_of({{"run", kWhole}, {"out_bytes", kWhole}, {"err_bytes", kWhole}}))}})},
      {"Stack", object_of({{"actor", kText},
                           {"display", kText},
                           {"node", kText},
                           {"pid", kWhole},
                           {"threads", list_of(object_of({{"thread", kWhole},
                                                          {"name", kText},
                                                          {"state", kText},
                                                          {"runs", kText},
                                                          {"actor", kText},
                                                          {"runs_ms", kWhole},
                                                          {"frames", list_of(kText)},
                                                          {"note", kText}}))}})},
      {"Processes",
       object_of(
           {{"processes",
             list_of(and_perhaps(object_of({{"pid", kWhole},
                                            {"kind",
                                             {{"type", "string"},
                                              {"enum", {"head", "worker", "program", "actors", "spare", "template"}}}},
                                            {"actors", list_of(kText)},
                                            {"memory_bytes", kWhole},
                                            {"node", kText},
                                            {"program", kText}}),
                                 {{"cpu_cores", real}, {"started_ms", kWhole}, {"ends_in_s", kWhole}}))}})},
      {"Trace", object_of({{"displayTimeUnit", kText}, {"traceEvents", list_of(kAny)}})},
      {"NewToken", object_of({{"id", kText}, {"role", kText}, {"token", kText}})},
      {"StudyTrial",
       and_perhaps(
           object_of({{"number", kWhole},
                      {"state", {{"type", "string"}, {"enum", {"waiting", "running", "complete", "pruned", "fail"}}}},
                      {"config", kAny},
                      {"values", list_of(real)},
                      {"step", kWhole},
                      {"reported", real},
                      {"attempt", kWhole},
                      {"worker", kText},
                      {"reason", kText},
                      {"started_ms", kWhole},
                      {"ended_ms", kWhole},
                      {"lease_ends_ms", kWhole}}),
           {{"why", why}})},
      {"Study", object_of({{"name", kText},
                           {"space", kAny},
                           {"searcher", kText},
                           {"scheduler", kText},
                           {"about", kText},
                           {"objectives", list_of(objective)},
                           {"seed", kWhole},
                           {"max_trials", kWhole},
                           {"lease_s", kWhole},
                           {"max_retries", kWhole},
                           {"created_ms", kWhole},
                           {"trials_total", kWhole},
                           {"trials_by_state", kAny},
                           {"best", list_of(named("StudyTrial"))}})},
      {"Asked", and_perhaps(object_of({{"trials", list_of(named("StudyTrial"))},
                                       {"done", kTruth},
                                       {"reason", kText},
                                       {"retry_after_ms", kWhole}}),
                            {{"why", why}})},
      {"Verdict", and_perhaps(object_of({{"should_stop", kTruth},
                                         {"decision", {{"type", "string"}, {"enum", {"continue", "prune", "finish"}}}},
                                         {"reason", kText},
                                         {"lease_ends_ms", kWhole}}),
                              {{"why", why}})},
      {"Job", schema_of(*v1::Job::descriptor())},
      {"DeterminedExperiment", schema_of(*v1::ExperimentInfo::descriptor())},
      {"DeterminedTrial", schema_of(*v1::TrialInfo::descriptor())},
      {"Checkpoint", schema_of(*v1::CheckpointInfo::descriptor())},
      {"Model", schema_of(*v1::Model::descriptor())},
      {"ModelVersion", schema_of(*v1::ModelVersion::descriptor())},
      {"Metrics", schema_of(*v1::GetMetricsReply::descriptor())},
      {"CodePiece", schema_of(*v1::GetExperimentFilesReply::descriptor())},
      {"CodeSent", schema_of(*v1::PutJobFilesReply::descriptor())},
      {"Session", object_of({{"role", kText}, {"cluster", kText}, {"version", kText}, {"expires_ms", kWhole}})},
  };
}

// The schema of a route's success response; lists are recognised by their parameters.
const char* schema_name_of(const Api::Route& route) {
  struct Reply {
    std::string_view method, pattern;
    const char* schema;
  };
  constexpr std::array kReplies{Reply{"GET", "/api/v1/experiments/{name}/curves", "Curves"},
                                Reply{"GET", "/api/v1/series", "Series"},
                                Reply{"GET", "/api/v1/actors/{id}/metrics", "Measures"},
                                Reply{"GET", "/api/v1/explain", "Explanation"},
                                Reply{"GET", "/api/v1/logs", "Lines"},
                                Reply{"GET", "/api/v1/logs/lines", "LogPart"},
                                Reply{"GET", "/api/v1/actors/{id}/stack", "Stack"},
                                Reply{"GET", "/api/v1/nodes/{name}/processes", "Processes"},
                                Reply{"GET", "/api/v1/timeline", "Trace"},
                                Reply{"GET", "/api/v1/experiments/{name}/files", "Files"},
                                Reply{"GET", "/api/v1/experiments/{name}/trials/{trial}/files", "Files"},
                                Reply{"GET", "/api/v1/tokens", "Rows"},
                                Reply{"POST", "/api/v1/tokens", "NewToken"},
                                Reply{"POST", "/api/v1/studies", "Study"},
                                Reply{"GET", "/api/v1/studies/{name}", "Study"},
                                Reply{"GET", "/api/v1/jobs/{job}", "Job"},
                                Reply{"GET", "/api/v1/determined/experiments/{id}", "DeterminedExperiment"},
                                Reply{"GET", "/api/v1/determined/experiments/{id}/code", "CodePiece"},
                                Reply{"POST", "/api/v1/job_files", "CodeSent"},
                                Reply{"GET", "/api/v1/determined/trials/{id}", "DeterminedTrial"},
                                Reply{"GET", "/api/v1/determined/trials/{trial}/metrics", "Metrics"},
                                Reply{"GET", "/api/v1/determined/checkpoints/{id}", "Checkpoint"},
                                Reply{"GET", "/api/v1/models/{model}", "Model"},
                                Reply{"GET", "/api/v1/models/{model}/versions/{version}", "ModelVersion"},
                                Reply{"POST", "/api/v1/studies/{name}:ask", "Asked"},
                                Reply{"POST", "/api/v1/studies/{name}/trials/{number}:tell", "StudyTrial"},
                                Reply{"POST", "/api/v1/studies/{name}/trials/{number}:report", "Verdict"}};
  for (const Reply& one : kReplies) {
    if (one.method == route.method && one.pattern == route.pattern) return one.schema;
  }
  return !route.query.empty() && route.query.front().name == "filter" ? "Rows" : "Object";
}

OpenApi reply_schema_of(const Api::Route& route) {
  const bool by_descriptor = route.operation != nullptr && !route.http->no_reply();
  return by_descriptor ? schema_of(*route.operation->method->output_type()) : named(schema_name_of(route));
}

OpenApi parameters_of(const Api::Route& route) {
  OpenApi out = OpenApi::array();
  for (size_t at = route.pattern.find('{'); at != std::string_view::npos; at = route.pattern.find('{', at + 1)) {
    const std::string_view name = route.pattern.substr(at + 1, route.pattern.find('}', at) - at - 1);
    const OpenApi schema =
        name == "number" ? OpenApi{{"type", "integer"}, {"minimum", 0}} : OpenApi{{"type", "string"}, {"minLength", 1}};
    out.push_back({{"name", name}, {"in", "path"}, {"required", true}, {"schema", schema}});
  }
  for (const Api::Parameter& one : route.query) {
    const OpenApi schema =
        one.most > 0 ? OpenApi{{"type", "integer"}, {"minimum", one.least}, {"maximum", one.most}} : kText;
    out.push_back({{"name", one.name}, {"in", "query"}, {"description", one.about}, {"schema", schema}});
  }
  return out;
}

OpenApi responses_of(const char* status, const OpenApi& well) {
  return {
      {status, {{"description", "done"}, {"content", well}}},
      {"default",
       {{"description", "a problem"}, {"content", {{"application/problem+json", {{"schema", named("Problem")}}}}}}}};
}

OpenApi operation_of(const Api::Route& route) {
  OpenApi operation{{"summary", route.about}, {"x-access", to_string(route.access)}};
  if (OpenApi parameters = parameters_of(route); !parameters.empty()) operation["parameters"] = std::move(parameters);
  if (!route.body.empty()) {
    operation["requestBody"] = {
        {"required",
         std::any_of(route.fields.begin(), route.fields.end(), [](const BodyField& field) { return field.required; })},
        {"content",
         {{"application/json", {{"schema", schema_of(route.fields)}, {"example", OpenApi::parse(route.body)}}}}}};
  }
  const bool is_text = route.pattern == "/metrics";
  const bool is_table = route.pattern.ends_with(".csv"), is_file = route.pattern.ends_with("/{file}");
  const bool makes =
      route.method == "POST" && (route.pattern == "/api/v1/tokens" || route.pattern == "/api/v1/studies");
  const OpenApi well = is_text    ? OpenApi{{"text/plain", {{"schema", kText}}}}
                       : is_table ? OpenApi{{"text/csv", {{"schema", kText}}}}
                       : is_file  ? OpenApi{{"*/*", {{"schema", {{"type", "string"}, {"format", "binary"}}}}}}
                                  : OpenApi{{"application/json", {{"schema", reply_schema_of(route)}}}};
  operation["responses"] = responses_of(makes ? "201" : "200", well);
  return operation;
}

// Cookie sign-in, which the server handles before the API.
OpenApi session_operations() {
  const OpenApi session{{"application/json", {{"schema", named("Session")}}}};
  const OpenApi nothing{{"application/json", {{"schema", named("Object")}}}};
  const OpenApi who{{"summary", "Who asks: role, cluster, and until when"},
                    {"x-access", "viewer"},
                    {"responses", responses_of("200", session)}};
  const OpenApi end{{"summary", "Sign out; what the session watches ends"},
                    {"x-access", "viewer"},
                    {"responses", responses_of("200", nothing)}};
  const OpenApi begin{
      {"summary", "Sign in with a token; the answer sets the session's cookie"},
      {"x-access", "nobody"},
      {"security", OpenApi::array()},
      {"requestBody",
       {{"required", true},
        {"content",
         {{"application/json", {{"schema", object_of({{"token", kText}})}, {"example", {{"token", "vt1.…"}}}}}}}}},
      {"responses", responses_of("200", session)}};
  return {{"get", who}, {"post", begin}, {"delete", end}};
}

// Opening the page of a server in a job, likewise.
OpenApi page_operation() {
  const OpenApi reply{{"application/json", {{"schema", named("Object")}}}};
  const OpenApi open{
      {"summary",
       "Open the page of a server in a job: a port of the dashboard's machine, and the path that opens it once"},
      {"x-access", "user"},
      {"parameters", {{{"name", "job"}, {"in", "path"}, {"required", true}, {"schema", kText}}}},
      {"requestBody",
       {{"required", true},
        {"content",
         {{"application/json", {{"schema", schema_of(page_body_fields())}, {"example", {{"port", 8888}}}}}}}}},
      {"responses", responses_of("200", reply)}};
  return {{"post", open}};
}

}  // namespace

std::string Api::openapi() {
  OpenApi paths = OpenApi::object();
  for (const Route& route : routes()) {
    std::string method(route.method);
    for (char& c : method) c = static_cast<char>(c + 32);
    paths[std::string(route.pattern)][method] = operation_of(route);
  }
  paths["/api/v1/session"] = session_operations();
  paths["/api/v1/jobs/{job}/page"] = page_operation();
  const OpenApi document{
      {"openapi", "3.0.3"},
      {"info",
       {{"title", "Volador"},
        {"version", std::string(kVersion)},
        {"description", "Lists and changes of a cluster. Live state: WebSocket /ws."}}},
      {"paths", paths},
      {"security", OpenApi::array({{{"bearer", OpenApi::array()}}})},
      {"components",
       {{"securitySchemes", {{"bearer", {{"type", "http"}, {"scheme", "bearer"}}}}}, {"schemas", schemas()}}}};
  return document.dump(1) + "\n";
}

}  // namespace volador::dashboard
