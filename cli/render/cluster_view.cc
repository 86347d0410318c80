#include "cli/render/cluster_view.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/render/row_view.h"
#include "cli/render/table.h"
#include "runtime/language/health_reason.h"
#include "runtime/language/text_width.h"
#include "runtime/protocol/volador/v1/cluster.pb.h"
#include "runtime/quantities.h"
#include "runtime/resources.h"
#include "tune/display/progress_table.h"

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

std::string cut(std::string text, size_t columns_max) {
  text = printable(text);
  if (display_width(text) <= columns_max) return text;
  size_t end = 0;
  for (size_t columns = 1;;) {  // Starting with the width of "…".
    const auto [point, length] = front_code_point(std::string_view(text).substr(end));
    columns += columns_of(point);
    if (columns > columns_max) return text.substr(0, end) + "…";
    end += length;
  }
}

// Returns the name, with its namespace unless that is the default one.
std::string shown_name(const v1::Actor& actor) {
  if (actor.name().empty()) return actor.display();
  const bool plain = actor.namespace_().empty() || actor.namespace_() == "default";
  return plain ? actor.name() : actor.namespace_() + "/" + actor.name();
}

// Returns "12.5/16"; empty if the total is 0.
std::string share(const Amounts& used, const Amounts& total, const std::string& name) {
  const int64_t in_use = amount_of(used, name), all = amount_of(total, name);
  if (all == 0 && in_use == 0) return "";
  std::string first = shown_amount(name, in_use);
  const std::string second = shown_amount(name, all);
  // A common unit is printed once.
  const size_t unit = first.rfind(' ');
  if (unit != std::string::npos && second.ends_with(first.substr(unit))) first.resize(unit);
  return first + "/" + second;
}

// Mean utilisation of the GPUs whose driver reports it; empty: none does.
std::string gpu_use(const v1::Node& node) {
  double sum = 0;
  int measured = 0;
  for (const v1::Gpu& gpu : node.gpus()) {
    if (!gpu.measured()) continue;
    sum += gpu.utilization();
    ++measured;
  }
  return measured == 0 ? "" : fmt::format("{:.0f} %", 100 * sum / measured);
}

// "0/2 (1 bad)"
std::string gpu_share(const v1::Node& node, const Terminal& terminal) {
  std::set<int> bad;
  for (const v1::HealthProblem& one : node.problems()) {
    if (one.has_gpu()) bad.insert(one.gpu());
  }
  const std::string share_of_gpus = share(node.used(), node.total(), "gpus");
  return bad.empty() ? share_of_gpus : terminal.fill("{} ({} bad)", share_of_gpus, bad.size());
}

// A node with a problem of its own takes nothing new.
std::string shown_state(const v1::Node& node) {
  const bool own = std::any_of(node.problems().begin(), node.problems().end(),
                               [](const v1::HealthProblem& one) { return !one.has_gpu(); });
  return own && node.state() == "alive" ? "unhealthy" : node.state();
}

std::string reasons_of(const v1::Node& node, const Terminal& terminal) {
  std::string text = terminal.reason(node.reason(), node.why());
  for (const v1::HealthProblem& one : node.problems()) {
    const Reason why = health_reason(one);
    text += (text.empty() ? "" : "; ") + terminal.reason(why.text(), why.to_json());
  }
  return text;
}

// Sorts rows by state, then by `before`.
template <class Row, class Before>
std::vector<const Row*> by_state(const google::protobuf::RepeatedPtrField<Row>& rows, Before before) {
  std::vector<const Row*> sorted;
  for (const Row& row : rows) sorted.push_back(&row);
  std::stable_sort(sorted.begin(), sorted.end(), [&](const Row* a, const Row* b) {
    const int first = state_rank(a->state()), second = state_rank(b->state());
    return first != second ? first < second : before(*a, *b);
  });
  return sorted;
}

