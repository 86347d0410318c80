// Checks of a request before it is handled: addressed to this server (Host), from its own page (Origin), with a plain
// path. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/result.h"

namespace volador::dashboard {

// "/api/v1/logs?id=3f&tail=10", decoded once.
struct Target {
  std::string path;
  std::map<std::string, std::string> query;  // For a repeated name the first value counts.
};
// kInvalidArgument: not an absolute path, an invalid escape, a control character, a backslash, or an empty, "." or ".."
// segment.
[[nodiscard]] Result<Target> parse_target(std::string_view text);

// Whether the first bytes of a client contain the end of a request head, or `most` bytes of one, which is then too
// long. The server's parser handles the content. kInvalidArgument: there is no end, and the bytes do not begin like a
// request.
[[nodiscard]] Result<bool> is_request_head(std::string_view bytes, size_t most);

// Accepted host names and origins.
class HostGuard {
 public:
  // `names`: accepted hosts besides loopback: the bound address and other host names. `public_url`: URL of a reverse
  // proxy; may be empty.
  HostGuard(std::vector<std::string> names, std::string_view public_url);

  // Whether a Host header names this server: an accepted name on any port (SSH tunnels), or the public one.
  bool is_ours(std::string_view host) const;
  // Whether a Host header names the reverse proxy.
  bool is_public(std::string_view host) const;
  // Whether a page of this origin is from this server: the origin that `host` names, or the public one.
  bool same_origin(std::string_view origin, std::string_view host, bool tls) const;

 private:
  std::vector<std::string> names_;
  std::string public_origin_;  // "https://volador.example"; empty: none.
  std::string public_host_;
};

// The host of "host:port" or "[::1]:port", in lower case; nullopt: another format.
std::optional<std::string> host_of(std::string_view host_and_port);
// The value of a cookie; empty: missing.
std::string_view cookie_of(std::string_view header, std::string_view name);

}  // namespace volador::dashboard
