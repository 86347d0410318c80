// When a message to a server outside the cluster is sent again. Pure.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "runtime/result.h"

namespace volador::outgoing {

struct RetryPlan {
  int attempts = 5;
  std::chrono::milliseconds first_pause{1000};  // Doubled after each attempt.
  std::chrono::milliseconds longest_pause = std::chrono::hours(1);
};
// Delay before the next attempt. `status`: of the response, 0 if none. nullopt: delivered, or given up.
std::optional<std::chrono::milliseconds> pause_before_next(const RetryPlan& plan, int attempts_made, int status);
inline bool has_arrived(int status) { return status >= 200 && status < 300; }

// The address of a webhook.
struct Webhook {
  std::string url;   // Without a fragment.
  std::string host;  // Without the brackets of an IPv6 address; for people.
};
// kInvalidArgument: not an http:// or https:// URL. The URL may contain a secret, so the message does not repeat it.
Result<Webhook> parse_webhook(std::string_view url);

}  // namespace volador::outgoing
