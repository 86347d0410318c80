// The head's listening port. Connections reach gRPC only once they have sent a TLS client hello, and as many at once as
// Admission lets; those of peers that do not prove who they are end after a short time. gRPC's own listener has no such
// limits: a thousand idle connections take every descriptor of the head.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "runtime/clock.h"
#include "runtime/net/admission.h"
#include "runtime/net/unique_fd.h"
#include "runtime/result.h"

namespace volador::head {

class GuardedPort {
 public:
  // Takes over a connection that may speak now. On the port's thread; must not block.
  using Serve = std::function<void(int listener, net::UniqueFd connection)>;

  // Listens when it returns, on a port other than 0; accepts from start() on. Errors as open_port.
  [[nodiscard]] static Result<std::unique_ptr<GuardedPort>> listen(const std::string& host, int port, const Clock& clock);
  // As stop().
  ~GuardedPort();

  int port() const;
  void start(Serve serve);
  // Whether there are connections whose peers have yet to prove themselves. Any thread.
  bool expects_proofs() const;
  // The peer, as grpc::ServerContext::peer() names it, has shown a certificate or token that counts. Any thread.
  void on_proved(const std::string& peer);
  // Ends the connections that have not proved themselves, and listens no more.
  void stop();

 private:
  class Impl;
  explicit GuardedPort(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// "ipv4:10.0.0.1:6380" and "ipv6:%5B::1%5D:6380", as gRPC names peers, without the scheme and the escapes.
std::string plain_peer(std::string_view peer);

}  // namespace volador::head
