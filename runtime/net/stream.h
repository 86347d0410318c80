// A non-blocking socket, plain or TLS, for the ends of a call channel.
#pragma once

#include <sys/uio.h>

#include <memory>
#include <span>
#include <string>

#include "runtime/net/channel.h"
#include "runtime/net/unique_fd.h"
#include "runtime/result.h"

namespace volador::net {

// Outcome of a read or write.
struct StreamResult {
  size_t bytes = 0;      // Bytes read or written.
  size_t touched = 0;    // Bytes that were or may have been written: at least `bytes`.
  bool blocked = false;  // Would block.
  bool ended = false;    // The peer closed, or `error` describes the failure.
  std::string error;
};

// Reads happen on the loop's thread, writes on one thread at a time; both may run concurrently.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual int fd() const = 0;
  // Call once the socket is connected; before kDone nothing is read or written. kUnauthenticated: one side rejects the
  // other's certificate; kUnavailable: any other failure.
  enum class Handshake { kDone, kWantsRead, kWantsWrite };
  [[nodiscard]] virtual Result<Handshake> handshake() = 0;
  // Reads the available bytes into the buffer.
  virtual StreamResult read(std::span<char> buffer) = 0;
  virtual StreamResult write(std::span<const iovec> parts) = 0;
  // Notifies the peer if that is possible without waiting, and shuts the socket down. The destructor closes it.
  virtual void shut_down() = 0;
  // TLS: role and name of the peer's certificate. Empty for a plain socket.
  virtual std::string identity() const = 0;
  // After the handshake: checks that the peer is still authorized. kUnauthenticated: its certificate was revoked.
  [[nodiscard]] virtual Result<void> check_peer() = 0;
};

std::unique_ptr<Stream> make_plain_stream(UniqueFd socket);
// `tls` must not be null. kInvalidArgument: the server name is empty or malformed. kInternal: OpenSSL is out of memory.
[[nodiscard]] Result<std::unique_ptr<Stream>> make_tls_client(UniqueFd socket,
                                                              std::shared_ptr<const security::TlsContext> tls,
                                                              std::string server_name);
[[nodiscard]] Result<std::unique_ptr<Stream>> make_tls_server(UniqueFd socket,
                                                              std::shared_ptr<const security::TlsContext> tls);

}  // namespace volador::net
