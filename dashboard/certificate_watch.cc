#include "dashboard/certificate_watch.h"

#include <sys/stat.h>

namespace volador::dashboard {

CertificateWatch::Seen CertificateWatch::look() const {
  Seen seen{};
  size_t at = 0;
  for (const auto* file : {&files_.certificate, &files_.key}) {
    struct stat found {};
    const bool there = ::stat(file->c_str(), &found) == 0;
    seen[at++] = there ? int64_t{found.st_mtim.tv_sec} * 1'000'000'000 + found.st_mtim.tv_nsec : 0;
    seen[at++] = there ? static_cast<int64_t>(found.st_size) : 0;
    seen[at++] = there ? static_cast<int64_t>(found.st_ino) : 0;
  }
  return seen;
}

std::optional<Result<security::OwnCertificate>> CertificateWatch::changed(WallTime now) {
  const Seen found = look();
  if (found == seen_) return std::nullopt;
  seen_ = found;
  return security::load_own_certificate(files_, now);
}

}  // namespace volador::dashboard
