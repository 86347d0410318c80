// What an alert says: events of the head that somebody who does not look at the page wants to know, and where it goes. Pure.
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

// Whether alert_of() makes one of it: cheap, for the head's loop.
bool is_alert(const v1::Event& event);

struct AlertContext {
  std::string cluster;
  std::string cluster_id;
  std::string page;  // The dashboard's address; empty: there is none.
};
// The body of the request: {"id","event","text","cluster","time_ms","fields","url"}. `event` is experiment.finished, .stopped, .failed,
// .crashed or node.lost; `text` a sentence, which chat programs show. `number` tells alerts of one time apart. None: it is no alert.
std::optional<std::string> alert_of(const v1::Event& event, const AlertContext& context, uint64_t number);

struct Webhook {
  bool tls = false;
  std::string host;  // Without the brackets of an IPv6 address.
  std::string port;
  std::string target;  // "/services/T0/B1?x=y"
};
// kInvalidArgument: it is no http:// or https:// address. The address may hold a secret: the message does not repeat it.
Result<Webhook> parse_webhook(std::string_view url);
// POST with `body` as JSON; with a secret as a bearer token.
std::string webhook_request(const Webhook& to, std::string_view secret, std::string_view body);

struct AlertPlan {
  int attempts = 5;
  std::chrono::milliseconds first_pause{1000};  // Doubled after each attempt.
};
// How long to wait before the next attempt. `status`: of the answer, 0 where none came. None: it has arrived, or will not.
std::optional<std::chrono::milliseconds> pause_before_next(const AlertPlan& plan, int attempts_made, int status);
inline bool has_arrived(int status) { return status >= 200 && status < 300; }

}  // namespace volador::dashboard
