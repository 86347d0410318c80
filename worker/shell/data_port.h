// The node's single TCP port for calls from other machines: reads the server name of the TLS hello (the host's id)
// without consuming it, and passes the socket to that host, which performs the handshake. Limits for unauthenticated
// peers are in net/guarded_port.h.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>

#include "runtime/clock.h"
#include "runtime/ids.h"
#include "runtime/net/guarded_port.h"
#include "runtime/net/io_loop.h"
#include "runtime/result.h"

namespace volador::worker {

// Address and limits of a DataPort.
struct DataPortOptions {
  std::string bind_address = "127.0.0.1";  // IPv4 or IPv6, numeric.
  uint16_t port = 0;                       // 0: a free one.
  // A node that calls a thousand actors here connects to all of them at once. TLS limits what a peer sends before its
  // certificate. The host's handshake timeout is shorter than proof_time, and the host then reports the end.
  net::AdmissionLimits strangers = {.connections = 1'024,
                                    .unproved = 256,
                                    .unproved_of_address = 128,
                                    .wait_time = std::chrono::seconds(10),
                                    .proof_time = std::chrono::seconds(10),
                                    .unproved_bytes = std::numeric_limits<uint64_t>::max()};
};

// If descriptors run out, accepting pauses briefly.
class DataPort {
 public:
  // Takes the socket, or rejects it (it is then closed). The receiver calls on_proved(number) once the peer has
  // presented a certificate. Loop thread.
  using Adopt = std::function<Result<void>(HostId, net::UniqueFd, uint64_t number)>;

  // kInvalidArgument: the address. kUnavailable: the port is in use. `adopt` receives connections for hosts, and with
  // the nil id those for the node's object store.
  [[nodiscard]] static Result<std::unique_ptr<DataPort>> create(net::IoLoop& loop, const Clock& clock,
                                                                const DataPortOptions& options, Adopt adopt);
  // As close(); not on the loop.
  ~DataPort();
  DataPort(const DataPort&) = delete;
  DataPort& operator=(const DataPort&) = delete;

  // "127.0.0.1:41234", "[::1]:41234".
  const std::string& address() const { return address_; }
  // Any thread.
  void on_proved(uint64_t number) { port_->on_proved(number); }
  // Stops listening and closes waiting connections; nothing is adopted after it returns. Not on the loop. Repeatable.
  void close();

 private:
  DataPort(net::IoLoop& loop, Adopt adopt) : loop_(loop), adopt_(std::move(adopt)) {}
  void hand_over(uint64_t number, net::UniqueFd fd);

  net::IoLoop& loop_;
  const Adopt adopt_;
  std::string address_;
  std::unique_ptr<net::GuardedPort> port_;
  bool closed_ = false;  // Loop thread.
};

}  // namespace volador::worker
