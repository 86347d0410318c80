#include <fmt/format.h>

#include <charconv>

#include "head/journal/redis_journal.h"

namespace volador::head {
namespace {

bool parse_number(std::string_view text, int max, int& out) {
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc{} && end == text.data() + text.size() && !text.empty() && out >= 0 && out <= max;
}

bool percent_decode(std::string_view text, std::string& out) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    int byte = 0;
    if (i + 2 >= text.size()) return false;
    auto [end, error] = std::from_chars(text.data() + i + 1, text.data() + i + 3, byte, 16);
    if (error != std::errc{} || end != text.data() + i + 3) return false;
    out += static_cast<char>(byte);
    i += 2;
  }
  return true;
}

}  // namespace

Result<RedisAddress> parse_redis_url(std::string_view url) {
  auto wrong = [](std::string_view what) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("--store: {}; expected redis://[:password@]host[:port][/database]", what));
  };
  constexpr std::string_view kScheme = "redis://";
  if (!url.starts_with(kScheme)) return wrong("not an address of Redis");
  std::string_view rest = url.substr(kScheme.size());
  RedisAddress address;
  if (size_t at = rest.rfind('@'); at != rest.npos) {
    std::string_view login = rest.substr(0, at);
    rest.remove_prefix(at + 1);
    if (!login.starts_with(':'))
      return wrong("a user name stands before the password; only the default user is supported");
    if (!percent_decode(login.substr(1), address.password)) return wrong("the password's percent encoding is broken");
  }
  if (size_t slash = rest.find('/'); slash != rest.npos) {
    std::string_view database = rest.substr(slash + 1);
    rest = rest.substr(0, slash);
    if (!database.empty() && !parse_number(database, 1'000'000, address.database)) {
      return wrong(fmt::format("database \"{}\" is not a number", database));
    }
  }
  std::string_view port;
  if (rest.starts_with('[')) {
    size_t close = rest.find(']');
    if (close == rest.npos) return wrong("the bracket of the IPv6 address is not closed");
    address.host = rest.substr(1, close - 1);
    port = rest.substr(close + 1);
    if (!port.empty() && port[0] != ':') return wrong("something other than a port follows the IPv6 address");
  } else {
    size_t colon = rest.find(':');
    address.host = rest.substr(0, colon);
    if (colon != rest.npos) port = rest.substr(colon);
  }
  if (address.host.empty()) return wrong("the host is missing");
  if (!port.empty() && (!parse_number(port.substr(1), 65535, address.port) || address.port == 0)) {
    return wrong(fmt::format("port \"{}\" is not a number from 1 to 65535", port.substr(1)));
  }
  return address;
}

}  // namespace volador::head
