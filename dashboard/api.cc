#include "dashboard/api.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "dashboard/actor_metrics.h"
#include "dashboard/api_later.h"
#include "dashboard/json_text.h"
#include "dashboard/operation_json.h"
#include "dashboard/process_json.h"
#include "dashboard/row_list.h"
#include "dashboard/row_text.h"

namespace volador::dashboard {
namespace {

std::string_view title_of(int status) {
  switch (status) {
    case 400:
      return "Bad request";
    case 401:
      return "Sign in first";
    case 403:
      return "Not allowed";
    case 404:
      return "Not found";
    case 405:
      return "Method not allowed";
    case 409:
      return "Not possible";
    case 421:
      return "Another host";
    case 429:
      return "Too many requests";
    case 503:
      return "Not available now";
    case 504:
      return "Too late";
    default:
      return "Error";
  }
}

int status_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kInvalidArgument:
      return 400;
    case ErrorCode::kUnauthenticated:
      return 401;
    case ErrorCode::kPermissionDenied:
      return 403;
    case ErrorCode::kNotFound:
    case ErrorCode::kObjectLost:
      return 404;
    case ErrorCode::kInfeasible:
    case ErrorCode::kCancelled:
    case ErrorCode::kActorDied:
      return 409;
    case ErrorCode::kStoreFull:
    case ErrorCode::kUnavailable:
      return 503;
    case ErrorCode::kTimeout:
      return 504;
    case ErrorCode::kUnknownOutcome:
    case ErrorCode::kInternal:
    case ErrorCode::kApplication:
      return 500;
  }
  return 500;
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

}  // namespace

HttpResponse json_response(std::string body, int status) {
  return {.status = status,
          .content_type = "application/json",
          .body = std::move(body),
          .headers = {{"Cache-Control", "no-store"}}};
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
  return {.status = status,
          .content_type = "application/problem+json",
          .body = std::move(body),
          .headers = {{"Cache-Control", "no-store"}}};
}

HttpResponse problem(const Error& error) { return problem(status_of(error.code), error); }

void Api::answer(const Route& route, Call call, const Respond& respond) {
  if (const auto known = check_query(route, call.query); !known) return respond(problem(known.error()));
  nlohmann::ordered_json json;
  if (!route.body.empty()) {
    auto parsed = parse_body(call.body, route.fields);
    if (!parsed) return respond(problem(parsed.error()));
    json = std::move(*parsed);
    call.json = &json;
  }
  call.route = &route;
  (this->*route.handler)(call, respond);
}

void Api::list(Topic topic, const std::string& experiment, bool newest_first, const Call& call,
               const Respond& respond) const {
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

// Lists the nodes' current replies; sorted by size if no order is requested.
void Api::list_objects(std::vector<std::string> (*rows_of)(const v1::ListObjectsReply&), const Call& call,
                       const Respond& respond) {
  const auto wanted = RowList::parse(call.query);
  if (!wanted) return respond(problem(wanted.error()));
  v1::ListRequest request;
  request.set_limit(kObjectsMax);
  call_for<v1::ListObjectsReply>("Cluster/ListObjects", call, request, respond,
                                 [wanted = *wanted, rows_of](const v1::ListObjectsReply& found) {
                                   const std::vector<std::string> rows = rows_of(found);
                                   return json_response(wanted.page({rows.begin(), rows.end()}));
                                 });
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
  return problem(404, {ErrorCode::kNotFound, fmt::format("there is no experiment \"{}\"", name)},
                 "GET /api/v1/experiments shows those that there are");
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

// Prefix of the requested series: matches names that start with it, followed by "/".
std::string Api::series_prefix(const Query& query) const {
  const std::string actor = text_in(query, "actor"), experiment = text_in(query, "experiment"),
                    node = text_in(query, "node");
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
      body += series_text(of, *measure.name,
                          measure.series.read(*from / 1000, (*to + 999) / 1000, static_cast<size_t>(*points)));
    }
  }
  respond(json_response(body + "]}"));
}

void Api::explain(const Call& call, const Respond& respond) {
  const std::string id = text_in(call.query, "id");
  if (id.empty())
    return respond(
        problem({ErrorCode::kInvalidArgument, "explain: name an actor, trial, placement group or node with ?id="}));
  v1::ExplainRequest request;
  request.set_id(id);
  call_for<v1::ExplainReply>("Cluster/Explain", call, request, respond, [](const v1::ExplainReply& found) {
    std::string why = "[";
    for (const std::string& line : found.why()) {
      if (why.size() > 1) why += ',';
      why += line.empty() ? "null" : line;
    }
    std::string body;
    JsonObject object(body);
    object.text("text", found.text());
    object.raw("why", why + "]");
    object.end();
    return json_response(std::move(body));
  });
}

