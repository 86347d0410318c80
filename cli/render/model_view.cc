#include "cli/render/model_view.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <vector>

#include "cli/render/experiment_view.h"
#include "cli/render/table.h"
#include "cli/render/time_text.h"
#include "runtime/protocol/volador/v1/models.pb.h"
#include "runtime/resources.h"

namespace volador::cli {
namespace {

constexpr size_t kShortCheckpoint = 8;

std::string listed(const google::protobuf::RepeatedPtrField<std::string>& words) {
  return printable(fmt::format("{}", fmt::join(words, ", ")));
}

// "production → 2, staging → 3".
std::string aliases_text(const v1::Model& model) {
  std::vector<std::string> aliases;
  for (const auto& [alias, version] : std::map<std::string, int64_t>(model.aliases().begin(), model.aliases().end()))
    aliases.push_back(fmt::format("{} → {}", alias, version));
  return printable(fmt::format("{}", fmt::join(aliases, ", ")));
}

}  // namespace

std::string model_line(const v1::Model& model, const Terminal& terminal) {
  std::string out = terminal.fill("model {}: {} versions", printable(model.name()), model.versions());
  if (model.archived()) out += ", " + terminal.tr("archived");
  if (!model.aliases().empty()) out += "; " + aliases_text(model);
  return out;
}

std::string models_text(const v1::ListModelsReply& reply, int64_t now_ms, const Terminal& terminal) {
  if (reply.models().empty()) return terminal.tr("no models") + "\n";
  Table table({{.title = "ID", .align = Align::kRight, .rank = 6},
               {.title = terminal.tr("name"), .width_max = 40, .width_min = 12},
               {.title = terminal.tr("versions"), .align = Align::kRight},
               {.title = terminal.tr("aliases"), .width_max = 50, .width_min = 12},
               {.title = terminal.tr("labels"), .rank = 3, .width_max = 40, .width_min = 8},
               {.title = terminal.tr("workspace"), .rank = 4},
               {.title = terminal.tr("user"), .rank = 2},
               {.title = terminal.tr("changed"), .rank = 1},
               {.title = terminal.tr("state"), .rank = 5}});
  for (const v1::Model& each : reply.models()) {
    table.add({std::to_string(each.id()), printable(each.name()), std::to_string(each.versions()), aliases_text(each),
               listed(each.labels()), printable(each.workspace()), printable(each.user()),
               clock_time(each.changed_ms(), now_ms), each.archived() ? terminal.tr("archived") : ""});
  }
  std::string out = fitted(table, terminal);
  if (reply.total() > reply.models_size())
    out += terminal.fill("… {} more; --limit shows them", reply.total() - reply.models_size()) + "\n";
  return out;
}

std::string model_text(const v1::Model& model, const v1::ListModelVersionsReply& versions, int64_t now_ms,
                       const Terminal& terminal) {
  std::string out = terminal.fill("model {}", printable(model.name()));
  if (model.archived()) out += " · " + terminal.paint(Colour::kYellow, terminal.tr("archived"));
  out += "\n";
  const auto line = [&](const std::string& title, const std::string& value) {
    if (!value.empty()) out += titled(title, value, 12);
  };
  line(terminal.tr("description"), printable(model.description()));
  line(terminal.tr("aliases"), aliases_text(model));
  line(terminal.tr("labels"), listed(model.labels()));
  line(terminal.tr("workspace"), printable(model.workspace()));
  line(terminal.tr("owner"), printable(model.user().empty() ? model.owner() : model.user()));
  line(terminal.tr("created"), clock_time(model.created_ms(), now_ms));
  line(terminal.tr("changed"), clock_time(model.changed_ms(), now_ms));
  line(terminal.tr("metadata"), printable(values_text(model.metadata())));
  line(terminal.tr("notes"), printable(model.notes()));
  return out + "\n" + model_versions_text(versions, now_ms, terminal);
}

std::string model_version_line(const v1::ModelVersion& version, const Terminal& terminal) {
  std::string out = terminal.fill("version {} of model {}: checkpoint {}", version.version(),
                                  printable(version.model()), version.checkpoint());
  if (!version.aliases().empty()) out += "; " + listed(version.aliases());
  return out;
}

std::string model_versions_text(const v1::ListModelVersionsReply& reply, int64_t now_ms, const Terminal& terminal) {
  if (reply.versions().empty()) return terminal.tr("no versions") + "\n";
  Table table({{.title = terminal.tr("version"), .align = Align::kRight},
               {.title = terminal.tr("aliases"), .width_max = 40, .width_min = 10},
               {.title = terminal.tr("name"), .rank = 3, .width_max = 30, .width_min = 8},
               {.title = terminal.tr("checkpoint")},
               {.title = terminal.tr("trial"), .align = Align::kRight, .rank = 5},
               {.title = terminal.tr("metric"), .align = Align::kRight},
               {.title = terminal.tr("size"), .align = Align::kRight, .rank = 6},
               {.title = terminal.tr("user"), .rank = 4},
               {.title = terminal.tr("created"), .rank = 1},
               {.title = terminal.tr("comment"), .rank = 2, .width_max = 60, .width_min = 10}});
  for (const v1::ModelVersion& each : reply.versions()) {
    const v1::CheckpointInfo& checkpoint = each.checkpoint_info();
    table.add({std::to_string(each.version()), listed(each.aliases()), printable(each.name()),
               each.checkpoint().substr(0, kShortCheckpoint),
               checkpoint.trial() == 0 ? "" : std::to_string(checkpoint.trial()),
               metric_text(checkpoint.has_metric(), checkpoint.metric()), format_bytes(checkpoint.bytes()),
               printable(each.user()), clock_time(each.created_ms(), now_ms), printable(each.comment())});
  }
  std::string out = fitted(table, terminal);
  if (reply.total() > reply.versions_size())
    out += terminal.fill("… {} more; --limit shows them", reply.total() - reply.versions_size()) + "\n";
  return out;
}

std::string model_version_text(const v1::ModelVersion& version, int64_t now_ms, const Terminal& terminal) {
  std::string out = terminal.fill("version {} of model {}", version.version(), printable(version.model())) + "\n";
  const auto line = [&](const std::string& title, const std::string& value) {
    if (!value.empty()) out += titled(title, value, 12);
  };
  line(terminal.tr("name"), printable(version.name()));
  line(terminal.tr("comment"), printable(version.comment()));
  line(terminal.tr("aliases"), listed(version.aliases()));
  line(terminal.tr("labels"), listed(version.labels()));
  line(terminal.tr("user"), printable(version.user()));
  line(terminal.tr("created"), clock_time(version.created_ms(), now_ms));
  line(terminal.tr("metadata"), printable(values_text(version.metadata())));
  line(terminal.tr("notes"), printable(version.notes()));
  if (version.has_checkpoint_info()) return out + "\n" + checkpoint_text(version.checkpoint_info(), now_ms, terminal);
  line(terminal.tr("checkpoint"), version.checkpoint());
  return out;
}

}  // namespace volador::cli