Table nodes_table(const google::protobuf::RepeatedPtrField<v1::Node>& nodes, const Terminal& terminal) {
  Table table({{.title = terminal.tr("node"), .width_max = kNameColumns, .width_min = 12, .cut = Cut::kMiddle},
               {.title = terminal.tr("state")},
               {.title = terminal.tr("CPUs"), .align = Align::kRight},
               {.title = terminal.tr("GPUs"), .align = Align::kRight},
               {.title = terminal.tr("memory"), .align = Align::kRight},
               {.title = terminal.tr("busy CPUs"), .align = Align::kRight, .rank = 2},
               {.title = terminal.tr("busy GPUs"), .align = Align::kRight, .rank = 1},
               {.title = terminal.tr("actors"), .align = Align::kRight, .rank = 3},
               {.title = terminal.tr("heard"), .align = Align::kRight, .rank = 4},
               {.title = terminal.tr("reason"), .rank = 5},
               {.title = terminal.tr("address"), .rank = 6},
               {.title = terminal.tr("labels"), .rank = 7}});
  const auto busier = [](const v1::Node& a, const v1::Node& b) {
    if (a.cpu_cores_used() != b.cpu_cores_used()) return a.cpu_cores_used() > b.cpu_cores_used();
    return a.name() < b.name();
  };
  for (const v1::Node* node : by_state(nodes, busier)) {
    table.add({printable(node->name()), terminal.paint_state(printable(shown_state(*node))),
               share(node->used(), node->total(), "cpus"), gpu_share(*node, terminal),
               share(node->used(), node->total(), "memory"), fmt::format("{:.1f}", node->cpu_cores_used()),
               gpu_use(*node), std::to_string(node->actors()),
               format_duration(std::chrono::milliseconds(node->last_heard_ms_ago())),
               printable(reasons_of(*node, terminal)), printable(node->address()), labels_of(*node)});
  }
  return table;
}

std::string more_rows(int64_t total, int64_t shown, const Terminal& terminal) {
  return total > shown ? terminal.fill("… {} more: --limit={}", total - shown, total) + "\n" : "";
}

std::string joined_counts(const google::protobuf::Map<std::string, int64_t>& by_state, const Terminal& terminal) {
  std::vector<std::pair<std::string, int64_t>> sorted(by_state.begin(), by_state.end());
  std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
    const int first = state_rank(a.first), second = state_rank(b.first);
    return first != second ? first < second : a.first < b.first;
  });
  std::string text;
  for (const auto& [state, count] : sorted) {
    if (count > 0) text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, terminal.word(printable(state)));
  }
  return text.empty() ? terminal.tr("none") : text;
}

bool is_open(const v1::Experiment& experiment) {
  return experiment.state() == "running" || experiment.state() == "paused";
}

// Returns the best trial at the end (tune/loop/best_trial.h) and its value; empty if there is none.
std::string best_cell(const v1::Experiment& experiment) {
  if (!experiment.has_best()) return {};
  return fmt::format("{}  {}", printable(experiment.best().trial()), tune::format_value(experiment.best().value()));
}

// Running experiments and the first of the others.
Table experiments_table(const v1::StatusReply& status, size_t ended_max, const Terminal& terminal) {
  Table table({{.title = terminal.tr("experiment"), .width_max = 32, .width_min = 16, .cut = Cut::kMiddle},
               {.title = terminal.tr("state")},
               {.title = terminal.tr("trials"), .align = Align::kRight},
               {.title = terminal.tr("best"), .rank = 1, .width_max = 24, .width_min = 10},
               {.title = terminal.tr("left"), .align = Align::kRight},
               {.title = terminal.tr("of which"), .rank = 2, .width_max = 60, .width_min = 20}});
  const auto add = [&](const v1::Experiment& experiment) {
    const auto left = experiment.has_left() ? std::optional(experiment.left().seconds()) : std::nullopt;
    table.add({printable(experiment.name()), terminal.paint_state(printable(experiment.state())),
               std::to_string(experiment.trials_total()), best_cell(experiment), left_cell(experiment.state(), left),
               joined_counts(experiment.trials_by_status(), terminal)});
  };
  for (const v1::Experiment& experiment : status.experiments()) {
    if (is_open(experiment)) add(experiment);
  }
  size_t ended = 0;
  for (const v1::Experiment& experiment : status.experiments()) {
    if (!is_open(experiment) && ended++ < ended_max) add(experiment);
  }
  return table;
}

