#include "head/shell/authorizer.h"

#include <fmt/format.h>
#include <grpcpp/security/auth_context.h>
#include <grpcpp/security/auth_metadata_processor.h>
#include <grpcpp/server_context.h>

#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "head/shell/sign_on_user.h"
#include "runtime/control/status.h"
#include "runtime/operations/catalogue.h"
#include "runtime/protocol/volador/v1/users.pb.h"
#include "runtime/security/peer_identity.h"

namespace volador::head {
namespace {

// Methods of gRPC's own services. Check is open to health probes, which have no token; it only reports whether the head
// serves.
constexpr std::array<std::pair<std::string_view, v1::Access>, 3> kServicesOfGrpc{{
    {"/grpc.health.v1.Health/Check", v1::OPEN},
    {"/grpc.health.v1.Health/Watch", v1::READ},
    {"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", v1::READ},
}};

// nullopt: no such method.
std::optional<v1::Access> access_of(std::string_view path) {
  if (const operations::Entry* entry = operations::find_path(path)) return entry->rule->access();
  for (const auto& [known, access] : kServicesOfGrpc) {
    if (known == path) return access;
  }
  return std::nullopt;
}

constexpr std::string_view kBearer = "Bearer ";

class CallAuthorizer final : public grpc::AuthMetadataProcessor {
 public:
  explicit CallAuthorizer(const Authorizer& authorizer) : authorizer_(authorizer) {}

  bool IsBlocking() const override { return false; }
  grpc::Status Process(const InputMetadata& metadata, grpc::AuthContext* context, OutputMetadata*,
                       OutputMetadata*) override {
    const auto value = [&metadata](const char* key) {
      auto found = metadata.find(key);
      return found == metadata.end() ? std::string_view()
                                     : std::string_view(found->second.data(), found->second.size());
    };
    auto admitted = authorizer_.admit(value(":path"), certificate_of(*context), value("authorization"));
    return admitted ? grpc::Status::OK : control::to_status(admitted.error());
  }

