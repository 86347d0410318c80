#include "runtime/control/join.h"

#include <fmt/format.h>

#include "runtime/control/channel.h"
#include "runtime/control/unary.h"
#include "runtime/protocol/control.grpc.pb.h"
#include "runtime/security/handshake.h"
#include "runtime/security/keys.h"
#include "runtime/version.h"

namespace volador::control {
namespace {

Result<void> check_options(const JoinOptions& options) {
  if (options.role == security::Role::kHost || options.role == security::Role::kHead) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("role: expected node, driver or operator, got {}", to_string(options.role)));
  }
  return security::check_joins_as(options.token.id, options.token.role, options.role);
}

// Checks that the reply matches the request and the cluster whose fingerprint was verified.
Result<Joined> checked(const protocol::JoinReply& reply, const security::KeyRequest& own,
                       const security::ProbeReply& head, const JoinOptions& options) {
  const auto wrong = [&](std::string_view why) {
    return make_error(ErrorCode::kInternal,
                      fmt::format("{} sent a certificate that does not fit: {}", options.address, why));
  };
  Joined out{.credentials = {.certificate_pem = reply.certificate_pem(),
                             .key_pem = own.key_pem,
                             .authority_pem = head.authority_pem},
             .cluster_name = reply.cluster_name(),
             .cluster = head.head.cluster};
  if (auto pair = security::check_credentials(out.credentials); !pair) return wrong(pair.error().message);
  auto self = security::parse_peer_identity(reply.certificate_pem());
  if (!self) return wrong(self.error().message);
  if (self->role != options.role || self->cluster != out.cluster) {
    return wrong(fmt::format("role {} of cluster {}", to_string(self->role), short_id(self->cluster)));
  }
  return out;
}

}  // namespace

Result<Joined> join(const JoinOptions& options, const Clock& clock) {
  const auto deadline = std::chrono::steady_clock::now() + options.timeout;
  VOLADOR_TRY(check_options(options));
  VOLADOR_TRY(prepare_grpc());
  auto own = security::make_key_request(options.role, options.name);
  if (!own) return make_error(own.error());
  auto head = security::probe_expected(options.address, options.token.authority, options.timeout, clock);
  if (!head) return make_error(head.error());

  // Rooted at the verified authority: the secret cannot reach another server.
  const Channel channel(options.address, {.certificate_pem = {}, .key_pem = {}, .authority_pem = head->authority_pem});
  const auto stub = protocol::Control::NewStub(channel.grpc());
  protocol::JoinRequest request;
  request.set_protocol_version(kProtocolVersion);
  request.set_version(std::string(kVersion));
  request.set_token_id(options.token.id);
  request.set_secret(options.token.secret.reveal());
  request.set_role(std::string(to_string(options.role)));
  request.set_csr_pem(own->csr_pem);
  request.set_name(options.name);
  request.set_wall_ns(clock.wall().time_since_epoch().count());
  grpc::ClientContext context;
  set_timeout(context, std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()));
  auto reply = ask_once(channel, *stub, &protocol::Control::Stub::Join, context, request);
  if (!reply) return make_error(reply.error());
  VOLADOR_TRY(check_reply(reply->error()));
  return checked(*reply, *own, *head, options);
}

}  // namespace volador::control