// Explains why more resources are in use than exist.
std::vector<std::string> overdrawn_notes(const v1::StatusReply& status, const Terminal& terminal) {
  std::vector<std::string> notes;
  for (const v1::Node& node : status.nodes()) {
    const int64_t used = amount_of(node.used(), "cpus"), total = amount_of(node.total(), "cpus");
    if (used <= total || total == 0) continue;
    notes.push_back(
        terminal.fill("node {}: {} of {} CPUs in use, as tasks that waited have taken back the CPUs they lent; this "
                      "ends with the tasks that borrowed them",
                      printable(node.name()), format_amount(used), format_amount(total)));
  }
  return notes;
}

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  for (size_t at = 0; at <= text.size();) {
    const size_t space = std::min(text.find(' ', at), text.size());
    words.emplace_back(text.substr(at, space - at));
    at = space + 1;
  }
  return words;
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
  std::string text = fmt::format("{} · {}", counted(cpus, "CPU"), format_bytes(amount_of(node.total(), "memory")));
  if (const int64_t gpus = amount_of(node.total(), "gpus"); gpus > 0) {
    text += fmt::format(" · {}", counted(format_amount(gpus), "GPU"));
    if (!node.gpu_model().empty()) text += fmt::format(" ({})", printable(node.gpu_model()));
  }
  return text;
}

int state_rank(std::string_view state) {
  static constexpr std::array<std::string_view, 25> kOrder{
      "running",  "alive",       "ready",        "active",  "connected", "starting", "draining", "stopping", "suspect",
      "awaited",  "restarting",  "rescheduling", "pending", "waiting",   "paused",   "lost",     "finished", "stopped",
      "complete", "interrupted", "failed",       "error",   "removed",   "dead",     "gone"};
  return static_cast<int>(std::find(kOrder.begin(), kOrder.end(), state) - kOrder.begin());
}

std::string left_cell(std::string_view state, std::optional<double> seconds) {
  if (state != "running") return {};
  return seconds ? tune::format_elapsed(std::chrono::seconds(std::llround(*seconds))) : "–";
}

std::string status_text(const v1::StatusReply& status, const Terminal& terminal) {
  constexpr size_t kIndent = 14;
  const size_t columns = terminal.columns();
  std::string out =
      wrapped({terminal.paint(Colour::kBold, terminal.fill("cluster {}", printable(status.cluster_name()))),
               printable(status.address()), "volador " + printable(status.version()),
               terminal.fill("up {}", format_duration(std::chrono::milliseconds(status.uptime_ms())))},
              " · ", columns, 2);
  std::vector<std::string> resources;
  for (const auto& [name, total] : std::map<std::string, int64_t>(status.total().begin(), status.total().end()))
    resources.push_back(
        printable(name) + " " +
        terminal.fill("{} of {}", shown_amount(name, amount_of(status.used(), name)), shown_amount(name, total)));
  if (resources.empty()) resources.push_back(terminal.tr("nothing: no node has joined"));
  const auto line = [&](std::string_view title, std::vector<std::string> parts, std::string_view separator = " · ") {
    parts.front() = "  " + std::string(title) +
                    std::string(kIndent - 2 - std::min(kIndent - 2, display_width(title)), ' ') + parts.front();
    out += wrapped(parts, separator, columns, kIndent);
  };
  line(terminal.tr("in use"), resources);
  for (const std::string& note : overdrawn_notes(status, terminal)) line(terminal.tr("note"), words_of(note), " ");
  google::protobuf::Map<std::string, int64_t> nodes;
  for (const v1::Node& node : status.nodes()) ++nodes[node.state()];
  std::vector<std::string> nodes_line{joined_counts(nodes, terminal)};
  if (status.nodes_lost() > 0)
    nodes_line.push_back(terminal.paint(Colour::kRed, terminal.fill("{} lost", status.nodes_lost())) +
                         ": volador list nodes --state=dead");
  line(terminal.tr("nodes"), nodes_line);
  line(terminal.tr("actors"), {joined_counts(status.actors_by_state(), terminal)});
  line(terminal.tr("programs"), {std::to_string(status.drivers())});
  if (!status.experiments().empty()) {
    const auto open = std::count_if(status.experiments().begin(), status.experiments().end(), is_open);
    const auto ended = static_cast<size_t>(status.experiments_size() - open);
    out += "\n" + experiments_table(status, kEndedExperimentsShown, terminal).text(columns);
    if (ended > kEndedExperimentsShown)
      out += terminal.fill("… {} more: volador list experiments", ended - kEndedExperimentsShown) + "\n";
  }
  if (!status.nodes().empty()) out += "\n" + fitted(nodes_table(status.nodes(), terminal), terminal);
  return out;
}

