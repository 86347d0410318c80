#include "head/shell/authorizer.h"

#include <fmt/format.h>
#include <grpcpp/security/auth_context.h>
#include <grpcpp/security/auth_metadata_processor.h>
#include <grpcpp/server_context.h>

#include <array>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/control/status.h"
#include "runtime/operations/catalogue.h"
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
  return security::Principal{
      .role = peer->role, .role_name = to_string(peer->role), .name = peer->name, .token_id = peer->token_id};
}

Result<security::Principal> Authorizer::identify_bearer(std::string_view text) const {
  auto found = bearer(text);
  if (!found) return make_error(found.error());
  return security::principal_of_token(std::move(found->token_id), found->role);
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
  return security::check_joins_as(token_id, *token, role);
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
                                                     std::chrono::milliseconds valid_for, std::string note) {
  std::lock_guard lock(mutex_);
  return tokens_.create(authority, role, valid_for, std::move(note), clock_.wall());
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
  return Bearer{.token_id = token->id, .role = *role};
}

bool Authorizer::counts(std::string_view token_id) const {
  std::lock_guard lock(mutex_);
  return tokens_.counts(token_id, clock_.wall());
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
