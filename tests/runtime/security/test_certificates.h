// An authority and its certificates, for tests.
#pragma once

#include "runtime/clock.h"
#include "runtime/security/authority.h"
#include "runtime/security/keys.h"

namespace volador::security {

inline ClusterId test_cluster(uint8_t fill = 7) {
  std::array<uint8_t, 16> bytes{};
  bytes.fill(fill);
  return ClusterId(bytes);
}

inline Authority test_authority(uint8_t fill = 7) {
  return Authority::create(test_cluster(fill), SystemClock().wall()).value();
}

inline Credentials signed_by(const Authority& authority, const SignOptions& options) {
  const auto request = make_key_request(options.role, options.name).value();
  return {.certificate_pem = authority.sign(request.csr_pem, options).value(),
          .key_pem = request.key_pem,
          .authority_pem = authority.certificate_pem()};
}

inline Credentials signed_by(const Authority& authority, Role role, const std::string& name) {
  return signed_by(authority, {.role = role, .name = name, .now = SystemClock().wall()});
}

}  // namespace volador::security
