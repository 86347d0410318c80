// TLS of the call channel: version 1.3 only, both sides show a certificate of this cluster, and each checks who the other is.
// OpenSSL does the bytes; its objects appear here as forward declarations only. It writes to sockets without MSG_NOSIGNAL: the
// process ignores SIGPIPE, or the caller blocks it around SSL calls.
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

// What every node's certificate carries: who asks for it wants the object store of a node, not a host.
inline constexpr std::string_view kNodeServerName = "node.volador";

struct SslDeleter {
  void operator()(ssl_st* connection) const;
};
using SslPtr = std::unique_ptr<ssl_st, SslDeleter>;

// Thread safe. Connections made before a reload() keep what they began with.
class TlsContext {
 public:
  // kInvalidArgument: the credentials do not parse or do not belong together.
  [[nodiscard]] static Result<std::shared_ptr<TlsContext>> create(const Credentials& credentials);
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  // Renewed credentials, of the same cluster. On an error the old ones stay.
  [[nodiscard]] Result<void> reload(const Credentials& credentials);

  // A connection in connect state for SSL_set_fd / SSL_do_handshake: sends `server_name` (a host's id in hex) and fails the
  // handshake where the peer's certificate does not carry it. Non-blocking sockets work; partial writes are enabled.
  // kInvalidArgument: server_name is empty.
  [[nodiscard]] Result<SslPtr> new_client(const std::string& server_name) const;
  // In accept state; a client without a certificate of this cluster fails the handshake.
  [[nodiscard]] Result<SslPtr> new_server() const;

  // After the handshake on the client: the peer, not revoked, is the host `server_name` of our cluster, or for kNodeServerName a node of it.
  [[nodiscard]] Result<PeerIdentity> check_server(const ssl_st* connection, const std::string& server_name) const;
  // After the handshake on the server: a driver, an operator, a node or a host of our cluster.
  // kUnauthenticated or kPermissionDenied, for the log; close the connection.
  [[nodiscard]] Result<PeerIdentity> check_client(const ssl_st* connection) const;

  // What both checks refuse besides. A connection that was open before is looked at by whoever holds it.
  Revocations& revocations() const;

  ClusterId cluster() const;

 private:
  struct Impl;
  explicit TlsContext(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

// Why SSL_do_handshake, SSL_read or SSL_write failed on `peer` (an address, for the message); `result` is what it returned. Empties
// OpenSSL's error queue of this thread. kUnauthenticated for certificates, kUnavailable for everything else.
Error tls_error(const ssl_st* connection, int result, std::string_view peer);

}  // namespace volador::security