std::string nodes_text(const v1::ListNodesReply& nodes, const Terminal& terminal) {
  return nodes.nodes().empty() ? terminal.tr("no nodes") + "\n"
                               : fitted(nodes_table(nodes.nodes(), terminal), terminal);
}

std::string actors_text(const v1::ListActorsReply& actors, const Terminal& terminal) {
  if (actors.actors().empty()) return terminal.tr("no actors") + "\n";
  Table table({{.title = terminal.tr("actor"), .width_max = kNameColumns, .width_min = 12, .cut = Cut::kMiddle},
               {.title = terminal.tr("id")},
               {.title = terminal.tr("state")},
               {.title = terminal.tr("node"), .width_max = kNameColumns, .width_min = 14, .cut = Cut::kMiddle},
               {.title = terminal.tr("busy CPUs"), .align = Align::kRight, .rank = 1},
               {.title = terminal.tr("memory"), .align = Align::kRight, .rank = 2},
               {.title = terminal.tr("reserved"), .rank = 4, .width_max = 30, .width_min = 14},
               {.title = terminal.tr("GPU ids"), .rank = 5},
               {.title = terminal.tr("restarts"), .align = Align::kRight, .rank = 7},
               {.title = terminal.tr("process"), .align = Align::kRight, .rank = 8},
               {.title = terminal.tr("reason"), .rank = 3, .width_max = 80, .width_min = 24},
               {.title = terminal.tr("class"), .rank = 6, .width_max = 32, .width_min = 12, .cut = Cut::kMiddle},
               {.title = terminal.tr("isolation"), .rank = 9}});
  const auto busier = [](const v1::Actor& a, const v1::Actor& b) {
    if (a.cpu_cores() != b.cpu_cores()) return a.cpu_cores() > b.cpu_cores();
    const std::string first = shown_name(a), second = shown_name(b);
    return first != second ? first < second : a.id() < b.id();
  };
  for (const v1::Actor* actor : by_state(actors.actors(), busier)) {
    const bool measured = actor->memory_bytes() > 0;
    table.add(
        {printable(shown_name(*actor)), printable(actor->id().substr(0, 8)),
         terminal.paint_state(printable(actor->state())), printable(actor->node()),
         measured ? fmt::format("{:.2f}", actor->cpu_cores()) : "", measured ? format_bytes(actor->memory_bytes()) : "",
         asked(actor->resources()), fmt::format("{}", fmt::join(actor->gpus(), ",")),
         actor->restarts() == 0 ? "" : std::to_string(actor->restarts()),
         actor->pid() == 0 ? "" : std::to_string(actor->pid()), cut(terminal.reason(actor->reason(), actor->why()), 80),
         printable(actor->class_name()), printable(actor->isolation())});
  }
  return fitted(table, terminal) + more_rows(actors.total(), actors.actors_size(), terminal);
}

