// A listening TCP port that passes connections to its server only after their hello, limited by Admission. Connections
// whose peers do not authenticate end after a short time. Runs on its own thread, so that unauthenticated peers cannot
// delay any loop.
//
//   accept ─▶ hello ─▶ Serve: a descriptor for the server ─▶ on_proved: the port releases the connection
//                            └────────── on_refused, on_closed, the peer's end, the limits: shut down
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "runtime/clock.h"
#include "runtime/net/admission.h"
#include "runtime/net/server_name.h"
#include "runtime/net/unique_fd.h"
#include "runtime/result.h"

namespace volador::net {

// Options of GuardedPort::create().
struct GuardedPortOptions {
  std::string component;  // Component name in log lines.
  // Reduced if the process may open few descriptors (admission_limits_for).
  AdmissionLimits limits = {};
  // Whether the peer's whole first message is on the socket; peeks, never blocks. An error: it is invalid.
  std::function<Result<bool>(int fd)> has_hello = has_client_hello;
  int unproved_receive_bytes = 0;  // Kernel receive buffer until the peer authenticates; 0: kernel default.
};

// A listening port with admission control.
class GuardedPort {
 public:
  struct Peer {
    std::string address;  // "10.0.0.1"; IPv4 notation also for IPv4 over IPv6.
    std::string name;     // "10.0.0.1:41234", "[::1]:41234".
  };
  // Takes over a connection whose hello has arrived; `number` identifies it to the port. Runs on the port's thread;
  // must not block.
  using Serve = std::function<void(uint64_t number, UniqueFd connection, const Peer& peer)>;

  // `listener`: a listening, non-blocking socket; accepts from start() on. kUnavailable: no descriptor is left.
  [[nodiscard]] static Result<std::unique_ptr<GuardedPort>> create(UniqueFd listener, const Clock& clock,
                                                                   GuardedPortOptions options);
  // As stop().
  ~GuardedPort();

  int listener() const;  // -1 after stop().
  void start(Serve serve);
  // Whether there are unproved connections. Any thread.
  bool expects_proofs() const;
  // Any thread; unknown, proved and closed connections are ignored.
  void on_proved(uint64_t number);
  void on_proved(const std::string& name);  // By peer name.
  void on_refused(uint64_t number);         // The requested name is unknown; the address is not charged.
  void on_closed(uint64_t number);          // The server has closed its descriptor; closes the connection to the peer.
  // Ends unproved connections and stops listening. Repeatable.
  void stop();

 private:
  class Impl;
  explicit GuardedPort(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace volador::net
