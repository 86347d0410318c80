#include "dashboard/row_text.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <vector>

#include "dashboard/json_text.h"
#include "runtime/language/health_reason.h"

namespace volador::dashboard {
namespace {

constexpr char kKeySeparator = '\x1f';
constexpr double kUnit = 10'000;

double decimal(const std::string& name, int64_t amount) {
  return name == "memory" ? static_cast<double>(amount) : static_cast<double>(amount) / kUnit;
}

// Sorted, so that an unchanged row has the same text.
template <class Map, class Append>
std::string object_of(const Map& map, Append append) {
  std::vector<const typename Map::value_type*> sorted;
  for (const auto& entry : map) sorted.push_back(&entry);
  std::sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) { return a->first < b->first; });
  std::string text;
  JsonObject object(text);
  for (const auto* entry : sorted) append(object, entry->first, entry->second);
  object.end();
  return text;
}

std::string numbers_text(const google::protobuf::Map<std::string, double>& numbers) {
  return object_of(numbers,
                   [](JsonObject& object, const std::string& name, double value) { object.number(name, value); });
}

template <class Numbers>
std::string list_of(const Numbers& numbers) {
  std::string text = "[";
  for (const auto number : numbers) text += (text.size() > 1 ? "," : "") + std::to_string(number);
  return text + "]";
}

std::string bundle_text(const v1::Bundle& bundle) {
  std::string text;
  JsonObject row(text);
  row.integer("index", bundle.index());
  row.text("node", bundle.node());
  row.raw("total", amounts_text(bundle.total()));
  row.raw("used", amounts_text(bundle.used()));
  row.raw("gpus", list_of(bundle.gpus()));
  row.integer("actors", bundle.actors());
  row.end();
  return text;
}

}  // namespace

std::string trial_key(std::string_view experiment, std::string_view trial) {
  return std::string(experiment) + kKeySeparator + std::string(trial);
}

std::string_view shown_id(std::string_view key) {
  const size_t at = key.rfind(kKeySeparator);
  return at == std::string_view::npos ? key : key.substr(at + 1);
}

std::string amounts_text(const Amounts& amounts) {
  return object_of(amounts, [](JsonObject& object, const std::string& name, int64_t amount) {
    object.number(name, decimal(name, amount));
  });
}
std::string counts_text(const Amounts& counts) {
  return object_of(counts,
                   [](JsonObject& object, const std::string& name, int64_t count) { object.integer(name, count); });
}
std::string texts_text(const google::protobuf::Map<std::string, std::string>& texts) {
  return object_of(
      texts, [](JsonObject& object, const std::string& name, const std::string& text) { object.text(name, text); });
}
double amount_of(const Amounts& amounts, const std::string& name) {
  const auto found = amounts.find(name);
  return found == amounts.end() ? 0 : decimal(name, found->second);
}

void append_config(JsonObject& object, const std::string& config_json) {
  if (config_json.empty() || (config_json.starts_with('{') && nlohmann::json::accept(config_json))) {
    object.raw("config", config_json.empty() ? "{}" : config_json);
  } else {
    object.text("config_text", config_json);
    object.raw("config", "{}");
  }
}

