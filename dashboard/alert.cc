#include "dashboard/alert.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "dashboard/json_text.h"
#include "dashboard/row_text.h"
#include "runtime/protocol/volador/v1/cluster.pb.h"

namespace volador::dashboard {
namespace {

struct Kind {
  std::string_view name;            // As in the head's event.
  std::string_view experiment_has;  // Predicate of the sentence.
};
constexpr std::array kKinds{Kind{"experiment.finished", "finished"},
                            Kind{"experiment.stopped", "stopped before its end"}, Kind{"experiment.failed", "failed"},
                            Kind{"experiment.crashed", "crashed: its program has left"}, Kind{"node.lost", ""}};

const Kind* kind_of(const v1::Event& event) {
  if (event.kind().empty()) return nullptr;
  const auto found =
      std::find_if(kKinds.begin(), kKinds.end(), [&](const Kind& kind) { return kind.name == event.kind(); });
  return found == kKinds.end() ? nullptr : &*found;
}

std::string field(const v1::Event& event, const char* name) {
  const auto found = event.fields().find(name);
  return found == event.fields().end() ? std::string() : found->second;
}

std::string sentence(const Kind& kind, const v1::Event& event) {
  if (kind.name == "node.lost") return fmt::format("node {} is lost: {}", field(event, "node"), field(event, "why"));
  std::string text = fmt::format("experiment {} {}", field(event, "experiment"), kind.experiment_has);
  if (const std::string best = field(event, "best"); !best.empty())
    text += fmt::format("; best {}, trial {}", best, field(event, "trial"));
  if (const std::string failed = field(event, "failed"); !failed.empty() && failed != "0")
    text += fmt::format("; {} trial{} failed", failed, failed == "1" ? "" : "s");
  return text;
}

// Percent-encodes everything except letters, digits, "-", "_" and ".".
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool plain =
        (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_' || c == '.';
    out += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return out;
}

}  // namespace

bool is_alert(const v1::Event& event) { return kind_of(event) != nullptr; }

std::optional<std::string> alert_of(const v1::Event& event, const AlertContext& context, uint64_t number) {
  const Kind* kind = kind_of(event);
  if (kind == nullptr) return std::nullopt;
  std::string text;
  JsonObject body(text);
  body.text("id", fmt::format("{}-{}-{}", context.cluster_id, event.wall_ns(), number));
  body.text("event", kind->name);
  body.text("text", fmt::format("{}: {}", context.cluster, sentence(*kind, event)));
  body.text("cluster", context.cluster);
  body.integer("time_ms", event.wall_ns() / 1'000'000);
  body.raw("fields", texts_text(event.fields()));
  const bool of_node = kind->name == "node.lost";
  body.text("url", context.page.empty() ? ""
                                        : fmt::format("{}/#/{}/{}", context.page, of_node ? "nodes" : "experiments",
                                                      escaped(field(event, of_node ? "node" : "experiment"))));
  body.end();
  return text;
}

}  // namespace volador::dashboard
