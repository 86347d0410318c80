// Says when the files of the owner's certificate have changed, so that a renewed one is used without a restart. One thread.
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

  // Nothing where both files are as they were at the last call; else what they hold now. A pair that is wrong is told once: while one of
  // the two has been replaced and the other not yet, it does not match.
  std::optional<Result<security::OwnCertificate>> changed(WallTime now);

 private:
  using Seen = std::array<int64_t, 6>;  // Time, size and inode of each; 0 where there is none.
  Seen look() const;

  const security::OwnCertificateFiles files_;
  Seen seen_;
};

}  // namespace volador::dashboard
