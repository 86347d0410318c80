#include "runtime/security/tls_context.h"

#include <fmt/format.h>
#include <openssl/err.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>

#include "runtime/security/openssl_types.h"
#include "runtime/security/revocations.h"

namespace volador::security {
namespace {

struct Contexts {
  ContextPtr client;
  ContextPtr server;
  ClusterId cluster;
};

Result<Contexts> make_contexts(const Credentials& credentials) {
  auto self = parse_peer_identity(credentials.certificate_pem);
  if (!self) return make_error(ErrorCode::kInvalidArgument, "credentials: " + self.error().message);
  auto client = make_context(credentials, {.server = false});
  if (!client) return make_error(client.error());
  auto server = make_context(credentials, {.server = true});
  if (!server) return make_error(server.error());
  return Contexts{.client = std::move(*client), .server = std::move(*server), .cluster = self->cluster};
}

Result<SslPtr> new_connection(SSL_CTX* context) {
  SslPtr connection(SSL_new(context));
  if (!connection)
    return make_error(ErrorCode::kUnavailable, "no memory for a TLS connection: " + take_openssl_reason());
  return connection;
}

}  // namespace

void SslDeleter::operator()(ssl_st* connection) const { SSL_free(connection); }

struct TlsContext::Impl {
  mutable std::mutex mutex;
  Contexts contexts;
  Revocations revocations;
};

TlsContext::TlsContext(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TlsContext::~TlsContext() = default;

Result<std::shared_ptr<TlsContext>> TlsContext::create(const Credentials& credentials) {
  auto contexts = make_contexts(credentials);
  if (!contexts) return make_error(contexts.error());
  auto impl = std::make_unique<Impl>();
  impl->contexts = std::move(*contexts);
  return std::shared_ptr<TlsContext>(new TlsContext(std::move(impl)));
}

Result<void> TlsContext::reload(const Credentials& credentials) {
  auto contexts = make_contexts(credentials);
  if (!contexts) return make_error(contexts.error());
  const std::scoped_lock lock(impl_->mutex);
  if (contexts->cluster != impl_->contexts.cluster) {
    return make_error(ErrorCode::kInvalidArgument, "credentials: expected those of the same cluster");
  }
  std::swap(impl_->contexts, *contexts);
  return {};
}

Result<SslPtr> TlsContext::new_client(const std::string& server_name) const {
  if (server_name.empty()) return make_error(ErrorCode::kInvalidArgument, "server_name: expected a host's id");
  const std::scoped_lock lock(impl_->mutex);
  auto connection = new_connection(impl_->contexts.client.get());
  if (!connection) return connection;
  SSL* ssl = connection->get();
  SSL_set_connect_state(ssl);
  SSL_set_hostflags(
      ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NO_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
  if (SSL_set_tlsext_host_name(ssl, server_name.c_str()) != 1 || SSL_set1_host(ssl, server_name.c_str()) != 1) {
    return make_error(ErrorCode::kInvalidArgument, "server_name: " + take_openssl_reason());
  }
  return connection;
}

Result<SslPtr> TlsContext::new_server() const {
  const std::scoped_lock lock(impl_->mutex);
  auto connection = new_connection(impl_->contexts.server.get());
  if (connection) SSL_set_accept_state(connection->get());
  return connection;
}

Result<PeerIdentity> TlsContext::check_server(const ssl_st* connection, const std::string& server_name) const {
  auto peer = peer_identity_of(connection);
  if (!peer) return peer;
  VOLADOR_TRY(impl_->revocations.check(*peer));
  if (server_name == kNodeServerName) {
    if (peer->role == Role::kNode && peer->cluster == cluster()) return peer;
    return make_error(ErrorCode::kUnauthenticated,
                      fmt::format("the peer is {} \"{}\" of cluster {}, expected a node of cluster {}",
                                  to_string(peer->role), peer->name, short_id(peer->cluster), short_id(cluster())));
  }
  if (peer->role != Role::kHost) {
    return make_error(ErrorCode::kUnauthenticated, fmt::format("the peer is {} \"{}\", expected host {}",
                                                               to_string(peer->role), peer->name, server_name));
  }
  if (peer->cluster != cluster() || peer->name != server_name) {
    return make_error(ErrorCode::kUnauthenticated,
                      fmt::format("the peer is host {} of cluster {}, expected host {} of cluster {}", peer->name,
                                  short_id(peer->cluster), server_name, short_id(cluster())));
  }
  return peer;
}

Result<PeerIdentity> TlsContext::check_client(const ssl_st* connection) const {
  auto peer = peer_identity_of(connection);
  if (!peer) return peer;
  if (peer->cluster != cluster()) {
    return make_error(ErrorCode::kUnauthenticated, fmt::format("the caller is of cluster {}, expected {}",
                                                               short_id(peer->cluster), short_id(cluster())));
  }
  if (peer->role == Role::kHead) {
    return make_error(ErrorCode::kPermissionDenied, "a head's certificate may not call actors");
  }
  VOLADOR_TRY(impl_->revocations.check(*peer));
  return peer;
}

Revocations& TlsContext::revocations() const { return impl_->revocations; }

ClusterId TlsContext::cluster() const {
  const std::scoped_lock lock(impl_->mutex);
  return impl_->contexts.cluster;
}

Error tls_error(const ssl_st* connection, int result, std::string_view peer) {
  const int system_error = errno;
  const int kind = SSL_get_error(connection, result);
  const unsigned long code = ERR_peek_last_error();
  const std::string reason = take_openssl_reason();
  const long verified = SSL_get_verify_result(connection);
  if (kind == SSL_ERROR_SSL && verified != X509_V_OK) {
    return {ErrorCode::kUnauthenticated,
            fmt::format("{}: its certificate was refused: {}", peer, X509_verify_cert_error_string(verified))};
  }
  if (kind == SSL_ERROR_SSL && ERR_GET_LIB(code) == ERR_LIB_SSL) {
    const int alert = ERR_GET_REASON(code) - SSL_AD_REASON_OFFSET;
    if (alert >= 0 && alert < 256) {
      return {ErrorCode::kUnauthenticated,
              fmt::format("{} ended the TLS connection: {}", peer, SSL_alert_desc_string_long(alert))};
    }
    if (ERR_GET_REASON(code) == SSL_R_PEER_DID_NOT_RETURN_A_CERTIFICATE) {
      return {ErrorCode::kUnauthenticated, fmt::format("{} showed no certificate", peer)};
    }
    if (ERR_GET_REASON(code) != SSL_R_UNEXPECTED_EOF_WHILE_READING) {
      return {ErrorCode::kUnavailable, fmt::format("{}: TLS failed: {}", peer, reason)};
    }
  }
  if (kind == SSL_ERROR_SYSCALL && system_error != 0) {
    return {ErrorCode::kUnavailable, fmt::format("{}: connection lost: {}", peer, std::strerror(system_error))};
  }
  return {ErrorCode::kUnavailable, fmt::format("{} closed the connection", peer)};
}

}  // namespace volador::security
