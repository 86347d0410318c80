#include "runtime/control/certify.h"

#include <fmt/format.h>

#include "runtime/control/unary.h"
#include "runtime/protocol/control.grpc.pb.h"
#include "runtime/security/keys.h"
#include "runtime/security/role.h"

namespace volador::control {
namespace {

Result<security::Credentials> certify(const Channel& channel, security::Role role, const std::string& name,
                                      const std::string& host_id, std::chrono::milliseconds timeout,
                                      const std::stop_token& stop = {}) {
  auto own = security::make_key_request(role, name);
  if (!own) return make_error(own.error());
  protocol::CertifyRequest request;
  request.set_csr_pem(own->csr_pem);
  request.set_role(std::string(to_string(role)));
  request.set_host_id(host_id);
  const auto stub = protocol::Control::NewStub(channel.grpc());
  auto reply = repeat_while_lost(stop, [&](bool* lost) {
    grpc::ClientContext context;
    set_timeout(context, timeout);
    return ask_once(channel, *stub, &protocol::Control::Stub::Certify, context, request, lost);
  });
  if (!reply) return make_error(reply.error());
  VOLADOR_TRY(check_reply(reply->error()));
  security::Credentials out{.certificate_pem = reply->certificate_pem(),
                            .key_pem = std::move(own->key_pem),
                            .authority_pem = reply->authority_pem()};
  if (auto pair = security::check_credentials(out); !pair) {
    return make_error(ErrorCode::kInternal, fmt::format("{} sent a certificate that does not fit: {}",
                                                        channel.address(), pair.error().message));
  }
  return out;
}

}  // namespace

Result<security::Credentials> certify_host(const Channel& channel, HostId host, std::chrono::milliseconds timeout,
                                           const std::stop_token& stop) {
  return certify(channel, security::Role::kHost, to_string(host), raw(host), timeout, stop);
}

Result<security::Credentials> renew_node(const Channel& channel, const std::string& name,
                                         std::chrono::milliseconds timeout) {
  return certify(channel, security::Role::kNode, name, {}, timeout);
}

}  // namespace volador::control
