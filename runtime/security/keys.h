// Private key and certificate signing request. The key leaves its process only into its owner's file.
#pragma once

#include <string>
#include <string_view>

#include "runtime/result.h"
#include "runtime/security/role.h"

namespace volador::security {

// A private key and its certificate signing request.
struct KeyRequest {
  std::string key_pem;
  std::string csr_pem;
};

// Creates an EC P-256 key. The authority sets subject and names; those in the request are informational.
// kInvalidArgument: name is empty, longer than 64 bytes or has control characters.
[[nodiscard]] Result<KeyRequest> make_key_request(Role role, std::string_view name);

}  // namespace volador::security