namespace {

std::string gpus_text(const v1::Node& node) {
  std::string text = "[";
  for (const v1::Gpu& gpu : node.gpus()) {
    if (text.size() > 1) text += ',';
    JsonObject row(text);
    row.integer("index", gpu.index());
    row.text("model", gpu.model());
    row.number("granted", static_cast<double>(gpu.granted()) / 10'000);
    if (gpu.measured()) {
      row.number("utilization", gpu.utilization());
      row.integer("memory_used", gpu.memory_bytes());
      row.integer("memory_total", gpu.memory_total_bytes());
    }
    if (gpu.has_temperature_celsius()) row.number("temperature_celsius", gpu.temperature_celsius());
    if (gpu.has_power_watts()) row.number("power_watts", gpu.power_watts());
    if (gpu.has_power_limit_watts()) row.number("power_limit_watts", gpu.power_limit_watts());
    row.end();
  }
  return text + "]";
}

std::string file_systems_text(const v1::Node& node) {
  std::string text = "[";
  for (const v1::FileSystem& one : node.file_systems()) {
    if (text.size() > 1) text += ',';
    JsonObject row(text);
    row.text("path", one.path());
    row.text("type", one.type());
    row.raw("uses", list_text(one.uses()));
    row.integer("total", one.total_bytes());
    row.integer("free", one.free_bytes());
    row.end();
  }
  return text + "]";
}

std::string problems_text(const v1::Node& node) {
  std::string text = "[";
  for (const v1::HealthProblem& one : node.problems()) {
    if (text.size() > 1) text += ',';
    const Reason why = health_reason(one);
    JsonObject row(text);
    row.text("code", one.code());
    if (one.has_gpu()) row.integer("gpu", one.gpu());
    row.text("subject", one.subject());
    row.text("detail", one.detail());
    row.integer("since_ms", one.since_ms());
    row.text("reason", why.text());
    if (const std::string data = why.to_json(); !data.empty()) row.raw("why", data);
    row.end();
  }
  return text + "]";
}

}  // namespace

std::vector<Measured> machine_measures(const v1::Node& node) {
  std::vector<Measured> found;
  const auto add = [&](std::string_view name, bool is_measured, double value) {
    if (is_measured) found.push_back({name, value});
  };
  add(kMachineMeasures[0], node.has_disk_read_bytes_per_s(), std::round(node.disk_read_bytes_per_s()));
  add(kMachineMeasures[1], node.has_disk_write_bytes_per_s(), std::round(node.disk_write_bytes_per_s()));
  add(kMachineMeasures[2], node.has_network_receive_bytes_per_s(), std::round(node.network_receive_bytes_per_s()));
  add(kMachineMeasures[3], node.has_network_send_bytes_per_s(), std::round(node.network_send_bytes_per_s()));
  add(kMachineMeasures[4], node.has_cpu_temperature_celsius(), node.cpu_temperature_celsius());
  add(kMachineMeasures[5], node.has_cpu_power_watts(), std::round(node.cpu_power_watts() * 10) / 10);
  return found;
}

std::string node_text(const v1::Node& node, int64_t now_ms) {
  std::string text;
  JsonObject row(text);
  row.text("id", node.id());
  row.text("name", node.name());
  row.text("state", node.state());
  row.text("address", node.address());
  row.raw("total", amounts_text(node.total()));
  row.raw("used", amounts_text(node.used()));
  row.raw("labels", texts_text(node.labels()));
  row.integer("actors", node.actors());
  row.number("cpu_cores_used", std::round(node.cpu_cores_used() * 1000) / 1000);
  row.integer("memory_bytes_used", node.memory_bytes_used());
  row.text("gpu_model", node.gpu_model());
  if (!node.gpus().empty()) row.raw("gpus", gpus_text(node));
  if (!node.file_systems().empty()) row.raw("file_systems", file_systems_text(node));
  if (!node.problems().empty()) row.raw("problems", problems_text(node));
  for (const Measured& one : machine_measures(node)) row.number(one.name, one.value);
  row.text("version", node.version());
  row.integer("last_heard_ms", now_ms - node.last_heard_ms_ago());
  row.end();
  return text;
}

std::string actor_text(const v1::Actor& actor) {
  std::string text;
  JsonObject row(text);
  row.text("id", actor.id());
  row.text("class_name", actor.class_name());
  row.text("name", actor.name());
  row.text("namespace", actor.namespace_());
  row.text("display", actor.display());
  row.text("state", actor.state());
  row.text("node", actor.node());
  row.integer("pid", actor.pid());
  row.integer("epoch", static_cast<int64_t>(actor.epoch()));
  row.integer("restarts", actor.restarts());
  row.raw("resources", amounts_text(actor.resources()));
  row.raw("gpus", list_of(actor.gpus()));
  row.text("reason", actor.reason());
  if (!actor.why().empty()) row.raw("why", actor.why());
  row.text("driver", actor.driver());
  row.text("driver_id", actor.driver_id());
  row.text("owner", actor.owner());
  row.boolean("detached", actor.detached());
  row.text("group", actor.group());
  row.integer("bundle", actor.bundle());
  row.end();
  return text;
}

std::string driver_text(const v1::Driver& driver, int64_t now_ms) {
  std::string text;
  JsonObject row(text);
  row.text("id", driver.id());
  row.text("program", driver.program());
  row.integer("pid", driver.pid());
  row.text("state", driver.state());
  row.text("host", driver.node());
  row.text("owner", driver.owner());
  if (driver.connected_for_ms() > 0) row.integer("connected_ms", now_ms - driver.connected_for_ms());
  row.end();
  return text;
}

namespace {

// Members shared by rows of the queue and their blockers.
template <class Request>
void append_request(JsonObject& row, const Request& request) {
  row.text("kind", request.kind());
  row.text("name", request.name());
  row.text("display", request.display());
  row.text("class_name", request.class_name());
  row.text("experiment", request.experiment());
  row.text("trial", request.trial());
}

std::string blocker_text(const v1::QueueBlocker& blocker) {
  std::string text;
  JsonObject row(text);
  row.text("id", blocker.id());
  append_request(row, blocker);
  row.text("why", blocker.why());
  row.text("node", blocker.node());
  row.raw("resources", amounts_text(blocker.resources()));
  row.end();
  return text;
}

std::string reservations_text(const google::protobuf::RepeatedPtrField<v1::Reservation>& reserved) {
  std::string list = "[";
  for (const v1::Reservation& one : reserved) {
    if (list.size() > 1) list += ',';
    std::string text;
    JsonObject row(text);
    row.text("node", one.node());
    row.raw("resources", amounts_text(one.resources()));
    row.end();
    list += text;
  }
  return list + "]";
}

}  // namespace

std::string queue_text(const v1::QueueEntry& entry, int64_t now_ms) {
  std::string text;
  JsonObject row(text);
  row.text("id", entry.id());
  append_request(row, entry);
  row.text("group", entry.group());
  row.text("driver", entry.driver());
  row.integer("priority", entry.priority());
  row.integer("position", entry.position());
  row.raw("resources", amounts_text(entry.resources()));
  row.integer("bundles", entry.bundles());
  row.text("reason", entry.reason());
  if (!entry.why().empty()) row.raw("why", entry.why());
  row.raw("reserved", reservations_text(entry.reserved()));
  row.raw("blocker", entry.has_blocker() ? blocker_text(entry.blocker()) : std::string("null"));
  // Rounded to seconds, so that the row of a waiting request stays unchanged.
  row.integer("since_ms", (now_ms - entry.waiting_ms() + 500) / 1000 * 1000);
  row.end();
  return text;
}

std::string list_text(const google::protobuf::RepeatedPtrField<std::string>& texts) {
  std::string list = "[";
  for (const std::string& text : texts) {
    if (list.size() > 1) list += ',';
    append_json_string(list, text);
  }
  return list + "]";
}

std::string trial_text(const v1::Trial& trial) {
  std::string text;
  JsonObject row(text);
  row.text("id", trial.id());
  row.text("experiment", trial.experiment());
  row.text("status", trial.status());
  row.text("node", trial.node());
  row.integer("step", trial.step());
  append_config(row, trial.config_json());
  row.raw("metrics", numbers_text(trial.metrics()));
  row.text("error", trial.error());
  if (!trial.error_why().empty()) row.raw("error_why", trial.error_why());
  row.text("reason", trial.reason());
  if (!trial.why().empty()) row.raw("why", trial.why());
  row.text("actor", trial.actor());
  if (trial.started_ms() > 0) row.integer("started_ms", trial.started_ms());
  if (trial.ended_ms() > 0) row.integer("ended_ms", trial.ended_ms());
  if (!trial.name().empty()) row.text("name", trial.name());
  if (!trial.tags().empty()) row.raw("tags", list_text(trial.tags()));
  if (!trial.cloned_from().empty()) row.text("cloned_from", trial.cloned_from());
  row.end();
  return text;
}

std::string series_text(const std::string& of, const std::string& measure, const std::vector<SeriesStep>& steps) {
  const size_t kind_end = of.find('/');
  std::string x = "[", least = "[", mean = "[", greatest = "[";
  for (const SeriesStep& step : steps) {
    for (std::string* part : {&x, &least, &mean, &greatest}) {
      if (part->size() > 1) *part += ',';
    }
    x += std::to_string(step.seconds * 1000);
    append_json_number(least, step.min);
    append_json_number(mean, step.mean);
    append_json_number(greatest, step.max);
  }
  std::string text;
  JsonObject row(text);
  row.text("id", of + "/" + measure);
  row.text("kind", of.substr(0, kind_end));
  row.text("name", shown_id(of.substr(kind_end + 1)));
  row.text("metric", measure);
  row.raw("x", x + "]");
  row.raw("min", least + "]");
  row.raw("y", mean + "]");
  row.raw("max", greatest + "]");
  row.end();
  return text;
}

std::string scheduler_text(const v1::Experiment& experiment) {
  std::string rungs = "[";
  for (const v1::SchedulerRung& rung : experiment.rungs()) {
    if (rungs.size() > 1) rungs += ',';
    JsonObject one(rungs);
    one.integer("bracket", rung.bracket());
    one.number("step", rung.milestone());
    one.integer("trials", rung.trials());
    one.integer("passed", rung.passed());
    one.number("cutoff", rung.cutoff());
    one.text("state", rung.state());
    one.integer("awaited", rung.awaited());
    std::string members = "[";
    for (const v1::SchedulerRung::Member& member : rung.members()) {
      if (members.size() > 1) members += ',';
      JsonObject of(members);
      of.text("trial", member.trial());
      of.number("value", member.value());
      of.text("act", member.act());
      of.end();
    }
    one.raw("members", members + "]");
    one.end();
  }
  std::string text;
  JsonObject object(text);
  object.text("text", experiment.scheduler());
  object.raw("rungs", rungs + "]");
  object.end();
  return text;
}

std::string group_text(const v1::Group& group) {
  std::string bundles = "[";
  int64_t placed = 0, actors = 0;
  std::map<std::string, int64_t> total;
  for (const v1::Bundle& bundle : group.bundles()) {
    bundles += (bundles.size() > 1 ? "," : "") + bundle_text(bundle);
    placed += bundle.node().empty() ? 0 : 1;
    actors += bundle.actors();
    for (const auto& [name, amount] : bundle.total()) total[name] += amount;
  }
  std::string text;
  JsonObject row(text);
  row.text("id", group.id());
  row.text("name", group.name());
  row.text("strategy", group.strategy());
  row.text("state", group.state());
  row.text("reason", group.reason());
  if (!group.why().empty()) row.raw("why", group.why());
  row.text("driver", group.driver());
  row.boolean("detached", group.detached());
  row.integer("priority", group.priority());
  row.text("owner", group.owner());
  row.integer("bundles_total", group.bundles_size());
  row.integer("bundles_placed", placed);
  row.integer("actors", actors);
  row.raw("total", amounts_text({total.begin(), total.end()}));
  row.raw("bundles", bundles + "]");
  row.end();
  return text;
}

std::string object_store_text(const v1::ObjectStore& store) {
  std::string text;
  JsonObject row(text);
  row.text("id", store.node());
  row.text("node", store.node());
  row.integer("bytes", store.bytes());
  row.integer("bytes_max", store.bytes_max());
  row.integer("objects", store.objects());
  row.integer("spilled", store.spilled());
  row.integer("spilled_max", store.spilled_max());
  row.text("error", store.error());
  row.end();
  return text;
}

std::string object_group_id(const v1::ObjectGroup& group) {
  return group.node() + "/" + group.put_by() + "/" + group.place() + "/" + group.type();
}

std::string object_group_text(const v1::ObjectGroup& group) {
  std::string text;
  JsonObject row(text);
  row.text("id", object_group_id(group));
  row.text("node", group.node());
  row.text("place", group.place());
  row.text("type", group.type());
  row.text("put_by", group.put_by());
  row.integer("objects", group.objects());
  row.integer("bytes", group.bytes());
  row.integer("bytes_in_memory", group.bytes_in_memory());
  row.integer("bytes_spilled", group.bytes_spilled());
  row.integer("references", group.references());
  row.end();
  return text;
}

std::string object_row_id(const v1::Object& object) { return object.id() + "@" + object.node(); }

std::string audit_text(const v1::AuditEntry& entry) {
  std::string text;
  JsonObject row(text);
  row.integer("id", static_cast<int64_t>(entry.number()));
  row.integer("time_ms", entry.wall_ns() / 1'000'000);
  row.text("by", entry.by());
  row.text("action", entry.action());
  row.text("object", entry.object());
  row.text("outcome", entry.outcome());
  row.text("message", entry.message());
  row.end();
  return text;
}

std::string object_text(const v1::Object& object) {
  std::string text;
  JsonObject row(text);
  row.text("id", object_row_id(object));
  row.text("object", object.id());
  row.text("node", object.node());
  row.integer("bytes", object.bytes());
  row.text("type", object.type());
  row.text("place", object.place());
  row.text("put_by", object.put_by());
  std::string holders = "[";
  for (const std::string& holder : object.held_by()) {
    if (holders.size() > 1) holders += ',';
    append_json_string(holders, holder);
  }
  row.raw("held_by", holders + "]");
  row.integer("references", object.references());
  row.text("state", object.state());
  row.boolean("copy", object.copy());
  row.end();
  return text;
}

}  // namespace volador::dashboard