 private:
  const Authorizer& authorizer_;
};

}  // namespace

Result<security::Principal> Authorizer::identify(std::string_view certificate_pem) const {
  auto peer = security::parse_peer_identity(certificate_pem);
  if (!peer) return make_error(peer.error());
  if (peer->cluster != cluster_) {
    return make_error(
        ErrorCode::kUnauthenticated,
        fmt::format("the certificate of {} is of another cluster ({}); this one is {}. Join this cluster first.",
                    peer->name, short_id(peer->cluster), short_id(cluster_)));
  }
  if (clock_.wall() > peer->not_after) {
    return make_error(ErrorCode::kUnauthenticated,
                      fmt::format("the certificate of {} has expired. Join again with a token.", peer->name));
  }
  VOLADOR_TRY(revocations_.check(*peer));
  security::Principal principal{
      .role = peer->role, .role_name = to_string(peer->role), .name = peer->name, .token_id = peer->token_id};
  const std::lock_guard lock(mutex_);
  const protocol::TokenRecord* token = tokens_.find(peer->token_id);
  if (token == nullptr || token->user().empty()) return principal;
  const auto role = security::parse_token_role(token->role()).value_or(security::TokenRole::kViewer);
  const auto account = account_of(peer->token_id, role);
  if (!account) return make_error(account.error());
  // A host has the access of its node.
  const security::Role needed = peer->role == security::Role::kHost ? security::Role::kNode : peer->role;
  if (!security::may_join_as(account->role, needed)) {
    return make_error(ErrorCode::kUnauthenticated,
                      fmt::format("user {} may not be {} any more: the user's role was changed after {} joined",
                                  account->user, to_string(peer->role), peer->name));
  }
  principal.user = account->user;
  return principal;
}

// The role and the user of a token that counts. With the lock.
Result<Authorizer::Bearer> Authorizer::account_of(const std::string& token_id, security::TokenRole role) const {
  Bearer bearer{.token_id = token_id, .role = role};
  const protocol::TokenRecord* token = tokens_.find(token_id);
  if (token == nullptr || token->user().empty()) return bearer;
  const protocol::UserRecord* user = users_.find(token->user());
  if (user == nullptr || user->disabled()) {
    return make_error(
        ErrorCode::kUnauthenticated,
        fmt::format("token {} belongs to user {}, who {}. An operator changes that with `volador user set "
                    "{} --enable`.",
                    token_id, token->user(), user == nullptr ? "was deleted" : "is disabled", token->user()));
  }
  bearer.role = security::token_role_within(role_of(*user), role);
  bearer.user = user->name();
  return bearer;
}

Result<security::Principal> Authorizer::identify_bearer(std::string_view text) const {
  auto found = bearer(text);
  if (!found) return make_error(found.error());
  auto principal = security::principal_of_token(std::move(found->token_id), found->role);
  principal.user = std::move(found->user);
  return principal;
}

Result<security::Principal> Authorizer::principal(std::string_view certificate_pem, std::string_view bearer) const {
  if (!certificate_pem.empty()) return identify(certificate_pem);
  return identify_bearer(bearer.starts_with(kBearer) ? bearer.substr(kBearer.size()) : std::string_view());
}

Result<void> Authorizer::admit(std::string_view path, std::string_view certificate_pem, std::string_view bearer) const {
  const auto access = access_of(path);
  if (!access)
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("the head has no method {}; is this client of another version?", path));
  if (*access == v1::OPEN) return {};
  const auto method = path.substr(1);
  const bool by_token = operations::takes_token(*access);
  Result<security::Principal> caller = make_error(ErrorCode::kUnauthenticated, "");
  if (!certificate_pem.empty()) {
    caller = identify(certificate_pem);
  } else if (by_token && bearer.starts_with(kBearer)) {
    caller = identify_bearer(bearer.substr(kBearer.size()));
  } else {
    return make_error(
        ErrorCode::kUnauthenticated,
        fmt::format("{} needs a certificate of role {}{}. Create a token with `volador token create --role={}` on the "
                    "head's machine.",
                    method, operations::roles_of(*access), by_token ? ", or a token (authorization: Bearer …)" : "",
                    to_string(operations::token_role_for(*access))));
  }
  if (!caller) return make_error(caller.error());
  if (operations::allows(*access, caller->role)) return {};
  return make_error(ErrorCode::kPermissionDenied,
                    fmt::format("{} is for role {}; {} has role {}. Create a token with `volador token create "
                                "--role={}` on the head's machine.",
                                method, operations::roles_of(*access), caller->name, caller->role_name,
                                to_string(operations::token_role_for(*access))));
}

Result<void> Authorizer::check_join(const std::string& token_id, std::string_view secret, security::Role role,
                                    const std::string& peer) {
  std::lock_guard lock(mutex_);
  if (const auto wait = throttle_.wait(clock_.now(), peer); wait.count() > 0) {
    return make_error(ErrorCode::kUnavailable,
                      fmt::format("too many wrong tokens from {}; its joins are refused for another {} s", peer,
                                  std::chrono::ceil<std::chrono::seconds>(wait).count()));
  }
  auto token = tokens_.check(token_id, secret, clock_.wall(), security::token_role_for(role));
  if (!token) {
    throttle_.failed(clock_.now(), peer);
    return make_error(token.error());
  }
  throttle_.succeeded(peer);
  const auto account = account_of(token_id, *token);
  if (!account) return make_error(account.error());
  return security::check_joins_as(token_id, account->role, role);
}

bool Authorizer::load_token(std::string_view key, std::string_view value) {
  std::lock_guard lock(mutex_);
  if (!tokens_.load(key, value)) return false;
  for (const auto& record : tokens_.list()) {
    if (record.token_id() == key && record.revoked()) revocations_.revoke_token(std::string(key));
  }
  return true;
}

Result<TokenTable::Created> Authorizer::create_token(const security::Fingerprint& authority, security::TokenRole role,
                                                     std::chrono::milliseconds valid_for, std::string note,
                                                     const TokenOwner& owner) {
  std::lock_guard lock(mutex_);
  auto created = tokens_.create(authority, role, valid_for, std::move(note), clock_.wall(), owner);
  if (created && !created->revoked.empty()) revocations_.revoke_token(created->revoked);
  return created;
}

