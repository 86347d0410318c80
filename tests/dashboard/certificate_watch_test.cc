#include "dashboard/certificate_watch.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/runtime/security/temporary_folder.h"
#include "tests/runtime/security/test_certificates.h"

namespace volador::dashboard {
namespace {

TEST(CertificateWatch, OnlyChangesAreToldAndAHalfReplacedPairIsNotTaken) {
  const WallTime now = SystemClock().wall();
  const security::TemporaryFolder folder;
  const security::OwnCertificateFiles files{.certificate = folder / "site.pem", .key = folder / "site.key"};
  const auto write = [](const std::filesystem::path& file, const std::string& text) {
    std::ofstream(file.string() + ".new") << text;
    std::filesystem::rename(file.string() + ".new", file);
  };
  const auto authority = security::test_authority();
  const auto first = authority.issue_head({"a.example"}, now).value(),
             second = authority.issue_head({"b.example"}, now).value();
  write(files.certificate, first.certificate_pem);
  write(files.key, first.key_pem);
  CertificateWatch watch(files);
  EXPECT_FALSE(watch.changed(now).has_value());

  write(files.certificate, second.certificate_pem);
  auto found = watch.changed(now);
  ASSERT_TRUE(found.has_value());
  EXPECT_FALSE(found->has_value());
  EXPECT_FALSE(watch.changed(now).has_value());

  write(files.key, second.key_pem);
  found = watch.changed(now);
  ASSERT_TRUE(found.has_value());
  ASSERT_TRUE(found->has_value());
  EXPECT_TRUE((*found)->is_for("b.example"));
}

}  // namespace
}  // namespace volador::dashboard
