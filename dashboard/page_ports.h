// Pages of servers that run in jobs, such as Jupyter and TensorBoard: each gets a port of this machine, and with it an
// origin of its own in the browser, so that its scripts cannot read the dashboard. Connections go to the server by the
// operations of commands in jobs. A page takes only the browser to which its one-time link was given.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "dashboard/request_guard.h"
#include "dashboard/sign_in.h"
#include "runtime/clock.h"
#include "runtime/result.h"

namespace volador::operations {
class Registry;
}

namespace volador::dashboard {

// A server in a job, and who looks at it.
struct PageTarget {
  std::string job;
  int rank = 0;
  uint16_t port = 0;  // On the loopback address of the rank's machine.
  Visitor visitor;
  std::string session;  // The dashboard's session; the page ends with it. Empty: a token, with which it ends.

  friend bool operator==(const PageTarget& a, const PageTarget& b) {
    return a.job == b.job && a.rank == b.rank && a.port == b.port && a.visitor.token_id == b.visitor.token_id &&
           a.session == b.session;
  }
};

struct PagePortsOptions {
  std::string bind = "127.0.0.1";
  std::string certificate_pem, key_pem;  // Those of the dashboard; empty: no TLS.
  const HostGuard* guard = nullptr;
  size_t pages = 64;                    // Further ones are refused.
  size_t connections = 256;             // Per page.
  std::chrono::seconds head_time{10};   // From the start of a connection to the end of its request's head.
  std::chrono::seconds write_time{60};  // For a part of a reply.
  std::chrono::minutes idle_time{60};   // A page without connections closes then.
};

class PagePorts {
 public:
  // What the visitor may do now; nullopt: the session or token has ended. Thread safe.
  using AccessOf = std::function<std::optional<Access>(const PageTarget& target)>;

  // `registry` and `guard` must outlive it. Starts no thread before the first page.
  PagePorts(PagePortsOptions options, operations::Registry& registry, AccessOf access_of, const Clock& clock);
  // Calls stop().
  ~PagePorts();

  struct Opened {
    uint16_t port = 0;
    std::string key;  // "/?volador_key=KEY" opens the page once.
  };
  // The page of the target; an open one gets another key. kUnavailable: too many pages, or no free port.
  Result<Opened> open(const PageTarget& target);
  // Closes the pages of a session that has ended.
  void end_session(const std::string& session);
  // Applies to pages that are opened later.
  void set_certificate(const std::string& certificate_pem, const std::string& key_pem);
  // Closes all pages and connections. Idempotent.
  void stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace volador::dashboard
