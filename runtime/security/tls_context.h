// TLS of the call channel: version 1.3 only, with mutual authentication by certificates of this cluster. OpenSSL's
// objects are forward-declared only. OpenSSL writes to sockets without MSG_NOSIGNAL: the process must ignore SIGPIPE,
// or the caller must block it around SSL calls.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "runtime/ids.h"
#include "runtime/result.h"
#include "runtime/security/credentials.h"
#include "runtime/security/peer_identity.h"

struct ssl_st;

namespace volador::security {

class Revocations;

// Server name in every node's certificate: clients that request it want the node's object store, not a host.
inline constexpr std::string_view kNodeServerName = "node.volador";

// Frees an OpenSSL connection.
struct SslDeleter {
  void operator()(ssl_st* connection) const;
};
using SslPtr = std::unique_ptr<ssl_st, SslDeleter>;

// Thread safe. A reload() does not affect existing connections.
class TlsContext {
 public:
  // kInvalidArgument: the credentials are invalid or do not match.
  [[nodiscard]] static Result<std::shared_ptr<TlsContext>> create(const Credentials& credentials);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  // Sets renewed credentials of the same cluster. On an error the old ones stay.
  [[nodiscard]] Result<void> reload(const Credentials& credentials);

  // Returns a connection in connect state for SSL_set_fd / SSL_do_handshake: sends `server_name` (a host's id in hex)
  // and fails the handshake if the peer's certificate does not contain it. Supports non-blocking sockets; partial
  // writes are enabled. kInvalidArgument: server_name is empty.
  [[nodiscard]] Result<SslPtr> new_client(const std::string& server_name) const;
  // Returns a connection in accept state; the handshake fails without a client certificate of this cluster.
  [[nodiscard]] Result<SslPtr> new_server() const;

  // After the client's handshake: checks that the peer is not revoked and is the host `server_name` of our cluster, or
  // for kNodeServerName one of its nodes.
  [[nodiscard]] Result<PeerIdentity> check_server(const ssl_st* connection, const std::string& server_name) const;
  // After the server's handshake: checks that the peer is a driver, operator, node or host of our cluster.
  // kUnauthenticated or kPermissionDenied, for the log; close the connection.
  [[nodiscard]] Result<PeerIdentity> check_client(const ssl_st* connection) const;

  // Revocations applied by both checks. Owners of existing connections must check them again.
  Revocations& revocations() const;

  ClusterId cluster() const;

 private:
  struct Impl;
  explicit TlsContext(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

// Returns why SSL_do_handshake, SSL_read or SSL_write failed on `peer` (an address, for the message); `result` is its
// return value. Clears OpenSSL's error queue of this thread. kUnauthenticated for certificates, kUnavailable otherwise.
Error tls_error(const ssl_st* connection, int result, std::string_view peer);

}  // namespace volador::security