std::string groups_text(const v1::ListGroupsReply& groups, const Terminal& terminal) {
  if (groups.groups().empty()) return terminal.tr("no placement groups") + "\n";
  Table table({{.title = terminal.tr("group"), .width_max = kNameColumns, .width_min = 10, .cut = Cut::kMiddle},
               {.title = terminal.tr("id")},
               {.title = terminal.tr("strategy"), .rank = 4},
               {.title = terminal.tr("state")},
               {.title = terminal.tr("bundles"), .align = Align::kRight},
               {.title = terminal.tr("actors"), .align = Align::kRight, .rank = 3},
               {.title = terminal.tr("reserved"), .rank = 1, .width_max = 30, .width_min = 10},
               {.title = terminal.tr("nodes"), .rank = 5, .width_max = 40, .width_min = 12},
               {.title = terminal.tr("reason"), .rank = 2, .width_max = 80, .width_min = 12}});
  const auto larger = [](const v1::Group& a, const v1::Group& b) {
    return a.bundles_size() != b.bundles_size() ? a.bundles_size() > b.bundles_size() : a.id() < b.id();
  };
  for (const v1::Group* group : by_state(groups.groups(), larger)) {
    std::map<std::string, int64_t> asked_in_all;
    std::set<std::string> nodes;
    int actors = 0;
    for (const v1::Bundle& bundle : group->bundles()) {
      for (const auto& [name, amount] : bundle.total()) asked_in_all[name] += amount;
      if (!bundle.node().empty()) nodes.insert(printable(bundle.node()));
      actors += bundle.actors();
    }
    const google::protobuf::Map<std::string, int64_t> all(asked_in_all.begin(), asked_in_all.end());
    const std::string id = printable(group->id().substr(0, 8));
    table.add({group->name().empty() ? id : printable(group->name()), id, printable(group->strategy()),
               terminal.paint_state(printable(group->state())), std::to_string(group->bundles_size()),
               std::to_string(actors), asked(all), fmt::format("{}", fmt::join(nodes, ",")),
               cut(terminal.reason(group->reason(), group->why()), 80)});
  }
  return fitted(table, terminal) + more_rows(groups.total(), groups.groups_size(), terminal);
}

namespace {

std::string store_line(const v1::ObjectStore& store, const Terminal& terminal) {
  const std::string node = terminal.fill("node {}", printable(store.node()));
  if (!store.error().empty()) return wrapped({node, printable(store.error())}, ": ", terminal.columns(), 2);
  return wrapped(
      {node + ": " + (store.objects() == 1 ? terminal.tr("1 object") : terminal.fill("{} objects", store.objects())),
       terminal.fill("{} of {} in use", format_bytes(store.bytes()), format_bytes(store.bytes_max())),
       store.spilled_max() == 0 ? terminal.tr("no disk")
                                : terminal.fill("{} of {} spilled to disk", format_bytes(store.spilled()),
                                                format_bytes(store.spilled_max()))},
      ", ", terminal.columns(), 2);
}

}  // namespace

std::string memory_text(const v1::ListObjectsReply& objects, const Terminal& terminal) {
  std::string text;
  for (const v1::ObjectStore& store : objects.stores()) text += store_line(store, terminal);
  if (objects.groups().empty()) return text + terminal.tr("no objects") + "\n";
  Table table(
      {{.title = terminal.tr("size"), .align = Align::kRight},
       {.title = terminal.tr("objects"), .align = Align::kRight},
       {.title = terminal.tr("in memory"), .align = Align::kRight, .rank = 1},
       {.title = terminal.tr("spilled"), .align = Align::kRight, .rank = 2},
       {.title = terminal.tr("references"), .align = Align::kRight, .rank = 4},
       {.title = terminal.tr("created at"), .width_max = 40, .width_min = 16, .cut = Cut::kMiddle},
       {.title = terminal.tr("type"), .rank = 5, .width_max = 40, .width_min = 10},
       {.title = terminal.tr("created by"), .rank = 3, .width_max = 30, .width_min = 12, .cut = Cut::kMiddle},
       {.title = terminal.tr("node"), .rank = 6, .width_max = kNameColumns, .width_min = 10, .cut = Cut::kMiddle}});
  for (const v1::ObjectGroup& group : objects.groups()) {
    table.add({format_bytes(group.bytes()), std::to_string(group.objects()), format_bytes(group.bytes_in_memory()),
               format_bytes(group.bytes_spilled()), std::to_string(group.references()), printable(group.place()),
               cut(group.type(), 40), printable(group.put_by()), printable(group.node())});
  }
  return text + fitted(table, terminal);
}

