#include "runtime/security/authority.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>
#include <sys/stat.h>

#include <fstream>

#include "runtime/random.h"
#include "runtime/security/peer_identity.h"
#include "runtime/security/revocations.h"
#include "tests/runtime/security/temporary_folder.h"
#include "tests/runtime/security/test_certificates.h"

namespace volador::security {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;

const std::string kHostName(32, 'a');

TEST(Authority, SignsEveryRoleWithItsNamesAndLife) {
  const Authority authority = test_authority();
  const FakeClock clock;
  struct Case {
    Role role;
    std::string name;
    std::chrono::seconds life;
    std::string dns;
  };
  const Case cases[] = {
      {Role::kNode, "node-b", kValidNodeDriverOperator, "node.volador"},
      {Role::kDriver, "ada", kValidNodeDriverOperator, "driver.volador"},
      {Role::kOperator, "grace", kValidNodeDriverOperator, "operator.volador"},
      {Role::kHost, kHostName, kValidHost, kHostName},
  };
  for (const auto& [role, name, life, dns] : cases) {
    const auto credentials =
        signed_by(authority, {.role = role, .name = name, .token_id = "0a1b2c3d4e5f", .now = clock.wall()});
    EXPECT_TRUE(check_credentials(credentials));
    const auto identity = parse_peer_identity(credentials.certificate_pem);
    ASSERT_TRUE(identity) << identity.error().message;
    EXPECT_EQ(identity->role, role);
    EXPECT_EQ(identity->name, name);
    EXPECT_EQ(identity->cluster, test_cluster());
    EXPECT_EQ(identity->token_id, "0a1b2c3d4e5f");
    EXPECT_EQ(identity->serial.size(), 32U);
    EXPECT_THAT(identity->dns_names, ElementsAre(dns));
    EXPECT_EQ(identity->not_before, clock.wall() - kBackDated);
    EXPECT_EQ(identity->not_after, clock.wall() + life);
  }
}

TEST(Authority, TheHeadsCertificateCarriesHeadAndItsNamesAndTheAuthority) {
  const Authority authority = test_authority();
  const auto head = authority.issue_head({"10.0.0.1", "fd00::1", "heron.example", "head"}, SystemClock().wall());
  ASSERT_TRUE(head);
  EXPECT_TRUE(check_credentials(*head));
  EXPECT_TRUE(head->certificate_pem.ends_with(authority.certificate_pem()));
  const auto identity = parse_peer_identity(head->certificate_pem);
  ASSERT_TRUE(identity);
  EXPECT_EQ(identity->role, Role::kHead);
  EXPECT_THAT(identity->dns_names, ElementsAre("head", "heron.example"));
  EXPECT_FALSE(authority.issue_head({"two words"}, SystemClock().wall()));
}

TEST(Authority, RequestsCannotAskForMoreThanTheyGet) {
  const Authority authority = test_authority();
  const WallTime now = SystemClock().wall();
  const auto request = make_key_request(Role::kHead, "head").value();
  EXPECT_FALSE(authority.sign(request.csr_pem, {.role = Role::kHead, .name = "head", .now = now}));
  const auto as_driver = authority.sign(request.csr_pem, {.role = Role::kDriver, .name = "ada", .now = now});
  ASSERT_TRUE(as_driver);
  const auto identity = parse_peer_identity(*as_driver);
  EXPECT_EQ(identity->role, Role::kDriver);
  EXPECT_EQ(identity->name, "ada");
  EXPECT_THAT(identity->dns_names, ElementsAre("driver.volador"));
}

TEST(Authority, BadOptionsAndRequestsAreNamed) {
  const Authority authority = test_authority();
  const WallTime now = SystemClock().wall();
  const std::string csr = make_key_request(Role::kNode, "b").value().csr_pem;
  struct Case {
    std::string csr;
    SignOptions options;
    const char* says;
  };
  std::string tampered = csr;
  const size_t middle = tampered.size() / 2;
  tampered[middle] = tampered[middle] == 'A' ? 'B' : 'A';
  const Case cases[] = {
      {"", {.role = Role::kNode, .name = "b", .now = now}, "csr_pem"},
      {"garbage", {.role = Role::kNode, .name = "b", .now = now}, "csr_pem"},
      {std::string(1 << 20, 'x'), {.role = Role::kNode, .name = "b", .now = now}, "csr_pem"},
      {tampered, {.role = Role::kNode, .name = "b", .now = now}, "csr_pem"},
      {csr, {.role = Role::kNode, .name = "", .now = now}, "name"},
      {csr, {.role = Role::kNode, .name = std::string(65, 'x'), .now = now}, "name"},
      {csr, {.role = Role::kNode, .name = "a\nb", .now = now}, "name"},
      {csr, {.role = Role::kNode, .name = "\xff\xfe", .now = now}, "name"},
      {csr, {.role = Role::kHost, .name = "head", .now = now}, "host's id"},
      {csr, {.role = Role::kNode, .name = "b", .token_id = "a b", .now = now}, "token_id"},
      {csr, {.role = Role::kNode, .name = "b", .now = now, .valid_for = -1s}, "valid_for"},
  };
  for (const auto& [text, options, says] : cases) {
    const auto certificate = authority.sign(text, options);
    ASSERT_FALSE(certificate) << says;
    EXPECT_EQ(certificate.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(certificate.error().message, HasSubstr(says));
  }
}

TEST(Authority, OtherKeysThanP256AreRefused) {
  EVP_PKEY* key = EVP_RSA_gen(2048);
  X509_REQ* request = X509_REQ_new();
  X509_REQ_set_pubkey(request, key);
  X509_REQ_sign(request, key, EVP_sha256());
  BIO* bio = BIO_new(BIO_s_mem());
  PEM_write_bio_X509_REQ(bio, request);
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  const std::string pem(data, static_cast<size_t>(size));
  BIO_free(bio);
  X509_REQ_free(request);
  EVP_PKEY_free(key);
  const auto certificate = test_authority().sign(pem, {.role = Role::kNode, .name = "b", .now = SystemClock().wall()});
  ASSERT_FALSE(certificate);
  EXPECT_THAT(certificate.error().message, HasSubstr("P-256"));
}

TEST(Authority, SurvivesAFileRoundTripWithPrivateFiles) {
  const TemporaryFolder folder;
  const Authority made = test_authority();
  const auto before = ::umask(0);
  ASSERT_TRUE(made.save(folder.path()));
  ::umask(before);
  EXPECT_EQ(mode_of(folder / "authority.key"), 0600U);
  EXPECT_EQ(mode_of(folder / "authority.pem"), 0600U);
  const auto loaded = Authority::load(folder.path());
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(loaded->fingerprint(), made.fingerprint());
  EXPECT_EQ(loaded->cluster(), made.cluster());
  EXPECT_TRUE(check_credentials(signed_by(*loaded, Role::kNode, "b")));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 2);
}

TEST(Authority, AbsentHalfBrokenAndForeignFilesAreNamed) {
  const TemporaryFolder folder;
  EXPECT_EQ(Authority::load(folder.path()).error().code, ErrorCode::kNotFound);
  ASSERT_TRUE(test_authority().save(folder.path()));
  std::filesystem::remove(folder / "authority.pem");
  const auto half = Authority::load(folder.path());
  ASSERT_FALSE(half);
  EXPECT_EQ(half.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(half.error().message, HasSubstr("authority.pem is missing"));

  const TemporaryFolder other;
  ASSERT_TRUE(test_authority(9).save(other.path()));
  std::filesystem::copy_file(other / "authority.pem", folder / "authority.pem");
  EXPECT_THAT(Authority::load(folder.path()).error().message, HasSubstr("does not belong to"));
  std::ofstream(folder / "authority.pem") << "nonsense";
  EXPECT_THAT(Authority::load(folder.path()).error().message, HasSubstr("not a certificate in PEM"));
}

TEST(Authority, AKeyOpenToOthersIsRefusedByName) {
  const TemporaryFolder folder;
  ASSERT_TRUE(test_authority().save(folder.path()));
  for (const mode_t mode : {0644U, 0640U, 0604U, 0602U}) {
    ::chmod((folder / "authority.key").c_str(), mode);
    const auto loaded = Authority::load(folder.path());
    ASSERT_FALSE(loaded);
    EXPECT_EQ(loaded.error().code, ErrorCode::kPermissionDenied);
    EXPECT_THAT(loaded.error().message, HasSubstr("authority.key may be read by other users"));
  }
}

TEST(Credentials, SymbolicLinksAndPipesAreRefused) {
  const TemporaryFolder folder;
  const auto credentials = signed_by(test_authority(), Role::kNode, "b");
  const auto files = CredentialFiles::in(folder.path(), "node");
  ASSERT_TRUE(save_credentials(credentials, files));
  EXPECT_TRUE(load_credentials(files));
  EXPECT_EQ(mode_of(files.key), 0600U);
  std::filesystem::rename(files.key, folder / "elsewhere");
  std::filesystem::create_symlink(folder / "elsewhere", files.key);
  EXPECT_EQ(load_credentials(files).error().code, ErrorCode::kPermissionDenied);
  std::filesystem::remove(files.key);
  ASSERT_EQ(::mkfifo(files.key.c_str(), 0600), 0);
  EXPECT_EQ(load_credentials(files).error().code, ErrorCode::kPermissionDenied);
}

TEST(Credentials, MixedPairsAreRefused) {
  const Authority authority = test_authority();
  const auto first = signed_by(authority, Role::kNode, "a");
  auto mixed = signed_by(authority, Role::kNode, "b");
  mixed.key_pem = first.key_pem;
  EXPECT_THAT(check_credentials(mixed).error().message, HasSubstr("not of this key"));
  auto foreign = first;
  foreign.authority_pem = test_authority(9).certificate_pem();
  EXPECT_THAT(check_credentials(foreign).error().message, HasSubstr("not signed by this authority"));
}

TEST(Credentials, AreDueForRenewalAtTwoThirdsOfTheirLife) {
  const WallTime begin{};
  const Validity validity{.not_before = begin, .not_after = begin + 30h};
  EXPECT_FALSE(due_for_renewal(validity, begin + 19h));
  EXPECT_TRUE(due_for_renewal(validity, begin + 20h));
  EXPECT_TRUE(due_for_renewal(validity, begin + 40h));
}

TEST(PeerIdentity, TheAuthorityItselfAndGarbageAreNobody) {
  EXPECT_EQ(parse_peer_identity(test_authority().certificate_pem()).error().code, ErrorCode::kUnauthenticated);
  EXPECT_EQ(parse_peer_identity("").error().code, ErrorCode::kUnauthenticated);
  EXPECT_EQ(parse_peer_identity("-----BEGIN CERTIFICATE-----\n").error().code, ErrorCode::kUnauthenticated);
}

TEST(PeerIdentity, ChangedBytesAreErrorsOrSomebodyAndNeverACrash) {
  SeededRandom random(20261121);
  const auto good = signed_by(test_authority(), Role::kHost, kHostName).certificate_pem;
  BIO* bio = BIO_new_mem_buf(good.data(), static_cast<int>(good.size()));
  X509* certificate = PEM_read_bio_X509(bio, nullptr, nullptr, nullptr);
  BIO_free(bio);
  unsigned char* der = nullptr;
  const int size = i2d_X509(certificate, &der);
  X509_free(certificate);
  for (int i = 0; i < 3'000; ++i) {
    std::string bytes(reinterpret_cast<char*>(der), static_cast<size_t>(size));
    const uint64_t edits = 1 + random.below(4);
    for (uint64_t edit = 0; edit < edits; ++edit)
      bytes[random.below(bytes.size())] = static_cast<char>(random.below(256));
    const auto* cursor = reinterpret_cast<const unsigned char*>(bytes.data());
    X509* changed = d2i_X509(nullptr, &cursor, static_cast<long>(bytes.size()));
    if (changed == nullptr) continue;
    const auto identity = peer_identity_of(changed);
    EXPECT_TRUE(identity || identity.error().code == ErrorCode::kUnauthenticated);
    X509_free(changed);
  }
  OPENSSL_free(der);
  for (int i = 0; i < 2'000; ++i) {
    std::string text = good;
    text[random.below(text.size())] = static_cast<char>(random.below(256));
    text.resize(1 + random.below(text.size()));
    (void)parse_peer_identity(text);
  }
}

TEST(RevocationsTest, CutWhatCameFromATokenAndSingleCertificates) {
  const Authority authority = test_authority();
  const WallTime now = SystemClock().wall();
  const auto a = parse_peer_identity(
      signed_by(authority, {.role = Role::kNode, .name = "a", .token_id = "t1", .now = now}).certificate_pem);
  const auto b = parse_peer_identity(
      signed_by(authority, {.role = Role::kNode, .name = "b", .token_id = "t2", .now = now}).certificate_pem);
  Revocations revocations;
  EXPECT_TRUE(revocations.check(*a));
  revocations.revoke_token("t1");
  EXPECT_TRUE(revocations.token_revoked("t1"));
  const auto refused = revocations.check(*a);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnauthenticated);
  EXPECT_THAT(refused.error().message, HasSubstr("token t1"));
  EXPECT_TRUE(revocations.check(*b));
  revocations.revoke_serial(b->serial);
  EXPECT_FALSE(revocations.check(*b));
}

}  // namespace
}  // namespace volador::security
