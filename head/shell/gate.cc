#include "head/shell/gate.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <grpcpp/security/auth_context.h>
#include <grpcpp/security/auth_metadata_processor.h>

#include <array>
#include <vector>

#include "runtime/control/status.h"
#include "runtime/security/peer_identity.h"

namespace volador::head {
namespace {

constexpr std::array kRules{
    MethodRule{.path = "/volador.protocol.Control/Join", .open = true},
    MethodRule{.path = "/volador.protocol.Control/Worker", .node = true},
    MethodRule{.path = "/volador.protocol.Control/Client", .driver = true, .operates = true},
    MethodRule{.path = "/volador.protocol.Control/Certify", .node = true},
    MethodRule{.path = "/volador.protocol.Control/PutProgram", .driver = true, .operates = true},
    MethodRule{.path = "/volador.protocol.Control/GetProgram", .node = true},
    // For probes, which have no token: whether the head serves is all it says.
    MethodRule{.path = "/grpc.health.v1.Health/Check", .open = true},
    MethodRule{.path = "/grpc.health.v1.Health/Watch", .driver = true, .operates = true, .bearer = true},
    MethodRule{.path = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", .driver = true, .operates = true, .bearer = true},
    MethodRule{.path = "/volador.v1.Cluster/Status", .driver = true, .operates = true, .bearer = true},
    MethodRule{.path = "/volador.v1.Cluster/ListNodes", .driver = true, .operates = true, .bearer = true},
    MethodRule{.path = "/volador.v1.Cluster/ListActors", .driver = true, .operates = true, .bearer = true},
    MethodRule{.path = "/volador.v1.Cluster/ListGroups", .driver = true, .operates = true, .bearer = true},
    MethodRule{.path = "/volador.v1.Cluster/ListQueue", .driver = true, .operates = true, .bearer = true},
    MethodRule{.path = "/volador.v1.Cluster/ListTrials", .driver = true, .operates = true, .bearer = true},
    MethodRule{.path = "/volador.v1.Cluster/ListObjects", .driver = true, .operates = true, .bearer = true},
    MethodRule{.path = "/volador.v1.Cluster/Explain", .driver = true, .operates = true, .bearer = true},
    MethodRule{.path = "/volador.v1.Cluster/Stack", .driver = true, .operates = true, .bearer = true},
    MethodRule{.path = "/volador.v1.Cluster/Timeline", .driver = true, .operates = true, .bearer = true},
    MethodRule{.path = "/volador.v1.Cluster/ListProcesses", .driver = true, .operates = true, .bearer = true},
    MethodRule{.path = "/volador.v1.Cluster/Logs", .driver = true, .operates = true, .bearer = true},
    MethodRule{.path = "/volador.v1.Cluster/ReadLog", .driver = true, .operates = true, .bearer = true},
    MethodRule{.path = "/volador.v1.Live/List", .driver = true, .operates = true, .bearer = true},
    MethodRule{.path = "/volador.v1.Live/Watch", .driver = true, .operates = true, .bearer = true},
    MethodRule{.path = "/volador.v1.Cluster/CreateToken", .operates = true, .bearer = true},
    MethodRule{.path = "/volador.v1.Cluster/ListTokens", .operates = true, .bearer = true},
    MethodRule{.path = "/volador.v1.Cluster/RevokeToken", .operates = true, .bearer = true},
    MethodRule{.path = "/volador.v1.Cluster/ListAudit", .operates = true, .bearer = true},
    MethodRule{.path = "/volador.v1.Cluster/Drain", .operates = true, .bearer = true},
    MethodRule{.path = "/volador.v1.Cluster/Kill", .operates = true, .bearer = true},
    MethodRule{.path = "/volador.v1.Cluster/ControlExperiment", .operates = true, .bearer = true},
    MethodRule{.path = "/volador.v1.Cluster/AnnotateExperiment", .operates = true, .bearer = true},
    MethodRule{.path = "/volador.v1.Cluster/LoginLink", .operates = true, .bearer = true},
    MethodRule{.path = "/volador.v1.Studies/GetStudy", .driver = true, .operates = true, .bearer = true},
    MethodRule{.path = "/volador.v1.Studies/ListStudies", .driver = true, .operates = true, .bearer = true},
    MethodRule{.path = "/volador.v1.Studies/ListStudyTrials", .driver = true, .operates = true, .bearer = true},
    MethodRule{.path = "/volador.v1.Studies/CreateStudy", .operates = true, .bearer = true},
    MethodRule{.path = "/volador.v1.Studies/DeleteStudy", .operates = true, .bearer = true},
    MethodRule{.path = "/volador.v1.Studies/Ask", .operates = true, .bearer = true},
    MethodRule{.path = "/volador.v1.Studies/Tell", .operates = true, .bearer = true},
    MethodRule{.path = "/volador.v1.Studies/Report", .operates = true, .bearer = true},
};

constexpr std::string_view kBearer = "Bearer ";

// The least that opens the method.
security::TokenRole token_for(const MethodRule& rule) {
  if (rule.driver && rule.bearer) return security::TokenRole::kViewer;
  if (rule.driver) return security::TokenRole::kDriver;
  return rule.node && !rule.operates ? security::TokenRole::kJoin : security::TokenRole::kOperator;
}

// Who shows a token instead of a certificate: a join token makes a node, and no node reads the API.
security::Role role_of_bearer(security::TokenRole token) {
  switch (token) {
    case security::TokenRole::kOperator:
      return security::Role::kOperator;
    case security::TokenRole::kJoin:
      return security::Role::kNode;
    case security::TokenRole::kDriver:
    case security::TokenRole::kViewer:
      break;
  }
  return security::Role::kDriver;
}

std::string roles_of(const MethodRule& rule) {
  std::vector<std::string_view> roles;
  if (rule.node) roles.push_back("node");
  if (rule.driver && rule.bearer) roles.push_back("viewer");
  if (rule.driver) roles.push_back("driver");
  if (rule.operates) roles.push_back("operator");
  const std::string_view last = roles.back();
  roles.pop_back();
  return roles.empty() ? std::string(last) : fmt::format("{} or {}", fmt::join(roles, ", "), last);
}

bool allows(const MethodRule& rule, security::Role role) {
  switch (role) {
    case security::Role::kNode: return rule.node;
    case security::Role::kDriver: return rule.driver;
    case security::Role::kOperator: return rule.operates;
    case security::Role::kHost:
    case security::Role::kHead: break;
  }
  return false;
}

class GateProcessor final : public grpc::AuthMetadataProcessor {
 public:
  explicit GateProcessor(const Gate& gate) : gate_(gate) {}

  bool IsBlocking() const override { return false; }
  grpc::Status Process(const InputMetadata& metadata, grpc::AuthContext* context, OutputMetadata*, OutputMetadata*) override {
    const auto value = [&metadata](const char* key) {
      auto found = metadata.find(key);
      return found == metadata.end() ? std::string_view() : std::string_view(found->second.data(), found->second.size());
    };
    auto admitted = gate_.admit(value(":path"), certificate_of(*context), value("authorization"));
    return admitted ? grpc::Status::OK : control::to_status(admitted.error());
  }

 private:
  const Gate& gate_;
};

}  // namespace

std::span<const MethodRule> method_rules() { return kRules; }

Result<Caller> Gate::identify(std::string_view certificate_pem) const {
  auto peer = security::parse_peer_identity(certificate_pem);
  if (!peer) return make_error(peer.error());
  if (peer->cluster != cluster_) {
    return make_error(ErrorCode::kUnauthenticated, fmt::format("the certificate of {} is of another cluster ({}); this one is {}. Join this cluster first.",
                                                               peer->name, short_id(peer->cluster), short_id(cluster_)));
  }
  if (clock_.wall() > peer->not_after) {
    return make_error(ErrorCode::kUnauthenticated, fmt::format("the certificate of {} has expired. Join again with a token.", peer->name));
  }
  VOLADOR_TRY(revocations_.check(*peer));
  return Caller{.role = peer->role, .role_name = to_string(peer->role), .name = peer->name, .token_id = peer->token_id};
}

Result<Caller> Gate::identify_bearer(std::string_view text) const {
  auto token = security::parse_token(text);
  if (!token) return make_error(ErrorCode::kUnauthenticated, token.error().message);
  std::lock_guard lock(mutex_);
  auto role = tokens_.check(token->id, token->secret.reveal(), clock_.wall());
  if (!role) return make_error(role.error());
  return Caller{.role = role_of_bearer(*role), .role_name = to_string(*role), .name = "token " + token->id, .token_id = token->id};
}

Result<Caller> Gate::caller(std::string_view certificate_pem, std::string_view bearer) const {
  if (!certificate_pem.empty()) return identify(certificate_pem);
  return identify_bearer(bearer.starts_with(kBearer) ? bearer.substr(kBearer.size()) : std::string_view());
}

Result<void> Gate::admit(std::string_view path, std::string_view certificate_pem, std::string_view bearer) const {
  for (const MethodRule& rule : kRules) {
    if (rule.path != path) continue;
    if (rule.open) return {};
    const auto method = path.substr(1);
    Result<Caller> caller = make_error(ErrorCode::kUnauthenticated, "");
    if (!certificate_pem.empty()) {
      caller = identify(certificate_pem);
    } else if (rule.bearer && bearer.starts_with(kBearer)) {
      caller = identify_bearer(bearer.substr(kBearer.size()));
    } else {
      return make_error(ErrorCode::kUnauthenticated,
                        fmt::format("{} needs a certificate of role {}{}. Create a token with `volador token create "
                                    "--role={}` on the head's machine.",
                                    method, roles_of(rule), rule.bearer ? ", or a token (authorization: Bearer …)" : "",
                                    to_string(token_for(rule))));
    }
    if (!caller) return make_error(caller.error());
    if (allows(rule, caller->role)) return {};
    return make_error(
        ErrorCode::kPermissionDenied,
        fmt::format("{} is for role {}; {} has role {}. Create a token with `volador token create --role={}` on the "
                    "head's machine.",
                    method, roles_of(rule), caller->name, caller->role_name, to_string(token_for(rule))));
  }
  return make_error(ErrorCode::kInvalidArgument, fmt::format("the head has no method {}; is this client of another version?", path));
}

Result<void> Gate::check_join(const std::string& token_id, std::string_view secret, security::Role role, const std::string& peer) {
  std::lock_guard lock(mutex_);
  if (const auto wait = throttle_.wait(clock_.now(), peer); wait.count() > 0) {
    return make_error(ErrorCode::kUnavailable, fmt::format("too many wrong tokens from {}; its joins are refused for another {} s", peer,
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

bool Gate::load_token(std::string_view key, std::string_view value) {
  std::lock_guard lock(mutex_);
  if (!tokens_.load(key, value)) return false;
  for (const auto& record : tokens_.list()) {
    if (record.token_id() == key && record.revoked()) revocations_.revoke_token(std::string(key));
  }
  return true;
}

Result<TokenTable::Created> Gate::create_token(const security::Fingerprint& authority, security::TokenRole role, std::chrono::milliseconds valid_for,
                                               std::string note) {
  std::lock_guard lock(mutex_);
  return tokens_.create(authority, role, valid_for, std::move(note), clock_.wall());
}

Result<TokenTable::Revoked> Gate::revoke_token(std::string_view id) {
  std::lock_guard lock(mutex_);
  auto revoked = tokens_.revoke(id);
  if (revoked) revocations_.revoke_token(revoked->id);
  return revoked;
}

std::vector<std::string> Gate::revoked_tokens() const {
  std::lock_guard lock(mutex_);
  std::vector<std::string> out;
  for (const auto& record : tokens_.list()) {
    if (record.revoked()) out.push_back(record.token_id());
  }
  return out;
}

std::vector<protocol::TokenRecord> Gate::list_tokens() const {
  std::lock_guard lock(mutex_);
  return tokens_.list();
}

Result<Gate::Bearer> Gate::bearer(std::string_view text) const {
  auto token = security::parse_token(text);
  if (!token) return make_error(ErrorCode::kUnauthenticated, token.error().message);
  std::lock_guard lock(mutex_);
  auto role = tokens_.check(token->id, token->secret.reveal(), clock_.wall());
  if (!role) return make_error(role.error());
  return Bearer{.token_id = token->id, .role = *role};
}

bool Gate::counts(std::string_view token_id) const {
  std::lock_guard lock(mutex_);
  return tokens_.counts(token_id, clock_.wall());
}

bool Gate::usable(std::string_view text) const {
  auto token = security::parse_token(text);
  if (!token) return false;
  std::lock_guard lock(mutex_);
  return tokens_.check(token->id, token->secret.reveal(), clock_.wall()).has_value();
}

bool needs_proof(std::string_view method) {
  for (const MethodRule& rule : kRules) {
    if (rule.path == method) return !rule.open;
  }
  return false;
}

std::shared_ptr<grpc::AuthMetadataProcessor> make_auth_processor(const Gate& gate) { return std::make_shared<GateProcessor>(gate); }

std::string certificate_of(const grpc::AuthContext& context) {
  const auto found = context.FindPropertyValues("x509_pem_cert");
  return found.empty() ? std::string() : std::string(found.front().data(), found.front().size());
}

}  // namespace volador::head