void Api::logs(const Call& call, const Respond& respond) {
  const std::string id = text_in(call.query, "id"), node = text_in(call.query, "node");
  if (id.empty() == node.empty())
    return respond(
        problem({ErrorCode::kInvalidArgument, "logs: name an actor or trial with ?id=, or a node with ?node="}));
  const auto tail = integer_in(call.query, "tail", 100, 1, 10'000);
  if (!tail) return respond(problem(tail.error()));
  port_.logs(call.by, id, node, static_cast<int>(*tail),
             later<LiveClient::FoundLogs>(respond, [](const Result<LiveClient::FoundLogs>& found) {
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
    return respond(
        problem({ErrorCode::kInvalidArgument, fmt::format("stream: expected out or err, got \"{}\"", stream)}));
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
  call_for<v1::ReadLogReply>("Cluster/ReadLog", call, request, respond,
                             [](const v1::ReadLogReply& reply) { return json_response(log_part_json(reply)); });
}

void Api::stack(const Call& call, const Respond& respond) {
  v1::StackRequest request;
  request.set_id(call.path.at("id"));
  call_for<v1::StackReply>("Cluster/Stack", call, request, respond, [](const v1::StackReply& reply) {
    return json_response(stack_object(reply).dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  });
}

void Api::processes(const Call& call, const Respond& respond) {
  v1::ListRequest request;
  request.set_filter(call.path.at("name"));
  call_for<v1::NodeProcesses>("Cluster/ListProcesses", call, request, respond,
                              [](const v1::NodeProcesses& found) { return json_response(processes_text(found)); });
}

void Api::timeline(const Call& call, const Respond& respond) {
  const auto limit = integer_in(call.query, "limit", 0, 1, 1'000'000);
  if (!limit) return respond(problem(limit.error()));
  v1::TimelineRequest request;
  request.set_id(text_in(call.query, "id"));
  request.set_limit(static_cast<int32_t>(*limit));
  call_for<v1::TimelineReply>("Cluster/Timeline", call, request, respond,
                              [](const v1::TimelineReply& reply) { return json_response(chrome_trace(reply)); });
}

void Api::operate(const Call& call, const Respond& respond) {
  const Route& route = *call.route;
  const auto request = request_of(*route.operation, *route.http, call.path, *call.json);
  if (!request) return respond(problem(request.error()));
  const bool no_reply = route.http->no_reply();
  port_.registry().call(
      route.operation->name, call.by, **request,
      later<operations::Registry::Reply>(respond, [no_reply](const Result<operations::Registry::Reply>& reply) {
        return json_response(
            no_reply ? "{}" : json_of(**reply).dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
      }));
}

void Api::audit(const Call& call, const Respond& respond) {
  const auto wanted = RowList::parse(call.query);
  if (!wanted) return respond(problem(wanted.error()));
  v1::ListRequest request;
  request.set_limit(kAuditMax);
  call_for<v1::ListAuditReply>("Cluster/ListAudit", call, request, respond,
                               [wanted = *wanted](const v1::ListAuditReply& found) {
                                 std::vector<std::string> rows;
                                 for (const v1::AuditEntry& entry : found.entries()) rows.push_back(audit_text(entry));
                                 return json_response(wanted.page({rows.begin(), rows.end()}));
                               });
}

void Api::tokens(const Call& call, const Respond& respond) {
  call_for<v1::ListTokensReply>(
      "Cluster/ListTokens", call, v1::ListTokensRequest(), respond,
      [now_ms = now_ms_](const v1::ListTokensReply& found) {
        std::vector<std::string> rows;
        for (const v1::Token& token : found.tokens()) rows.push_back(token_json(token, now_ms()));
        return json_response(rows_json({rows.begin(), rows.end()}, static_cast<int64_t>(rows.size()), ""));
      });
}

void Api::create_token(const Call& call, const Respond& respond) {
  const std::chrono::seconds valid_for(call.json->value("valid_for_s", int64_t{86'400}));
  constexpr std::chrono::seconds kMost = std::chrono::hours(24 * 3650);
  if (valid_for.count() < 0 || valid_for > kMost) {
    return respond(problem({ErrorCode::kInvalidArgument, "valid_for_s: expected 0 (without end) to ten years"}));
  }
  v1::CreateTokenRequest request;
  request.set_request_id(call.json->value("request_id", ""));
  request.set_role(call.json->at("role").get<std::string>());
  request.set_valid_for_ms(std::chrono::milliseconds(valid_for).count());
  request.set_note(call.json->value("note", ""));
  call_for<v1::CreateTokenReply>("Cluster/CreateToken", call, request, respond, [](const v1::CreateTokenReply& made) {
    std::string out;
    JsonObject object(out);
    object.text("id", made.token().id());
    object.text("role", made.token().role());
    object.text("token", made.text());
    object.end();
    return json_response(std::move(out), 201);
  });
}

void Api::actor_metrics(const Call& call, const Respond& respond) {
  const std::string& id = call.path.at("id");
  if (!model_.table(Topic::kActors).rows().contains(id)) {
    return respond(problem(404, {ErrorCode::kNotFound, fmt::format("there is no actor \"{}\"", id)},
                           "GET /api/v1/actors shows those that there are, with their whole ids"));
  }
  respond(json_response(actor_metrics_json(model_.actor_metrics().find(id))));
}

void Api::describe(const Call&, const Respond& respond) { respond(json_response(openapi())); }

}  // namespace volador::dashboard
