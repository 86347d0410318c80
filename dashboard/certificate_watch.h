// Detects changes of the owner's certificate files, so that a renewed certificate is used without a restart.
// Single-threaded.
#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "runtime/clock.h"
#include "runtime/result.h"
#include "runtime/security/own_certificate.h"

namespace volador::dashboard {

class CertificateWatch {
 public:
  explicit CertificateWatch(security::OwnCertificateFiles files) : files_(std::move(files)), seen_(look()) {}

  // Returns the content if a file changed since the last call, else nullopt. An invalid pair is reported once: while
  // only one of the two files has been replaced, they do not match.
  std::optional<Result<security::OwnCertificate>> changed(WallTime now);

 private:
  using Seen = std::array<int64_t, 6>;  // Time, size and inode of each; 0 for a missing file.
  Seen look() const;

  const security::OwnCertificateFiles files_;
  Seen seen_;
};

}  // namespace volador::dashboard
