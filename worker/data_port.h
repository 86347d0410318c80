// The node's one TCP port for calls from other machines: reads the server name of the TLS hello (the host's id) without
// taking it off the socket, and hands the socket to that host, which shakes hands itself.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "runtime/ids.h"
#include "runtime/net/io_loop.h"
#include "runtime/net/unique_fd.h"
#include "runtime/result.h"

namespace volador::worker {

struct DataPortOptions {
  std::string bind_address = "127.0.0.1";  // IPv4 or IPv6, numeric.
  uint16_t port = 0;                       // 0: a free one.
  std::chrono::milliseconds hello_timeout{5'000};
  size_t waiting_max = 256;  // Connections whose hello has not come; beyond it the oldest is closed.
};

// Loop thread only, but for create() and the destructor. Out of descriptors: accepting pauses for a moment, nothing
// spins.
class DataPort {
 public:
  // Takes the socket, or refuses it (it is closed then).
  using Adopt = std::function<Result<void>(HostId, net::UniqueFd)>;

  // kInvalidArgument: the address. kUnavailable: the port is in use. `adopt` gets connections for hosts, and with the nil id those for
  // the node's object store.
  [[nodiscard]] static Result<std::unique_ptr<DataPort>> create(net::IoLoop& loop, const DataPortOptions& options,
                                                                Adopt adopt);
  ~DataPort();
  DataPort(const DataPort&) = delete;
  DataPort& operator=(const DataPort&) = delete;

  // "127.0.0.1:41234", "[::1]:41234".
  const std::string& address() const { return address_; }
  // Stops listening and closes what waits. On the loop, before the destructor.
  void close();

 private:
  struct Listener;
  struct Waiting;
  DataPort(net::IoLoop& loop, const DataPortOptions& options, Adopt adopt);
  void accept();
  void pause();
  void look(const std::shared_ptr<Waiting>& waiting);
  void drop(const std::shared_ptr<Waiting>& waiting);

  net::IoLoop& loop_;
  const DataPortOptions options_;
  Adopt adopt_;
  std::string address_;
  std::shared_ptr<Listener> listener_;
  std::map<uint64_t, std::shared_ptr<Waiting>> waiting_;  // By arrival.
  uint64_t next_ = 0;
  net::IoLoop::TimerId pause_timer_ = 0;
};

}  // namespace volador::worker