std::string objects_text(const v1::ListObjectsReply& objects, const Terminal& terminal) {
  std::string text;
  for (const v1::ObjectStore& store : objects.stores()) text += store_line(store, terminal);
  if (objects.objects().empty()) return text + terminal.tr("no objects") + "\n";
  Table table(
      {{.title = terminal.tr("object"), .width_max = 20, .width_min = 12, .cut = Cut::kMiddle},
       {.title = terminal.tr("node"), .rank = 3, .width_max = kNameColumns, .width_min = 10, .cut = Cut::kMiddle},
       {.title = terminal.tr("size"), .align = Align::kRight},
       {.title = terminal.tr("state")},
       {.title = terminal.tr("type"), .rank = 2, .width_max = 40, .width_min = 10},
       {.title = terminal.tr("created at"), .rank = 1, .width_max = 40, .width_min = 12, .cut = Cut::kMiddle},
       {.title = terminal.tr("created by"), .rank = 4, .width_max = 30, .width_min = 12, .cut = Cut::kMiddle},
       {.title = terminal.tr("held by"), .rank = 5, .width_max = 60, .width_min = 12}});
  for (const v1::Object& object : objects.objects()) {
    std::string holders;
    for (const std::string& holder : object.held_by()) holders += (holders.empty() ? "" : ", ") + printable(holder);
    table.add({printable(object.id()), printable(object.node()), format_bytes(object.bytes()),
               terminal.paint_state(printable(object.state())), cut(object.type(), 40), printable(object.place()),
               printable(object.put_by()), cut(holders, 60)});
  }
  return text + fitted(table, terminal);
}

std::string trials_text(const v1::ListTrialsReply& trials, const Terminal& terminal) {
  if (trials.trials().empty()) return terminal.tr("no trials") + "\n";
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
  // Keys that Tune adds to each result are not useful in a table.
  for (const char* automatic : {"time_this_iter_s", "time_total_s", "timestamp", "training_iteration", "pid", "done"})
    metrics.erase(automatic);
  shorten(metrics);
  shorten(keys);

  const auto any = [&](auto has) { return std::any_of(trials.trials().begin(), trials.trials().end(), has); };
  const bool named = any([](const v1::Trial& trial) { return !trial.name().empty(); });
  const bool tagged = any([](const v1::Trial& trial) { return !trial.tags().empty(); });
  const bool several = any([&](const v1::Trial& trial) { return trial.experiment() != trials.trials(0).experiment(); });
  std::vector<Table::Column> columns;
  if (named) columns.push_back({.title = terminal.tr("name"), .width_max = 40, .width_min = 12, .cut = Cut::kMiddle});
  columns.push_back({.title = terminal.tr("trial")});
  columns.push_back({.title = terminal.tr("experiment"),
                     .rank = several ? 2 : 60,
                     .width_max = 32,
                     .width_min = 14,
                     .cut = Cut::kMiddle});
  columns.push_back({.title = terminal.tr("status")});
  columns.push_back(
      {.title = terminal.tr("node"), .rank = 5, .width_max = kNameColumns, .width_min = 10, .cut = Cut::kMiddle});
  columns.push_back({.title = terminal.tr("step"), .align = Align::kRight});
  // The last part of a path is the most specific: "…learning_rate".
  int rank = 10;
  for (const auto& name : metrics)
    columns.push_back({.title = cut_middle(printable(name), kNameColumns), .align = Align::kRight, .rank = rank++});
  rank = 20;
  for (const auto& name : keys)
    columns.push_back({.title = cut_middle(printable(name), kNameColumns),
                       .align = Align::kRight,
                       .rank = rank++,
                       .width_max = kNameColumns});
  if (tagged) columns.push_back({.title = terminal.tr("tags"), .rank = 50, .width_max = 60, .width_min = 8});
  columns.push_back({.title = terminal.tr("reason"), .rank = 40, .width_max = 80, .width_min = 12});
  Table table(std::move(columns));
  std::vector<size_t> order(configs.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    const v1::Trial& first = trials.trials(static_cast<int>(a));
    const v1::Trial& second = trials.trials(static_cast<int>(b));
    const int first_rank = state_rank(first.status()), second_rank = state_rank(second.status());
    return first_rank != second_rank ? first_rank < second_rank : first.step() > second.step();
  });
  for (const size_t i : order) {
    const v1::Trial& trial = trials.trials(static_cast<int>(i));
    std::vector<std::string> cells;
    if (named) cells.push_back(printable(trial.name()));
    for (const std::string& cell :
         {printable(trial.id()), printable(trial.experiment()), terminal.paint_state(printable(trial.status())),
          printable(trial.node()), std::to_string(trial.step())})
      cells.push_back(cell);
    for (const auto& name : metrics) {
      const auto found = trial.metrics().find(name);
      cells.push_back(found == trial.metrics().end() ? "" : fmt::format("{:.4g}", found->second));
    }
    for (const auto& name : keys) {
      const auto found = configs[i].find(name);
      cells.push_back(found == configs[i].end() ? "" : cut(found->second, 24));
    }
    if (tagged) cells.push_back(cut(fmt::format("{}", fmt::join(trial.tags(), ", ")), 60));
    cells.push_back(cut(trial.error().empty() ? terminal.reason(trial.reason(), trial.why())
                                              : terminal.reason(trial.error(), trial.error_why()),
                        80));
    table.add(std::move(cells));
  }
  return fitted(table, terminal) + more_rows(trials.total(), trials.trials_size(), terminal);
}