Result<TokenTable::Revoked> Authorizer::revoke_token(std::string_view id) {
  std::lock_guard lock(mutex_);
  auto revoked = tokens_.revoke(id);
  if (revoked) revocations_.revoke_token(revoked->id);
  return revoked;
}

std::vector<std::string> Authorizer::revoked_tokens() const {
  std::lock_guard lock(mutex_);
  std::vector<std::string> out;
  for (const auto& record : tokens_.list()) {
    if (record.revoked()) out.push_back(record.token_id());
  }
  return out;
}

std::vector<protocol::TokenRecord> Authorizer::list_tokens() const {
  std::lock_guard lock(mutex_);
  return tokens_.list();
}

Result<Authorizer::Bearer> Authorizer::bearer(std::string_view text) const {
  auto token = security::parse_token(text);
  if (!token) return make_error(ErrorCode::kUnauthenticated, token.error().message);
  std::lock_guard lock(mutex_);
  auto role = tokens_.check(token->id, token->secret.reveal(), clock_.wall());
  if (!role) return make_error(role.error());
  return account_of(token->id, *role);
}

Result<Authorizer::Bearer> Authorizer::account(const std::string& token_id) const {
  const std::lock_guard lock(mutex_);
  const protocol::TokenRecord* token = tokens_.find(token_id);
  if (token == nullptr || !tokens_.counts(token_id, clock_.wall()))
    return make_error(ErrorCode::kUnauthenticated, fmt::format("token {} does not count any more", token_id));
  return account_of(token_id, security::parse_token_role(token->role()).value_or(security::TokenRole::kViewer));
}

bool Authorizer::load_user(std::string_view key, std::string_view value) {
  const std::lock_guard lock(mutex_);
  return users_.load(key, value);
}

Result<void> Authorizer::check_user(const v1::User& user) const {
  const std::lock_guard lock(mutex_);
  return users_.check(user);
}

Result<UserTable::Changed> Authorizer::put_user(const v1::User& user, const std::string& password_hash) {
  const std::lock_guard lock(mutex_);
  return users_.put(user, password_hash, clock_.wall());
}

Result<UserTable::Changed> Authorizer::set_password(std::string_view name, const std::string& password_hash) {
  const std::lock_guard lock(mutex_);
  return users_.set_password(name, password_hash);
}

// With the lock.
Authorizer::UserRemoved Authorizer::revoke_all(const std::vector<std::string>& ids) {
  UserRemoved out{.journal = {}, .tokens = ids};
  for (const std::string& id : ids) {
    auto revoked = tokens_.revoke(id);
    VOLADOR_CHECK(revoked.has_value(), id);
    out.journal.insert(out.journal.end(), revoked->journal.begin(), revoked->journal.end());
    revocations_.revoke_token(id);
  }
  return out;
}

Result<Authorizer::UserRemoved> Authorizer::remove_user(std::string_view name) {
  const std::lock_guard lock(mutex_);
  auto removed = users_.remove(name);
  if (!removed) return make_error(removed.error());
  UserRemoved out = revoke_all(tokens_.of_user(name, false));
  out.journal.insert(out.journal.end(), removed->journal.begin(), removed->journal.end());
  const auto left = groups_.set_groups_of(std::string(name), {});
  out.journal.insert(out.journal.end(), left.begin(), left.end());
  return out;
}

Result<Authorizer::SignedOn> Authorizer::sign_on(const SignOnIdentity& who, const SignOnOptions& options) {
  const std::lock_guard lock(mutex_);
  auto user = user_for(users_, who, options);
  if (!user) return make_error(user.error());
  SignedOn out;
  const protocol::UserRecord* before = users_.find(user->name());
  const bool same = before != nullptr && before->mail() == user->mail() && before->full_name() == user->full_name() &&
                    before->subject() == user->subject();
  if (same) {
    out.user = *before;
  } else {
    auto changed = users_.put(*user, "", clock_.wall());
    if (!changed) return make_error(changed.error());
    out = {.user = changed->record, .journal = changed->journal, .created = changed->created};
  }
  if (who.groups) {
    const auto rows = groups_.set_groups_of(user->name(), *who.groups);
    out.journal.insert(out.journal.end(), rows.begin(), rows.end());
  }
  return out;
}

