// Where this user of the machine is signed in: logins.json in Volador's home, 0600. Written by `volador login`, read
// by commands and programs; see runtime/cluster_target.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/paths.h"
#include "runtime/result.h"

namespace volador {

struct Login {
  std::string address;      // host:port of the head; one entry for each address.
  std::string fingerprint;  // The cluster's authority, formatted as in security/digest.h.
  std::string user;
  std::string token;  // Secret.
  int64_t expires_ms = 0;
};

// The newest first; empty: none. kInvalidArgument: the file has other contents.
[[nodiscard]] Result<std::vector<Login>> load_logins(const Paths& paths);
// Replaces the entry of the same address. Errors as write_file_atomic.
[[nodiscard]] Result<void> save_login(const Paths& paths, const Login& login);
// Idempotent.
[[nodiscard]] Result<void> remove_login(const Paths& paths, const std::string& address);

// The entry of the address, or the newest if it is empty.
std::optional<Login> login_at(const std::vector<Login>& logins, const std::string& address);

}  // namespace volador
