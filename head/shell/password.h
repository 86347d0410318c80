// Hashes of passwords: Argon2id with libsodium's interactive costs, 64 MiB and 2 passes. Each call takes about 80 ms of
// a CPU, so do not call them on an event loop.
#pragma once

#include <string>
#include <string_view>

#include "runtime/result.h"

namespace volador::head {

// The hash as text, which has the salt and the costs. kUnavailable: not enough memory.
[[nodiscard]] Result<std::string> password_hash(std::string_view password);
// False for a wrong password, and for a text that is no hash.
bool password_matches(std::string_view password, const std::string& hash);
// A hash of an unknown password: checking against it takes as long as against that of a user.
const std::string& hash_of_no_password();

}  // namespace volador::head
