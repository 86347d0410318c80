// Checks every call against the access rules of the operation catalogue, before its handler runs.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "head/shell/failure_throttle.h"
#include "head/shell/token_table.h"
#include "head/shell/user_group_table.h"
#include "head/shell/user_table.h"
#include "head/sign_on/sign_on_options.h"
#include "runtime/clock.h"
#include "runtime/ids.h"
#include "runtime/result.h"
#include "runtime/security/principal.h"
#include "runtime/security/revocations.h"
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

  // kUnauthenticated: no certificate or token, or an invalid or revoked one; kPermissionDenied: the role lacks access;
  // kInvalidArgument: no such method. Messages name the method and the required credentials.
  [[nodiscard]] Result<void> admit(std::string_view path, std::string_view certificate_pem,
                                   std::string_view bearer) const;
  // The principal of a call admitted by admit(): from its certificate, else from its bearer token.
  [[nodiscard]] Result<security::Principal> principal(std::string_view certificate_pem, std::string_view bearer) const;
  // The principal of a certificate seen by admit().
  [[nodiscard]] Result<security::Principal> identify(std::string_view certificate_pem) const;

  // Verifies a token at the join. `peer`: the caller's address without port, for the throttle.
  // kUnavailable: too many failures from this peer; kUnauthenticated; kPermissionDenied: the token does not allow this
  // role.
  [[nodiscard]] Result<void> check_join(const std::string& token_id, std::string_view secret, security::Role role,
                                        const std::string& peer);

  // Loads a journal row; call before serving.
  bool load_token(std::string_view key, std::string_view value);
  [[nodiscard]] Result<TokenTable::Created> create_token(const security::Fingerprint& authority,
                                                         security::TokenRole role, std::chrono::milliseconds valid_for,
                                                         std::string note, const TokenOwner& owner = {});
  // Revokes the token; certificates issued for it become invalid.
  [[nodiscard]] Result<TokenTable::Revoked> revoke_token(std::string_view id);
  std::vector<std::string> revoked_tokens() const;
  std::vector<protocol::TokenRecord> list_tokens() const;
  // Identifies a bearer token. kUnauthenticated: as for TokenTable::check.
  struct Bearer {
    std::string token_id;
    security::TokenRole role = security::TokenRole::kDriver;
    std::string user = {};
  };
  [[nodiscard]] Result<Bearer> bearer(std::string_view text) const;
  // The same by a token's id.
  [[nodiscard]] Result<Bearer> account(const std::string& token_id) const;

  // ---- users ----

  // Loads a journal row; call before serving.
  bool load_user(std::string_view key, std::string_view value);
  // As those of UserTable.
  [[nodiscard]] Result<void> check_user(const v1::User& user) const;
  [[nodiscard]] Result<UserTable::Changed> put_user(const v1::User& user, const std::string& password_hash);
  [[nodiscard]] Result<UserTable::Changed> set_password(std::string_view name, const std::string& password_hash);
  // Also revokes the user's tokens, whose ids it returns with the rows of the journal, and leaves the user's groups.
  struct UserRemoved {
    std::vector<Mutation> journal;
    std::vector<std::string> tokens;
  };
  [[nodiscard]] Result<UserRemoved> remove_user(std::string_view name);
  // Revokes the tokens of the user's sign-ins, except one.
  [[nodiscard]] UserRemoved end_sign_ins(std::string_view name, std::string_view except = {});
  // nullopt: there is none.
  std::optional<protocol::UserRecord> find_user(std::string_view name) const;
  std::vector<protocol::UserRecord> list_users() const;
  // The record of the token; nullopt: there is none.
  std::optional<protocol::TokenRecord> find_token(std::string_view id) const;
  // The ids of the user's tokens that are not revoked.
  std::vector<std::string> tokens_of(std::string_view user) const;

  // The user of an identity that the provider has proved: an existing one, brought up to date, or a new one.
  // kPermissionDenied: see user_for().
  struct SignedOn {
    protocol::UserRecord user;
    std::vector<Mutation> journal;
    bool created = false;
  };
  [[nodiscard]] Result<SignedOn> sign_on(const SignOnIdentity& who, const SignOnOptions& options);
  // The name of that user, without a change.
  [[nodiscard]] Result<std::string> user_of(const SignOnIdentity& who, const SignOnOptions& options) const;

  // ---- groups of users ----

  // Loads a journal row; call before serving.
  bool load_group(std::string_view key, std::string_view value);
  // As those of UserGroupTable. kNotFound: a new member is no user.
  [[nodiscard]] Result<UserGroupTable::Changed> create_group(const v1::UserGroup& group);
  [[nodiscard]] Result<UserGroupTable::Changed> change_group(std::string_view name, const std::vector<std::string>& add,
                                                             const std::vector<std::string>& remove);
  [[nodiscard]] Result<UserGroupTable::Changed> remove_group(std::string_view name);
  [[nodiscard]] Result<void> check_group(std::string_view name) const;
  std::vector<v1::UserGroup> list_groups() const;
  std::vector<std::string> groups_of(std::string_view user) const;

  // Whether a token's text is still valid; used for the tokens printed at the first start.
  bool usable(std::string_view text) const;

 private:
  Result<security::Principal> identify_bearer(std::string_view text) const;
  Result<Bearer> account_of(const std::string& token_id, security::TokenRole role) const;
  UserRemoved revoke_all(const std::vector<std::string>& ids);
  Result<void> check_users(const std::vector<std::string>& names) const;

  const ClusterId cluster_;
  const Clock& clock_;
  security::Revocations revocations_;
  mutable std::mutex mutex_;
  TokenTable tokens_;
  UserTable users_;
  UserGroupTable groups_;
  FailureThrottle throttle_;
};

// Whether calls of the method require a certificate or token.
bool needs_proof(std::string_view method);
// Calls admit() for every call. The authorizer must outlive the server.
std::shared_ptr<grpc::AuthMetadataProcessor> make_auth_processor(const Authorizer& authorizer);
// The principal of a call, from its peer's credentials.
[[nodiscard]] Result<security::Principal> principal_of(const Authorizer& authorizer,
                                                       const grpc::CallbackServerContext& context);
// PEM text; empty: the peer sent none.
std::string certificate_of(const grpc::AuthContext& context);

}  // namespace volador::head
