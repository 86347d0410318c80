// The Prometheus metrics.
#include "dashboard/api.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "dashboard/actor_metrics.h"
#include "dashboard/row_text.h"
#include "runtime/duration_histogram.h"
#include "runtime/version.h"

namespace volador::dashboard {

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
    size_t problems = 0;
  };
  std::vector<NodeUse> uses;
  std::map<std::string_view, std::string> machine;  // Samples by measure.
  std::string free, total;
  for (const auto& [id, row] : model_.table(Topic::kNodes).rows()) {
    const auto node = nlohmann::json::parse(row.text, nullptr, false);
    ++nodes[node.value("state", "")];
    if (node.value("state", "") == "dead") continue;
    const std::string name = node.value("name", "");
    uses.push_back({name, node.value("cpu_cores_used", 0.0), node.value("memory_bytes_used", 0.0),
                    node.value("problems", nlohmann::json::array()).size()});
    for (const std::string_view measure : kMachineMeasures) {
      if (const auto value = node.find(measure); value != node.end())
        machine[measure] +=
            fmt::format("volador_node_{}{{node=\"{}\"}} {}\n", measure, label(name), value->get<double>());
    }
    for (const auto& one : node.value("file_systems", nlohmann::json::array())) {
      const std::string labels = fmt::format("{{node=\"{}\",path=\"{}\"}}", label(name), label(one.value("path", "")));
      free += fmt::format("volador_node_file_system_free_bytes{} {}\n", labels, one.value("free", int64_t{0}));
      total += fmt::format("volador_node_file_system_bytes{} {}\n", labels, one.value("total", int64_t{0}));
    }
  }
  declare("volador_nodes", "gauge", "Nodes by their state.");
  for (const auto& [state, count] : nodes)
    out += fmt::format("volador_nodes{{state=\"{}\"}} {}\n", label(state), count);
  declare("volador_node_cpu_cores_used", "gauge", "Cores in use on a node.");
  for (const NodeUse& use : uses)
    out += fmt::format("volador_node_cpu_cores_used{{node=\"{}\"}} {}\n", label(use.name), use.cores);
  declare("volador_node_memory_used_bytes", "gauge", "Memory in use on a node.");
  for (const NodeUse& use : uses)
    out += fmt::format("volador_node_memory_used_bytes{{node=\"{}\"}} {}\n", label(use.name), use.memory);
  declare("volador_node_health_problems", "gauge", "Health problems of a node and its GPUs.");
  for (const NodeUse& use : uses)
    out += fmt::format("volador_node_health_problems{{node=\"{}\"}} {}\n", label(use.name), use.problems);
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
  for (const auto& [state, count] :
       std::map<std::string, int64_t>(totals.actors_by_state().begin(), totals.actors_by_state().end())) {
    out += fmt::format("volador_actors{{state=\"{}\"}} {}\n", label(state), count);
  }
  const auto amounts = [&](std::string_view metric, const auto& map) {
    for (const auto& [name, amount] : std::map<std::string, int64_t>(map.begin(), map.end())) {
      out += fmt::format("{}{{resource=\"{}\"}} {}\n", metric, label(name),
                         name == "memory" ? static_cast<double>(amount) : static_cast<double>(amount) / 10'000);
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
  for (const auto& [status, count] : by_status)
    out += fmt::format("volador_trials{{status=\"{}\"}} {}\n", label(status), count);
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
    declare("volador_head_decision_seconds", "histogram",
            "From the arrival of a message at the head to what it decided, without the journal's commit.");
    const DurationHistogram::Counts counts = times->counts();
    uint64_t sum = 0;
    for (size_t at = 0; at < DurationHistogram::kUpTo.size(); ++at) {
      sum += counts.in[at];
      out += fmt::format("volador_head_decision_seconds_bucket{{le=\"{}\"}} {}\n",
                         std::chrono::duration<double>(DurationHistogram::kUpTo[at]).count(), sum);
    }
    out += fmt::format(
        "volador_head_decision_seconds_bucket{{le=\"+Inf\"}} {0}\nvolador_head_decision_seconds_sum "
        "{1}\nvolador_head_decision_seconds_count {0}\n",
        counts.total, counts.sum_s);
  }
  declare("volador_actor_series", "gauge", "Series of actors' own measures that are shown here as volador_app_….");
  out += fmt::format("volador_actor_series {}\n", model_.actor_metrics().series());
  declare("volador_actor_series_left_out", "gauge",
          "Further ones that are not, by the limit of an actor or of the cluster.");
  out += fmt::format("volador_actor_series_left_out {}\n", model_.actor_metrics().left_out());
  const auto& actor_rows = model_.table(Topic::kActors).rows();
  model_.actor_metrics().append_prometheus(out, [&actor_rows](const std::string& id) -> ActorMetrics::Labels {
    const auto row = actor_rows.find(id);
    if (row == actor_rows.end()) return {};
    const auto actor = nlohmann::json::parse(row->second.text, nullptr, false);
    return {.name = actor.value("name", ""),
            .actor_namespace = actor.value("namespace", ""),
            .class_name = actor.value("class_name", ""),
            .node = actor.value("node", "")};
  });
  respond({.content_type = "text/plain; version=0.0.4; charset=utf-8",
           .body = std::move(out),
           .headers = {{"Cache-Control", "no-store"}}});
}

}  // namespace volador::dashboard