Result<std::string> Authorizer::user_of(const SignOnIdentity& who, const SignOnOptions& options) const {
  const std::lock_guard lock(mutex_);
  const auto user = user_for(users_, who, options);
  return user ? Result<std::string>(user->name()) : make_error(user.error());
}

bool Authorizer::load_group(std::string_view key, std::string_view value) {
  const std::lock_guard lock(mutex_);
  return groups_.load(key, value);
}

// With the lock.
Result<void> Authorizer::check_users(const std::vector<std::string>& names) const {
  for (const std::string& name : names) VOLADOR_TRY(users_.check_known(name));
  return {};
}

Result<UserGroupTable::Changed> Authorizer::create_group(const v1::UserGroup& group) {
  const std::lock_guard lock(mutex_);
  VOLADOR_TRY(check_users({group.members().begin(), group.members().end()}));
  return groups_.create(group, clock_.wall());
}

Result<UserGroupTable::Changed> Authorizer::change_group(std::string_view name, const std::vector<std::string>& add,
                                                         const std::vector<std::string>& remove) {
  const std::lock_guard lock(mutex_);
  VOLADOR_TRY(groups_.check_known(name));
  VOLADOR_TRY(check_users(add));
  VOLADOR_TRY(check_users(remove));
  return groups_.change(name, add, remove);
}

Result<UserGroupTable::Changed> Authorizer::remove_group(std::string_view name) {
  const std::lock_guard lock(mutex_);
  return groups_.remove(name);
}

Result<void> Authorizer::check_group(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  return groups_.check_known(name);
}

std::vector<v1::UserGroup> Authorizer::list_groups() const {
  const std::lock_guard lock(mutex_);
  return groups_.list();
}

std::vector<std::string> Authorizer::groups_of(std::string_view user) const {
  const std::lock_guard lock(mutex_);
  return groups_.of(user);
}

Authorizer::UserRemoved Authorizer::end_sign_ins(std::string_view name, std::string_view except) {
  const std::lock_guard lock(mutex_);
  auto ids = tokens_.of_user(name, true);
  std::erase(ids, except);
  return revoke_all(ids);
}

std::optional<protocol::UserRecord> Authorizer::find_user(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  const protocol::UserRecord* found = users_.find(name);
  return found == nullptr ? std::nullopt : std::optional(*found);
}

std::vector<protocol::UserRecord> Authorizer::list_users() const {
  const std::lock_guard lock(mutex_);
  return users_.list();
}

std::optional<protocol::TokenRecord> Authorizer::find_token(std::string_view id) const {
  const std::lock_guard lock(mutex_);
  const protocol::TokenRecord* found = tokens_.find(id);
  return found == nullptr ? std::nullopt : std::optional(*found);
}

std::vector<std::string> Authorizer::tokens_of(std::string_view user) const {
  const std::lock_guard lock(mutex_);
  return tokens_.of_user(user, false);
}

bool Authorizer::usable(std::string_view text) const { return bearer(text).has_value(); }

bool needs_proof(std::string_view method) {
  const auto access = access_of(method);
  return access && *access != v1::OPEN;
}

std::shared_ptr<grpc::AuthMetadataProcessor> make_auth_processor(const Authorizer& authorizer) {
  return std::make_shared<CallAuthorizer>(authorizer);
}

Result<security::Principal> principal_of(const Authorizer& authorizer, const grpc::CallbackServerContext& context) {
  const auto& metadata = context.client_metadata();
  const auto bearer = metadata.find("authorization");
  return authorizer.principal(
      certificate_of(*context.auth_context()),
      bearer == metadata.end() ? std::string_view() : std::string_view(bearer->second.data(), bearer->second.size()));
}

std::string certificate_of(const grpc::AuthContext& context) {
  const auto found = context.FindPropertyValues("x509_pem_cert");
  return found.empty() ? std::string() : std::string(found.front().data(), found.front().size());
}

}  // namespace volador::head
