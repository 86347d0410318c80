// Heads of HTTP messages that pass between a browser and a server in a job: checked, and rewritten for the other side.
// Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/result.h"

namespace volador::dashboard {

// The head of a request, up to and with its empty line.
struct PageRequest {
  std::string method;
  std::string target;
  std::string host;      // As the browser named the page's server, "127.0.0.1:40123".
  std::string origin;    // Empty: none.
  std::string cookie;    // All cookies.
  bool upgrade = false;  // Asks for another protocol on the connection, such as WebSocket.
  uint64_t body_bytes = 0;
  // For the server in the job: it is told its own address as Host, and closes the connection after the reply unless it
  // upgrades it. Cookies of Volador are left out.
  std::string head;
};

// `port`: the port of the server in the job. kInvalidArgument: no valid HTTP/1 request, more than one Host or
// Content-Length, or a body of unknown length.
[[nodiscard]] Result<PageRequest> read_page_request(std::string_view head, uint16_t port, std::string_view peer,
                                                    bool tls);

// The head of a reply, up to and with its empty line.
struct PageReply {
  bool informational = false;  // Status 1xx without 101: another head follows.
  // For the browser: a redirection to the server's own address leads to the page's; cookies with names of Volador are
  // left out, and the connection closes after the reply unless it was upgraded.
  std::string head;
};

// `origin`: of the page, "https://host:40123". kInvalidArgument: no valid HTTP/1 reply.
[[nodiscard]] Result<PageReply> read_page_reply(std::string_view head, uint16_t port, std::string_view origin);

// "/lab?a=1" of "/lab?volador_key=…&a=1", and the key; empty: there is none.
struct PageKey {
  std::string key;
  std::string target;  // Without the key.
};
PageKey take_page_key(std::string_view target);

}  // namespace volador::dashboard
