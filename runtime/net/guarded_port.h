// A listening TCP port whose server gets connections only once they have sent their hello, and as many at once as Admission
// lets; those of peers that do not prove who they are end after a short time. Accepts and watches on a thread of its own, so
// that what strangers do holds up no loop.
//
//   accept ─▶ hello ─▶ Serve: a descriptor for the server ─▶ on_proved: the port lets go of the connection
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

struct GuardedPortOptions {
  std::string component;  // Of log lines.
  // Reduced where the process may open few descriptors (admission_limits_for).
  AdmissionLimits limits = {};
  // Whether what a peer sends first waits on the socket as a whole; peeks, never blocks. An error: it is none.
  std::function<Result<bool>(int fd)> has_hello = has_client_hello;
  int unproved_receive_bytes = 0;  // The kernel's buffer until the peer has proved itself; 0: as the kernel sizes it.
};

class GuardedPort {
 public:
  struct Peer {
    std::string address;  // "10.0.0.1"; an IPv4 address also where it came over IPv6.
    std::string name;     // "10.0.0.1:41234", "[::1]:41234".
  };
  // Takes over a connection that may speak now; the number names it to the port. On the port's thread; must not block.
  using Serve = std::function<void(uint64_t number, UniqueFd connection, const Peer& peer)>;

  // Of a socket that listens and does not block; accepts from start() on. kUnavailable: no descriptor is left.
  [[nodiscard]] static Result<std::unique_ptr<GuardedPort>> create(UniqueFd listener, const Clock& clock, GuardedPortOptions options);
  // As stop().
  ~GuardedPort();

  int listener() const;  // -1 after stop().
  void start(Serve serve);
  // Whether there are connections whose peers have yet to prove themselves. Any thread.
  bool expects_proofs() const;
  // Any thread; numbers and names of connections that are gone, proved or unknown change nothing.
  void on_proved(uint64_t number);
  void on_proved(const std::string& name);  // The peer's.
  void on_refused(uint64_t number);         // Nothing here is called what it asked for; its address is charged nothing.
  void on_closed(uint64_t number);          // The server has closed its descriptor; the peer learns of it now.
  // Ends the connections that have not proved themselves, and listens no more. Repeatable.
  void stop();

 private:
  class Impl;
  explicit GuardedPort(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace volador::net
