#include "cli/cluster_view.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <chrono>
#include <ctime>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/table.h"
#include "runtime/protocol/volador/v1/cluster.pb.h"
#include "runtime/quantities.h"
#include "runtime/resources.h"

namespace volador::cli {

namespace {

using Amounts = google::protobuf::Map<std::string, int64_t>;

int64_t amount_of(const Amounts& amounts, const std::string& name) {
  const auto found = amounts.find(name);
  return found == amounts.end() ? 0 : found->second;
}

std::string shown_amount(const std::string& name, int64_t amount) {
  return name == "memory" ? format_bytes(amount) : format_amount(amount);
}

// "1.5 of 4", empty where there is none at all.
std::string used_of(const Amounts& used, const Amounts& total, const std::string& name) {
  if (amount_of(total, name) == 0 && amount_of(used, name) == 0) return "";
  return fmt::format("{} of {}", shown_amount(name, amount_of(used, name)), shown_amount(name, amount_of(total, name)));
}

std::string asked(const Amounts& amounts) {
  std::string text;
  for (const auto& [name, amount] : std::map<std::string, int64_t>(amounts.begin(), amounts.end()))
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", printable(name), shown_amount(name, amount));
  return text;
}

std::string labels_of(const v1::Node& node) {
  std::string text;
  for (const auto& [name, value] : std::map<std::string, std::string>(node.labels().begin(), node.labels().end()))
    text += fmt::format("{}{}={}", text.empty() ? "" : ",", printable(name), printable(value));
  return text;
}

std::string counts(const google::protobuf::Map<std::string, int64_t>& by_state) {
  std::string text;
  for (const auto& [state, count] : std::map<std::string, int64_t>(by_state.begin(), by_state.end()))
    if (count > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, printable(state));
  return text.empty() ? "none" : text;
}

std::string cut(std::string text, size_t columns_max) {
  text = printable(text);
  if (text.size() <= columns_max) return text;
  size_t end = columns_max - 1;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;  // Not within a letter.
  return text.substr(0, end) + "…";
}

// A name with its namespace where that is not the default one.
std::string shown_name(const v1::Actor& actor) {
  if (actor.name().empty()) return actor.display();
  const bool plain = actor.namespace_().empty() || actor.namespace_() == "default";
  return plain ? actor.name() : actor.namespace_() + "/" + actor.name();
}

Table nodes_table(const google::protobuf::RepeatedPtrField<v1::Node>& nodes, const Terminal& terminal) {
  Table table({{"node"},
               {"state"},
               {"address"},
               {"CPUs used"},
               {"GPUs used"},
               {"memory used"},
               {"actors", Align::kRight},
               {"load", Align::kRight},
               {"heard", Align::kRight},
               {"labels"}});
  for (const v1::Node& node : nodes) {
    table.add({printable(node.name()), terminal.paint_state(printable(node.state())), printable(node.address()),
               used_of(node.used(), node.total(), "cpus"), used_of(node.used(), node.total(), "gpus"),
               used_of(node.used(), node.total(), "memory"), std::to_string(node.actors()),
               fmt::format("{:.2f}", node.cpu_cores_used()),
               format_duration(std::chrono::milliseconds(node.last_heard_ms_ago())) + " ago", labels_of(node)});
  }
  return table;
}

std::string value_text(const nlohmann::json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (value.is_number_float()) return fmt::format("{:.4g}", value.get<double>());
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// {"model": {"width": 48}} → model.width 48.
void flatten(const nlohmann::json& json, const std::string& prefix, std::map<std::string, std::string>& out) {
  for (const auto& [name, value] : json.items()) {
    const std::string key = prefix.empty() ? name : prefix + "." + name;
    if (value.is_object()) {
      flatten(value, key, out);
    } else {
      out[key] = value_text(value);
    }
  }
}

std::map<std::string, std::string> config_of(const v1::Trial& trial) {
  std::map<std::string, std::string> flat;
  const auto json = nlohmann::json::parse(trial.config_json(), nullptr, /*allow_exceptions=*/false);
  if (json.is_object()) flatten(json, "", flat);
  return flat;
}

std::string day_and_time(int64_t wall_ns) {
  const std::time_t seconds = static_cast<std::time_t>(wall_ns / 1'000'000'000);
  std::tm parts{};
  ::localtime_r(&seconds, &parts);
  char buffer[32];
  return std::string(buffer, std::strftime(buffer, sizeof buffer, "%Y-%m-%d %H:%M", &parts));
}

}  // namespace

std::string capacity_text(const v1::Node& node) {
  const std::string cpus = format_amount(amount_of(node.total(), "cpus"));
  std::string text =
      fmt::format("{} CPU{} · {}", cpus, cpus == "1" ? "" : "s", format_bytes(amount_of(node.total(), "memory")));
  if (const int64_t gpus = amount_of(node.total(), "gpus"); gpus > 0) {
    text += fmt::format(" · {} GPU{}", format_amount(gpus), gpus == kUnit ? "" : "s");
    if (!node.gpu_model().empty()) text += fmt::format(" ({})", printable(node.gpu_model()));
  }
  return text;
}

std::string status_text(const v1::StatusReply& status, const Terminal& terminal) {
  std::string out = fmt::format("{} · {} · volador {} · up {}\n",
                                terminal.paint(Colour::kBold, "cluster " + printable(status.cluster_name())),
                                printable(status.address()), printable(status.version()),
                                format_duration(std::chrono::milliseconds(status.uptime_ms())));
  std::string resources;
  for (const auto& [name, total] : std::map<std::string, int64_t>(status.total().begin(), status.total().end()))
    resources += fmt::format("{}{} {}", resources.empty() ? "" : " · ", printable(name),
                             used_of(status.used(), status.total(), name));
  out += fmt::format("  in use      {}\n", resources.empty() ? "nothing: no node has joined" : resources);
  out += fmt::format("  actors      {}\n", counts(status.actors_by_state()));
  out += fmt::format("  programs    {}\n", status.drivers());
  for (const v1::Experiment& experiment : status.experiments())
    out += fmt::format("  experiment  {} ({}): {} trials: {}\n", printable(experiment.name()),
                       printable(experiment.state()), experiment.trials_total(), counts(experiment.trials_by_status()));
  if (!status.nodes().empty()) out += "\n" + nodes_table(status.nodes(), terminal).text();
  return out;
}

std::string nodes_text(const v1::ListNodesReply& nodes, const Terminal& terminal) {
  return nodes.nodes().empty() ? "no nodes\n" : nodes_table(nodes.nodes(), terminal).text();
}

std::string actors_text(const v1::ListActorsReply& actors, const Terminal& terminal) {
  if (actors.actors().empty()) return "no actors\n";
  Table table({{"actor"},
               {"class"},
               {"name"},
               {"state"},
               {"isolation"},
               {"node"},
               {"pid", Align::kRight},
               {"restarts", Align::kRight},
               {"asks"},
               {"GPUs"},
               {"reason"}});
  for (const v1::Actor& actor : actors.actors()) {
    table.add({actor.id().substr(0, 8), cut(actor.class_name(), 32),
               cut(shown_name(actor), 24),
               terminal.paint_state(printable(actor.state())), printable(actor.isolation()), printable(actor.node()),
               actor.pid() == 0 ? "" : std::to_string(actor.pid()),
               actor.restarts() == 0 ? "" : std::to_string(actor.restarts()), asked(actor.resources()),
               fmt::format("{}", fmt::join(actor.gpus(), ",")), cut(actor.reason(), 80)});
  }
  std::string out = table.text();
  if (const int64_t more = actors.total() - actors.actors_size(); more > 0)
    out += fmt::format("… {} more: --limit={}\n", more, actors.total());
  return out;
}

std::string groups_text(const v1::ListGroupsReply& groups, const Terminal& terminal) {
  if (groups.groups().empty()) return "no placement groups\n";
  Table table({{"group"}, {"name"}, {"strategy"}, {"state"}, {"bundles", Align::kRight}, {"actors", Align::kRight}, {"asks"}, {"nodes"}, {"reason"}});
  for (const v1::Group& group : groups.groups()) {
    std::map<std::string, int64_t> asked_in_all;
    std::set<std::string> nodes;
    int actors = 0;
    for (const v1::Bundle& bundle : group.bundles()) {
      for (const auto& [name, amount] : bundle.total()) asked_in_all[name] += amount;
      if (!bundle.node().empty()) nodes.insert(printable(bundle.node()));
      actors += bundle.actors();
    }
    const google::protobuf::Map<std::string, int64_t> all(asked_in_all.begin(), asked_in_all.end());
    table.add({group.id().substr(0, 8), cut(group.name(), 24), group.strategy(), terminal.paint_state(printable(group.state())),
               std::to_string(group.bundles_size()), std::to_string(actors), asked(all), cut(fmt::format("{}", fmt::join(nodes, ",")), 40),
               cut(group.reason(), 80)});
  }
  std::string out = table.text();
  if (const int64_t more = groups.total() - groups.groups_size(); more > 0) out += fmt::format("… {} more: --limit={}\n", more, groups.total());
  return out;
}

static std::string store_line(const v1::ObjectStore& store) {
  if (!store.error().empty()) return fmt::format("node {}: {}\n", printable(store.node()), printable(store.error()));
  const std::string spilled = store.spilled_max() == 0 ? "no disk" : fmt::format("{} of {} spilled to disk", format_bytes(store.spilled()), format_bytes(store.spilled_max()));
  return fmt::format("node {}: {} objects, {} of {} in use, {}\n", printable(store.node()), store.objects(), format_bytes(store.bytes()), format_bytes(store.bytes_max()), spilled);
}

std::string memory_text(const v1::ListObjectsReply& objects, const Terminal&) {
  std::string text;
  for (const v1::ObjectStore& store : objects.stores()) text += store_line(store);
  if (objects.groups().empty()) return text + "no objects\n";
  Table table({{"size", Align::kRight}, {"objects", Align::kRight}, {"in memory", Align::kRight}, {"spilled", Align::kRight}, {"references", Align::kRight}, {"put at"}, {"type"}, {"put by"}, {"node"}});
  for (const v1::ObjectGroup& group : objects.groups()) {
    table.add({format_bytes(group.bytes()), std::to_string(group.objects()), format_bytes(group.bytes_in_memory()), format_bytes(group.bytes_spilled()),
               std::to_string(group.references()), cut(group.place(), 40), cut(group.type(), 40), printable(group.put_by()), printable(group.node())});
  }
  return text + table.text();
}

std::string objects_text(const v1::ListObjectsReply& objects, const Terminal&) {
  std::string text;
  for (const v1::ObjectStore& store : objects.stores()) {
    text += store_line(store);
  }
  if (objects.objects().empty()) return text + "no objects\n";
  Table table({{"object"}, {"node"}, {"size", Align::kRight}, {"state"}, {"type"}, {"put at"}, {"put by"}, {"held by"}});
  for (const v1::Object& object : objects.objects()) {
    std::string holders;
    for (const std::string& holder : object.held_by()) holders += (holders.empty() ? "" : ", ") + printable(holder);
    table.add({printable(object.id()), printable(object.node()), format_bytes(object.bytes()), printable(object.state()), cut(object.type(), 40),
               cut(object.place(), 40), printable(object.put_by()),
               cut(holders, 60)});
  }
  return text + table.text();
}

std::string trials_text(const v1::ListTrialsReply& trials, const Terminal& terminal) {
  if (trials.trials().empty()) return "no trials\n";
  std::set<std::string> metrics, keys;
  std::vector<std::map<std::string, std::string>> configs;
  for (const v1::Trial& trial : trials.trials()) {
    for (const auto& [name, value] : trial.metrics()) metrics.insert(name);
    configs.push_back(config_of(trial));
    for (const auto& [name, value] : configs.back()) keys.insert(name);
  }
  auto shorten = [](std::set<std::string>& names) {
    while (names.size() > kTrialColumnsMax) names.erase(std::prev(names.end()));
  };
  // What Tune adds by itself to each result is of little use in a table.
  for (const char* automatic : {"time_this_iter_s", "time_total_s", "timestamp", "training_iteration", "pid", "done"})
    metrics.erase(automatic);
  shorten(metrics);
  shorten(keys);

  const auto any = [&](auto has) { return std::any_of(trials.trials().begin(), trials.trials().end(), has); };
  const bool named = any([](const v1::Trial& trial) { return !trial.name().empty(); });
  const bool tagged = any([](const v1::Trial& trial) { return !trial.tags().empty(); });
  std::vector<Table::Column> columns{{"trial"}};
  if (named) columns.push_back({"name"});
  columns.insert(columns.end(), {{"experiment"}, {"status"}, {"node"}, {"step", Align::kRight}});
  for (const auto& name : metrics) columns.push_back({cut(name, 24), Align::kRight});
  for (const auto& name : keys) columns.push_back({cut(name, 24), Align::kRight});
  if (tagged) columns.push_back({"tags"});
  columns.push_back({"reason"});
  Table table(std::move(columns));
  for (int i = 0; i < trials.trials_size(); ++i) {
    const v1::Trial& trial = trials.trials(i);
    std::vector<std::string> cells{printable(trial.id())};
    if (named) cells.push_back(cut(trial.name(), 40));
    for (const std::string& cell : {printable(trial.experiment()), terminal.paint_state(printable(trial.status())), printable(trial.node()), std::to_string(trial.step())})
      cells.push_back(cell);
    for (const auto& name : metrics) {
      const auto found = trial.metrics().find(name);
      cells.push_back(found == trial.metrics().end() ? "" : fmt::format("{:.4g}", found->second));
    }
    for (const auto& name : keys) {
      const auto found = configs[static_cast<size_t>(i)].find(name);
      cells.push_back(found == configs[static_cast<size_t>(i)].end() ? "" : cut(found->second, 24));
    }
    if (tagged) cells.push_back(cut(fmt::format("{}", fmt::join(trial.tags(), ", ")), 60));
    cells.push_back(cut(trial.error().empty() ? trial.reason() : trial.error(), 80));
    table.add(std::move(cells));
  }
  std::string out = table.text();
  if (const int64_t more = trials.total() - trials.trials_size(); more > 0)
    out += fmt::format("… {} more: --limit={}\n", more, trials.total());
  return out;
}

std::string tokens_text(const v1::ListTokensReply& tokens, const Terminal& terminal, int64_t now_wall_ns) {
  if (tokens.tokens().empty()) return "no tokens\n";
  Table table({{"token"}, {"role"}, {"state"}, {"created"}, {"expires"}, {"note"}});
  for (const v1::Token& token : tokens.tokens()) {
    const bool expires = token.expires_wall_ns() != 0;
    const bool expired = expires && token.expires_wall_ns() <= now_wall_ns;
    const std::string state = token.revoked() ? terminal.paint(Colour::kRed, "revoked")
                              : expired       ? terminal.paint(Colour::kYellow, "expired")
                                              : terminal.paint(Colour::kGreen, "valid");
    table.add({printable(token.id()), printable(token.role()), state, day_and_time(token.created_wall_ns()),
               expires ? day_and_time(token.expires_wall_ns()) : "never", cut(token.note(), 60)});
  }
  return table.text();
}

}  // namespace volador::cli
