#include "dashboard/alert.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

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

Result<Webhook> parse_webhook(std::string_view url) {
  const auto wrong = [](std::string_view why) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("expected an address like https://example.org/hook, {}", why));
  };
  Webhook to;
  if (url.starts_with("https://")) {
    to.tls = true;
    url.remove_prefix(8);
  } else if (url.starts_with("http://")) {
    url.remove_prefix(7);
  } else {
    return wrong("which begins with https:// or http://");
  }
  if (std::any_of(url.begin(), url.end(), [](char c) { return static_cast<unsigned char>(c) <= ' ' || c == 127; }))
    return wrong("without spaces");
  url = url.substr(0, url.find('#'));
  const size_t path = std::min(url.find_first_of("/?"), url.size());
  std::string_view place = url.substr(0, path);
  to.target = std::string(url.substr(path));
  if (!to.target.starts_with('/')) to.target.insert(0, "/");
  if (place.find('@') != std::string_view::npos)
    return wrong("without a name and password; alert_secret_file sends a secret");
  const size_t bracket = place.starts_with('[') ? place.find(']') : std::string_view::npos;
  const size_t colon = place.find(':', bracket == std::string_view::npos ? 0 : bracket);
  to.host = std::string(bracket == std::string_view::npos ? place.substr(0, colon) : place.substr(1, bracket - 1));
  to.port = colon == std::string_view::npos ? (to.tls ? "443" : "80") : std::string(place.substr(colon + 1));
  int port = 0;
  const auto read = std::from_chars(to.port.data(), to.port.data() + to.port.size(), port);
  if (to.host.empty()) return wrong("with the name of a machine");
  if (read.ec != std::errc() || read.ptr != to.port.data() + to.port.size() || port < 1 || port > 65535)
    return wrong("with a port from 1 to 65535");
  return to;
}

std::string webhook_request(const Webhook& to, std::string_view secret, std::string_view body) {
  const bool usual = to.port == (to.tls ? "443" : "80");
  const std::string host = to.host.find(':') == std::string::npos ? to.host : "[" + to.host + "]";
  std::string request = fmt::format(
      "POST {} HTTP/1.1\r\nHost: {}{}\r\nUser-Agent: volador\r\nContent-Type: application/json\r\nContent-Length: "
      "{}\r\nConnection: close\r\n",
      to.target, host, usual ? "" : ":" + to.port, body.size());
  if (!secret.empty()) request += fmt::format("Authorization: Bearer {}\r\n", secret);
  request += "\r\n";
  request += body;
  return request;
}

std::optional<std::chrono::milliseconds> pause_before_next(const AlertPlan& plan, int attempts_made, int status) {
  const bool may_help = status < 200 || status >= 500 || status == 408 || status == 429;
  if (!may_help || attempts_made >= plan.attempts) return std::nullopt;
  return plan.first_pause * (1 << (attempts_made - 1));
}

}  // namespace volador::dashboard
