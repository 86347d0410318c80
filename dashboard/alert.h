// Alerts: content, destination and retries for head events that matter to absent users. Pure.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/result.h"

namespace volador::v1 {
class Event;
}

namespace volador::dashboard {

// Whether alert_of() makes an alert of it; cheap enough for the head's loop.
bool is_alert(const v1::Event& event);

// The cluster named in alerts.
struct AlertContext {
  std::string cluster;
  std::string cluster_id;
  std::string page;  // The dashboard's URL; empty: none.
};
// The request body: {"id","event","text","cluster","time_ms","fields","url"}. `event` is experiment.finished, .stopped,
// .failed, .crashed or node.lost; `text` is a sentence for chat programs. `number` distinguishes alerts with equal
// times. nullopt: not an alert.
std::optional<std::string> alert_of(const v1::Event& event, const AlertContext& context, uint64_t number);

// A parsed webhook URL.
struct Webhook {
  bool tls = false;
  std::string host;  // Without the brackets of an IPv6 address.
  std::string port;
  std::string target;  // "/services/T0/B1?x=y"
};
// kInvalidArgument: not an http:// or https:// URL. The URL may contain a secret, so the message does not repeat it.
Result<Webhook> parse_webhook(std::string_view url);
// A POST request with `body` as JSON and the secret as a bearer token.
std::string webhook_request(const Webhook& to, std::string_view secret, std::string_view body);

// Retry policy of an alert.
struct AlertPlan {
  int attempts = 5;
  std::chrono::milliseconds first_pause{1000};  // Doubled after each attempt.
};
// Delay before the next attempt. `status`: of the response, 0 if none. nullopt: delivered, or given up.
std::optional<std::chrono::milliseconds> pause_before_next(const AlertPlan& plan, int attempts_made, int status);
inline bool has_arrived(int status) { return status >= 200 && status < 300; }

}  // namespace volador::dashboard
