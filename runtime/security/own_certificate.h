// A user-provided certificate for a server used by browsers, instead of one of the cluster's authority.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "runtime/clock.h"
#include "runtime/result.h"
#include "runtime/security/credentials.h"

namespace volador::security {

// Paths of the user's certificate files.
struct OwnCertificateFiles {
  std::filesystem::path certificate;  // PEM: the server's certificate first, then the intermediate ones.
  std::filesystem::path key;          // PEM, not encrypted.
};

// A loaded user certificate.
struct OwnCertificate {
  std::string certificate_pem, key_pem;
  Validity validity;
  std::vector<std::string> names;  // DNS names (with wildcards) and IP addresses of the certificate.

  bool is_for(std::string_view name) const;
};

// kInvalidArgument: a file is missing, unreadable or has other contents; the key is encrypted or does not match; the
// certificate is not valid now. Messages name the flag, the file and the remedy.
[[nodiscard]] Result<OwnCertificate> load_own_certificate(const OwnCertificateFiles& files, WallTime now);

}  // namespace volador::security
