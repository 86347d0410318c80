// A certificate that its owner brings for a server that browsers open, in place of one of the cluster's authority.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "runtime/clock.h"
#include "runtime/result.h"
#include "runtime/security/credentials.h"

namespace volador::security {

struct OwnCertificateFiles {
  std::filesystem::path certificate;  // PEM: the server's first, then those between it and its root.
  std::filesystem::path key;          // PEM, not encrypted.
};

struct OwnCertificate {
  std::string certificate_pem, key_pem;
  Validity validity;
  std::vector<std::string> names;  // DNS names (wildcards too) and IP addresses that it is for.

  bool is_for(std::string_view name) const;
};

// kInvalidArgument: a file is missing, cannot be read or holds something else; the key is encrypted or of another certificate; the time
// is not within the certificate's life. Messages name the flag, the file and what to do.
[[nodiscard]] Result<OwnCertificate> load_own_certificate(const OwnCertificateFiles& files, WallTime now);

}  // namespace volador::security
