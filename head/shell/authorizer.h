// Decides who may call which method of the head, by the catalogue of operations, for every call before its handler runs.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "head/shell/failure_throttle.h"
#include "head/shell/token_table.h"
#include "runtime/clock.h"
#include "runtime/ids.h"
#include "runtime/result.h"
#include "runtime/security/revocations.h"
#include "runtime/security/principal.h"
#include "runtime/security/role.h"

namespace grpc {
class AuthMetadataProcessor;
class AuthContext;
class CallbackServerContext;
}  // namespace grpc

namespace volador::head {

// Thread safe.
class Authorizer {
 public:
  Authorizer(ClusterId cluster, const Clock& clock) : cluster_(cluster), clock_(clock) {}

  // kUnauthenticated: no certificate or token, or one that does not count here (any more); kPermissionDenied: the role may not;
  // kInvalidArgument: no such method. Messages name the method and what to show.
  [[nodiscard]] Result<void> admit(std::string_view path, std::string_view certificate_pem, std::string_view bearer) const;
  // The principal of a call that admit() has let in: by its certificate, else by its bearer token.
  [[nodiscard]] Result<security::Principal> principal(std::string_view certificate_pem, std::string_view bearer) const;
  // The principal of a certificate that admit() has seen.
  [[nodiscard]] Result<security::Principal> identify(std::string_view certificate_pem) const;

  // Proves a token at the join. `peer`: its address without the port, for the throttle.
  // kUnavailable: too many failures from there; kUnauthenticated; kPermissionDenied: the token does not allow this role.
  [[nodiscard]] Result<void> check_join(const std::string& token_id, std::string_view secret, security::Role role, const std::string& peer);

  // One row of the journal, before anything is served.
  bool load_token(std::string_view key, std::string_view value);
  [[nodiscard]] Result<TokenTable::Created> create_token(const security::Fingerprint& authority, security::TokenRole role,
                                                         std::chrono::milliseconds valid_for, std::string note);
  // Certificates that were made from the token do not count from here on.
  [[nodiscard]] Result<TokenTable::Revoked> revoke_token(std::string_view id);
  std::vector<std::string> revoked_tokens() const;
  std::vector<protocol::TokenRecord> list_tokens() const;
  // Whose text it is. kUnauthenticated: as for TokenTable::check.
  struct Bearer {
    std::string token_id;
    security::TokenRole role = security::TokenRole::kDriver;
  };
  [[nodiscard]] Result<Bearer> bearer(std::string_view text) const;
  // Whether the token of this id still counts.
  bool counts(std::string_view token_id) const;
  // Whether a token's text is still good: the ones that were printed at the first start.
  bool usable(std::string_view text) const;

 private:
  Result<security::Principal> identify_bearer(std::string_view text) const;

  const ClusterId cluster_;
  const Clock& clock_;
  security::Revocations revocations_;
  mutable std::mutex mutex_;
  TokenTable tokens_;
  FailureThrottle throttle_;
};

// Whether calls of the method need a certificate or token.
bool needs_proof(std::string_view method);
// Calls admit() for every call; outlives the server.
std::shared_ptr<grpc::AuthMetadataProcessor> make_auth_processor(const Authorizer& authorizer);
// The principal of a call, by what its peer showed.
[[nodiscard]] Result<security::Principal> principal_of(const Authorizer& authorizer, const grpc::CallbackServerContext& context);
// PEM text; empty: the peer showed none.
std::string certificate_of(const grpc::AuthContext& context);

}  // namespace volador::head
