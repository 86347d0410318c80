// Certificates for tests, without a join.
#pragma once

#include "runtime/security/authority.h"
#include "runtime/security/keys.h"

namespace volador::control {

inline security::Credentials credentials_for(const security::Authority& authority, security::Role role,
                                             const std::string& name, WallTime now = SystemClock().wall(),
                                             std::chrono::seconds valid_for = {}) {
  const auto request = security::make_key_request(role, name).value();
  return {.certificate_pem =
              authority.sign(request.csr_pem, {.role = role, .name = name, .now = now, .valid_for = valid_for}).value(),
          .key_pem = request.key_pem,
          .authority_pem = authority.certificate_pem()};
}

}  // namespace volador::control