std::string audit_text(const v1::ListAuditReply& audit, const Terminal& terminal) {
  if (audit.entries().empty()) return terminal.tr("no entries") + "\n";
  Table table({{.title = terminal.tr("time")},
               {.title = terminal.tr("token"), .rank = 1},
               {.title = terminal.tr("action")},
               {.title = terminal.tr("object"), .width_max = 60, .width_min = 12, .cut = Cut::kMiddle},
               {.title = terminal.tr("outcome"), .width_max = 80, .width_min = 12}});
  for (const v1::AuditEntry& entry : audit.entries()) {
    const bool is_done = entry.outcome() == "done";
    const std::string outcome =
        is_done ? terminal.tr("done") : terminal.fill("refused: {}", printable(entry.message()));
    table.add({day_and_second(entry.wall_ns() / 1'000'000), printable(entry.by()), printable(entry.action()),
               printable(entry.object()), is_done ? outcome : terminal.paint(Colour::kYellow, outcome)});
  }
  return fitted(table, terminal) + more_rows(audit.total(), audit.entries_size(), terminal);
}

std::string tokens_text(const v1::ListTokensReply& tokens, const Terminal& terminal, int64_t now_wall_ns) {
  if (tokens.tokens().empty()) return terminal.tr("no tokens") + "\n";
  Table table({{.title = terminal.tr("token")},
               {.title = terminal.tr("role")},
               {.title = terminal.tr("state")},
               {.title = terminal.tr("created"), .rank = 2},
               {.title = terminal.tr("expires"), .rank = 1},
               {.title = terminal.tr("note"), .rank = 3, .width_max = 60, .width_min = 12}});
  for (const v1::Token& token : tokens.tokens()) {
    const bool expires = token.expires_wall_ns() != 0;
    const bool expired = expires && token.expires_wall_ns() <= now_wall_ns;
    const std::string state = token.revoked() ? terminal.paint(Colour::kRed, terminal.word("revoked"))
                              : expired       ? terminal.paint(Colour::kYellow, terminal.word("expired"))
                                              : terminal.paint(Colour::kGreen, terminal.tr("valid"));
    table.add({printable(token.id()), printable(token.role()), state, day_and_time(token.created_wall_ns()),
               expires ? day_and_time(token.expires_wall_ns()) : terminal.tr("never"), cut(token.note(), 60)});
  }
  return fitted(table, terminal);
}

}  // namespace volador::cli
