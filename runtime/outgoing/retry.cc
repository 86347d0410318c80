#include "runtime/outgoing/retry.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace volador::outgoing {

std::optional<std::chrono::milliseconds> pause_before_next(const RetryPlan& plan, int attempts_made, int status) {
  const bool may_help = status < 200 || status >= 500 || status == 408 || status == 429;
  if (!may_help || attempts_made >= plan.attempts) return std::nullopt;
  return std::min(plan.longest_pause, plan.first_pause * (int64_t{1} << std::min(attempts_made - 1, 20)));
}

Result<Webhook> parse_webhook(std::string_view url) {
  const auto wrong = [](std::string_view why) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("expected an address like https://example.org/hook, {}", why));
  };
  Webhook to;
  url = url.substr(0, url.find('#'));
  to.url = url;
  const size_t scheme = url.starts_with("https://") ? 8 : url.starts_with("http://") ? 7 : 0;
  if (scheme == 0) return wrong("which begins with https:// or http://");
  if (std::any_of(url.begin(), url.end(), [](char c) { return static_cast<unsigned char>(c) <= ' ' || c == 127; }))
    return wrong("without spaces");
  url.remove_prefix(scheme);
  const std::string_view place = url.substr(0, url.find_first_of("/?"));
  if (place.find('@') != std::string_view::npos) return wrong("without a name and password");
  const size_t bracket = place.starts_with('[') ? place.find(']') : std::string_view::npos;
  const size_t colon = place.find(':', bracket == std::string_view::npos ? 0 : bracket);
  to.host = std::string(bracket == std::string_view::npos ? place.substr(0, colon) : place.substr(1, bracket - 1));
  if (to.host.empty()) return wrong("with the name of a machine");
  if (colon == std::string_view::npos) return to;
  const std::string_view digits = place.substr(colon + 1);
  int port = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), port);
  if (read.ec != std::errc() || read.ptr != digits.data() + digits.size() || port < 1 || port > 65535)
    return wrong("with a port from 1 to 65535");
  return to;
}

}  // namespace volador::outgoing
