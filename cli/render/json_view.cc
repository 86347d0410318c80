#include "cli/render/json_view.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/render/json_text.h"
#include "runtime/language/health_reason.h"
#include "runtime/protocol/volador/v1/cluster.pb.h"
#include "runtime/resources.h"

namespace volador::cli {

namespace {

using Json = nlohmann::ordered_json;

Json document() { return Json{{"api_version", "v1"}}; }

Json amounts(const google::protobuf::Map<std::string, int64_t>& map) {
  Json json = Json::object();
  for (const auto& [name, amount] : std::map<std::string, int64_t>(map.begin(), map.end())) {
    if (name == "memory" || amount % kUnit == 0) {
      json[name] = name == "memory" ? amount : amount / kUnit;
    } else {
      json[name] = static_cast<double>(amount) / static_cast<double>(kUnit);
    }
  }
  return json;
}

template <class Map>
Json sorted(const Map& map) {
  Json json = Json::object();
  std::map<std::string, typename Map::mapped_type> ordered(map.begin(), map.end());
  for (const auto& [name, value] : ordered) json[name] = value;
  return json;
}

// NaN and infinite metrics become null, since JSON has neither.
Json metrics(const google::protobuf::Map<std::string, double>& map) {
  Json json = Json::object();
  for (const auto& [name, value] : std::map<std::string, double>(map.begin(), map.end()))
    json[name] = std::isfinite(value) ? Json(value) : Json();
  return json;
}

Json problems_of(const v1::Node& node) {
  Json json = Json::array();
  for (const v1::HealthProblem& one : node.problems()) {
    const Reason why = health_reason(one);
    json.push_back({{"code", one.code()},
                    {"gpu", one.has_gpu() ? Json(one.gpu()) : Json()},
                    {"subject", one.subject()},
                    {"detail", one.detail()},
                    {"since_ms", one.since_ms()},
                    {"reason", why.text()},
                    {"why", why_json(why.to_json())}});
  }
  return json;
}

Json node_json(const v1::Node& node) {
  return {{"id", node.id()},
          {"name", node.name()},
          {"state", node.state()},
          {"address", node.address()},
          {"total", amounts(node.total())},
          {"used", amounts(node.used())},
          {"labels", sorted(node.labels())},
          {"actors", node.actors()},
          {"cpu_cores_used", node.cpu_cores_used()},
          {"memory_bytes_used", node.memory_bytes_used()},
          {"gpu_model", node.gpu_model()},
          {"version", node.version()},
          {"last_heard_ms_ago", node.last_heard_ms_ago()},
          {"reason", node.reason()},
          {"why", why_json(node.why())},
          {"lost", node.lost()},
          {"problems", problems_of(node)}};
}

Json nodes_of(const google::protobuf::RepeatedPtrField<v1::Node>& nodes) {
  Json json = Json::array();
  for (const v1::Node& node : nodes) json.push_back(node_json(node));
  return json;
}

Json best_json(const v1::BestTrial& best) {
  return {{"trial", best.trial()}, {"name", best.name()}, {"value", number(best.value())}, {"step", best.step()}};
}

Json left_json(const v1::TimeLeft& left) {
  return {{"point", left.seconds()}, {"low", left.low()}, {"high", left.high()}};
}

Json experiment_json(const v1::Experiment& experiment) {
  return {{"name", experiment.name()},
          {"state", experiment.state()},
          {"metric", experiment.metric()},
          {"mode", experiment.mode()},
          {"directory", experiment.directory()},
          {"trials_total", experiment.trials_total()},
          {"trials_planned", experiment.trials_planned()},
          {"best", experiment.has_best() ? best_json(experiment.best()) : Json()},
          {"best_so_far", experiment.has_best_so_far() ? best_json(experiment.best_so_far()) : Json()},
          {"left_s", experiment.has_left() ? left_json(experiment.left()) : Json()},
          {"trials_by_status", sorted(experiment.trials_by_status())}};
}

}  // namespace

std::string status_json(const v1::StatusReply& status) {
  Json json = document();
  json["cluster"] = status.cluster_name();
  json["cluster_id"] = status.cluster_id();
  json["version"] = status.version();
  json["address"] = status.address();
  json["uptime_ms"] = status.uptime_ms();
  json["total"] = amounts(status.total());
  json["used"] = amounts(status.used());
  json["actors_by_state"] = sorted(status.actors_by_state());
  json["drivers"] = status.drivers();
  json["nodes_lost"] = status.nodes_lost();
  json["nodes"] = nodes_of(status.nodes());
  json["experiments"] = Json::array();
  for (const v1::Experiment& experiment : status.experiments())
    json["experiments"].push_back(experiment_json(experiment));
  return text_of(json);
}

std::string nodes_json(const v1::ListNodesReply& nodes) {
  Json json = document();
  json["nodes"] = nodes_of(nodes.nodes());
  return text_of(json);
}

std::string actors_json(const v1::ListActorsReply& actors) {
  Json json = document();
  json["total"] = actors.total();
  json["actors"] = Json::array();
  for (const v1::Actor& actor : actors.actors()) {
    json["actors"].push_back({{"id", actor.id()},
                              {"class", actor.class_name()},
                              {"name", actor.name()},
                              {"display", actor.display()},
                              {"state", actor.state()},
                              {"namespace", actor.namespace_()},
                              {"isolation", actor.isolation()},
                              {"owner", actor.owner()},
                              {"node", actor.node()},
                              {"pid", actor.pid()},
                              {"epoch", actor.epoch()},
                              {"restarts", actor.restarts()},
                              {"resources", amounts(actor.resources())},
                              {"gpus", std::vector<int>(actor.gpus().begin(), actor.gpus().end())},
                              {"reason", actor.reason()},
                              {"why", why_json(actor.why())},
                              {"driver", actor.driver()},
                              {"detached", actor.detached()},
                              {"cpu_cores", actor.cpu_cores()},
                              {"memory_bytes", actor.memory_bytes()}});
  }
  return text_of(json);
}

std::string groups_json(const v1::ListGroupsReply& groups) {
  Json json = document();
  json["total"] = groups.total();
  json["groups"] = Json::array();
  for (const v1::Group& group : groups.groups()) {
    Json bundles = Json::array();
    for (const v1::Bundle& bundle : group.bundles()) {
      bundles.push_back({{"index", bundle.index()},
                         {"node", bundle.node()},
                         {"total", amounts(bundle.total())},
                         {"used", amounts(bundle.used())},
                         {"gpus", std::vector<int>(bundle.gpus().begin(), bundle.gpus().end())},
                         {"actors", bundle.actors()}});
    }
    json["groups"].push_back({{"id", group.id()},
                              {"name", group.name()},
                              {"strategy", group.strategy()},
                              {"state", group.state()},
                              {"reason", group.reason()},
                              {"why", why_json(group.why())},
                              {"driver", group.driver()},
                              {"detached", group.detached()},
                              {"priority", group.priority()},
                              {"bundles", std::move(bundles)}});
  }
  return text_of(json);
}

std::string trials_json(const v1::ListTrialsReply& trials) {
  Json json = document();
  json["total"] = trials.total();
  json["trials"] = Json::array();
  for (const v1::Trial& trial : trials.trials()) {
    const Json config = Json::parse(trial.config_json(), nullptr, /*allow_exceptions=*/false);
    json["trials"].push_back({{"id", trial.id()},
                              {"name", trial.name().empty() ? trial.id() : trial.name()},
                              {"experiment", trial.experiment()},
                              {"status", trial.status()},
                              {"node", trial.node()},
                              {"step", trial.step()},
                              {"config", config.is_discarded() ? Json() : config},
                              {"metrics", metrics(trial.metrics())},
                              {"error", trial.error()},
                              {"error_why", why_json(trial.error_why())},
                              {"reason", trial.reason()},
                              {"why", why_json(trial.why())},
                              {"tags", trial.tags()},
                              {"cloned_from", trial.cloned_from().empty() ? Json() : Json(trial.cloned_from())}});
  }
  return text_of(json);
}

static Json stores_json(const v1::ListObjectsReply& objects) {
  Json stores = Json::array();
  for (const v1::ObjectStore& store : objects.stores()) {
    stores.push_back({{"node", store.node()},
                      {"bytes", store.bytes()},
                      {"bytes_max", store.bytes_max()},
                      {"objects", store.objects()},
                      {"spilled", store.spilled()},
                      {"spilled_max", store.spilled_max()},
                      {"error", store.error()}});
  }
  return stores;
}

std::string audit_json(const v1::ListAuditReply& audit) {
  Json json = document();
  json["total"] = audit.total();
  json["audit"] = Json::array();
  for (const v1::AuditEntry& entry : audit.entries()) {
    json["audit"].push_back({{"id", entry.number()},
                             {"time_ms", entry.wall_ns() / 1'000'000},
                             {"by", entry.by()},
                             {"action", entry.action()},
                             {"object", entry.object()},
                             {"outcome", entry.outcome()},
                             {"message", entry.message()}});
  }
  return text_of(json);
}

std::string objects_json(const v1::ListObjectsReply& objects) {
  Json json = document();
  json["total"] = objects.total();
  json["stores"] = stores_json(objects);
  json["objects"] = Json::array();
  for (const v1::Object& object : objects.objects()) {
    json["objects"].push_back({{"id", object.id()},
                               {"node", object.node()},
                               {"bytes", object.bytes()},
                               {"type", object.type()},
                               {"put_by", object.put_by()},
                               {"held_by", std::vector<std::string>(object.held_by().begin(), object.held_by().end())},
                               {"copy", object.copy()},
                               {"state", object.state()},
                               {"references", object.references()},
                               {"place", object.place()}});
  }
  return text_of(json);
}

std::string memory_json(const v1::ListObjectsReply& objects) {
  Json json = document();
  json["total"] = objects.total();
  json["stores"] = stores_json(objects);
  json["groups"] = Json::array();
  for (const v1::ObjectGroup& group : objects.groups()) {
    json["groups"].push_back({{"node", group.node()},
                              {"type", group.type()},
                              {"place", group.place()},
                              {"put_by", group.put_by()},
                              {"objects", group.objects()},
                              {"bytes", group.bytes()},
                              {"bytes_in_memory", group.bytes_in_memory()},
                              {"bytes_spilled", group.bytes_spilled()},
                              {"references", group.references()}});
  }
  return text_of(json);
}

std::string tokens_json(const v1::ListTokensReply& tokens) {
  Json json = document();
  json["tokens"] = Json::array();
  for (const v1::Token& token : tokens.tokens()) {
    json["tokens"].push_back({{"id", token.id()},
                              {"role", token.role()},
                              {"created_wall_ns", token.created_wall_ns()},
                              {"expires_wall_ns", token.expires_wall_ns()},
                              {"revoked", token.revoked()},
                              {"note", token.note()}});
  }
  return text_of(json);
}

std::string explain_json(const v1::ExplainReply& reply) {
  Json json = document();
  json["text"] = reply.text();
  return text_of(json);
}

std::string log_line_json(const v1::LogLine& line) {
  return text_of({{"source", line.source()},
                  {"node", line.node()},
                  {"stderr", line.is_stderr()},
                  {"text", line.text()},
                  {"time_ms", line.time_ms()},
                  {"level", line.level()}},
                 -1);
}

}  // namespace volador::cli
