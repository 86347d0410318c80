// A non-blocking socket, plain or under TLS, as the ends of a call channel use it.
#pragma once

#include <sys/uio.h>

#include <memory>
#include <span>
#include <string>

#include "runtime/net/channel.h"
#include "runtime/net/unique_fd.h"
#include "runtime/result.h"

namespace volador::net {

struct StreamResult {
  size_t bytes = 0;      // Read or written.
  size_t touched = 0;    // Written, or perhaps written: at least `bytes`.
  bool blocked = false;  // Nothing more goes at the moment.
  bool ended = false;    // The peer closed, or `error` says what failed.
  std::string error;
};

// Reading belongs to the loop's thread, writing to one thread at a time; both may happen at once.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual int fd() const = 0;
  // Once the socket is connected; until it says done, nothing is read or written. kUnauthenticated: the peer's
  // certificate, or ours in the peer's eyes, is not accepted; kUnavailable: anything else.
  enum class Handshake { kDone, kWantsRead, kWantsWrite };
  [[nodiscard]] virtual Result<Handshake> handshake() = 0;
  // Fills the buffer as far as bytes are there.
  virtual StreamResult read(std::span<char> buffer) = 0;
  virtual StreamResult write(std::span<const iovec> parts) = 0;
  // Tells the peer, as far as that goes without waiting, and shuts the socket down. It is closed with the object.
  virtual void shut_down() = 0;
  // TLS: the role and name of the peer's certificate. Empty for a plain socket.
  virtual std::string identity() const = 0;
  // After the handshake: whether the peer would be let in now, too. kUnauthenticated: its certificate was revoked since.
  [[nodiscard]] virtual Result<void> check_peer() = 0;
};

std::unique_ptr<Stream> make_plain_stream(UniqueFd socket);
// `tls` must be given. kInvalidArgument: the server name is empty or malformed. kInternal: OpenSSL is out of memory.
[[nodiscard]] Result<std::unique_ptr<Stream>> make_tls_client(UniqueFd socket,
                                                              std::shared_ptr<const security::TlsContext> tls,
                                                              std::string server_name);
[[nodiscard]] Result<std::unique_ptr<Stream>> make_tls_server(UniqueFd socket,
                                                              std::shared_ptr<const security::TlsContext> tls);

}  // namespace volador::net
