// What a request must be before anything looks at what it wants: for us (Host), from a page of ours (Origin), of a plain path.
// Pure.
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
  std::map<std::string, std::string> query;  // Of a name given twice the first counts.
};
// kInvalidArgument: no absolute path, an escape that is none, a control character, a backslash, or an empty, "." or ".." segment.
[[nodiscard]] Result<Target> parse_target(std::string_view text);

// Whether what a client sent first holds the end of a request's head, or `most` bytes of one, which then is too long. What the head says
// is for the server's parser. kInvalidArgument: no end has come, and it does not begin as a request does.
[[nodiscard]] Result<bool> is_request_head(std::string_view bytes, size_t most);

class HostGuard {
 public:
  // Names besides those of the loopback: the address it is bound to, how others call it. `public_url` (may be empty): of a proxy before it.
  HostGuard(std::vector<std::string> names, std::string_view public_url);

  // Whether a Host header names us: a name of ours on any port (SSH tunnels), or the public one.
  bool is_ours(std::string_view host) const;
  // Whether a page of this origin is ours: the one that `host` names, or the public one.
  bool same_origin(std::string_view origin, std::string_view host, bool tls) const;

 private:
  std::vector<std::string> names_;
  std::string public_origin_;  // "https://volador.example", empty: none.
  std::string public_host_;
};

// ASCII letters in lower case.
std::string lower(std::string_view text);
// The host of "host:port" or "[::1]:port", in lower case; none: it is neither.
std::optional<std::string> host_of(std::string_view host_and_port);
// The value of a cookie; empty: there is none.
std::string_view cookie_of(std::string_view header, std::string_view name);

}  // namespace volador::dashboard
