// Certificates supplied by the user: used unchanged, or rejected with a remedy.
#include "runtime/security/own_certificate.h"

#include <gmock/gmock.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "tests/runtime/security/temporary_folder.h"
#include "tests/runtime/security/test_certificates.h"

namespace volador::security {
namespace {

using testing::AllOf;
using testing::HasSubstr;

class OwnCertificateTest : public testing::Test {
 protected:
  OwnCertificateTest() {
    const Credentials made = test_authority().issue_head({"volador.example", "10.1.2.3"}, now_).value();
    write(files_.certificate, made.certificate_pem);
    write(files_.key, made.key_pem);
  }
  static void write(const std::filesystem::path& file, const std::string& text) { std::ofstream(file) << text; }
  static std::string read(const std::filesystem::path& file) {
    std::ifstream in(file);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  std::string why() { return load(now_); }
  std::string load(WallTime at) {
    const auto loaded = load_own_certificate(files_, at);
    if (loaded) return "";
    EXPECT_EQ(loaded.error().code, ErrorCode::kInvalidArgument);
    return loaded.error().message;
  }

  const WallTime now_ = SystemClock().wall();
  TemporaryFolder folder_;
  OwnCertificateFiles files_{.certificate = folder_ / "site.pem", .key = folder_ / "site.key"};
};

TEST_F(OwnCertificateTest, APairIsTakenWithTheNamesThatItIsFor) {
  const auto own = load_own_certificate(files_, now_);
  ASSERT_TRUE(own) << own.error().message;
  EXPECT_TRUE(own->is_for("volador.example"));
  EXPECT_TRUE(own->is_for("10.1.2.3"));
  EXPECT_FALSE(own->is_for("10.1.2.4"));
  EXPECT_EQ(own->key_pem, read(files_.key));
}

TEST_F(OwnCertificateTest, AFileThatIsNotThereIsNamedWithItsFlag) {
  std::filesystem::remove(files_.key);
  EXPECT_THAT(
      why(), AllOf(HasSubstr("--tls-key " + files_.key.string()), HasSubstr("No such file"), HasSubstr("private key")));
  std::filesystem::remove(files_.certificate);
  EXPECT_THAT(why(), HasSubstr("--tls-cert"));
  std::filesystem::create_directory(files_.certificate);
  EXPECT_THAT(why(), HasSubstr("is a folder"));
}

TEST_F(OwnCertificateTest, AFileThatMayNotBeReadSaysByWhom) {
  if (::geteuid() == 0) GTEST_SKIP() << "root reads every file";
  ::chmod(files_.key.c_str(), 0);
  EXPECT_THAT(why(), AllOf(HasSubstr("may not be read"), HasSubstr(std::to_string(::geteuid()))));
}

TEST_F(OwnCertificateTest, AKeyOfAnotherCertificateIsRefused) {
  write(files_.key, test_authority().issue_head({"other.example"}, now_).value().key_pem);
  EXPECT_THAT(why(), AllOf(HasSubstr("is not the key"), HasSubstr(files_.certificate.string())));
}

TEST_F(OwnCertificateTest, TimesOutsideItsLifeAreToldApart) {
  EXPECT_THAT(load(now_ + kValidAuthority), AllOf(HasSubstr("expired on"), HasSubstr("renew")));
  EXPECT_THAT(load(now_ - std::chrono::hours(24)), AllOf(HasSubstr("is valid from"), HasSubstr("clock")));
}

TEST_F(OwnCertificateTest, WhatIsNoPemAndWhatIsInTheWrongPlaceIsSaid) {
  const std::string certificate = read(files_.certificate), key = read(files_.key);
  write(files_.certificate, key);
  EXPECT_THAT(why(), HasSubstr("give the certificate here"));
  write(files_.certificate, "\x30\x82 no text");
  EXPECT_THAT(why(), HasSubstr("-outform PEM"));
  write(files_.certificate, certificate);
  write(files_.key, "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n");
  EXPECT_THAT(why(), HasSubstr("openssl pkey"));
  write(files_.key, certificate);
  EXPECT_THAT(why(), HasSubstr("--tls-key"));
  write(files_.key, std::string(1 << 20, 'x'));
  EXPECT_THAT(why(), HasSubstr("--tls-key"));
}

}  // namespace
}  // namespace volador::security
