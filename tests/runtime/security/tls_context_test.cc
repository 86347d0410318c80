#include "runtime/security/tls_context.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>

#include "runtime/security/openssl_types.h"
#include "runtime/security/revocations.h"
#include "tests/runtime/security/test_certificates.h"

namespace volador::security {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

const std::string kHost(32, 'a');
const std::string kOtherHost(32, 'b');

// Two ends of a TLS connection joined in memory: no sockets, no threads.
struct Joined {
  SslPtr client;
  SslPtr server;
  int client_result = 0;
  int server_result = 0;
  bool done() const { return client_result == 1 && server_result == 1; }
};

Joined shake_hands(SslPtr client, SslPtr server) {
  Joined out{.client = std::move(client), .server = std::move(server)};
  BIO* to_server = BIO_new(BIO_s_mem());
  BIO* to_client = BIO_new(BIO_s_mem());
  BIO_up_ref(to_server);
  BIO_up_ref(to_client);
  SSL_set_bio(out.client.get(), to_client, to_server);
  SSL_set_bio(out.server.get(), to_server, to_client);
  for (int i = 0; i < 10 && !out.done(); ++i) {
    if (out.client_result != 1) out.client_result = SSL_do_handshake(out.client.get());
    if (out.client_result != 1 && SSL_get_error(out.client.get(), out.client_result) == SSL_ERROR_SSL) break;
    if (out.server_result != 1) out.server_result = SSL_do_handshake(out.server.get());
    if (out.server_result != 1 && SSL_get_error(out.server.get(), out.server_result) == SSL_ERROR_SSL) break;
  }
  return out;
}

class TlsContextTest : public testing::Test {
 protected:
  std::shared_ptr<TlsContext> of(Role role, const std::string& name) { return of(signed_by(authority_, role, name)); }
  static std::shared_ptr<TlsContext> of(const Credentials& credentials) {
    return TlsContext::create(credentials).value();
  }

  Authority authority_ = test_authority();
};

TEST_F(TlsContextTest, EachSideSeesWhoTheOtherIs) {
  const auto host = of(Role::kHost, kHost);
  for (const auto role : {Role::kDriver, Role::kOperator, Role::kNode, Role::kHost}) {
    const std::string name = role == Role::kHost ? kOtherHost : "ada";
    const auto caller = of(role, name);
    const auto joined = shake_hands(caller->new_client(kHost).value(), host->new_server().value());
    ASSERT_TRUE(joined.done()) << to_string(role);
    EXPECT_EQ(SSL_version(joined.client.get()), TLS1_3_VERSION);
    const auto server = caller->check_server(joined.client.get(), kHost);
    ASSERT_TRUE(server) << server.error().message;
    const auto client = host->check_client(joined.server.get());
    ASSERT_TRUE(client) << client.error().message;
    EXPECT_EQ(client->role, role);
    EXPECT_EQ(client->name, name);
  }
}

TEST_F(TlsContextTest, AnotherHostThanTheOneCalledIsRefused) {
  const auto caller = of(Role::kDriver, "ada");
  const auto joined = shake_hands(caller->new_client(kHost).value(), of(Role::kHost, kOtherHost)->new_server().value());
  ASSERT_FALSE(joined.done());
  const Error error = tls_error(joined.client.get(), joined.client_result, "10.0.0.2:41234");
  EXPECT_EQ(error.code, ErrorCode::kUnauthenticated);
  EXPECT_THAT(error.message, HasSubstr("10.0.0.2:41234"));
  EXPECT_THAT(error.message, HasSubstr("hostname mismatch"));
}

TEST_F(TlsContextTest, ADriverCannotPoseAsAHost) {
  // The certificate is for clients only, regardless of its CN.
  const auto joined =
      shake_hands(of(Role::kDriver, "ada")->new_client(kHost).value(), of(Role::kDriver, kHost)->new_server().value());
  EXPECT_FALSE(joined.done());
}

TEST_F(TlsContextTest, OtherClustersAreRefusedByBothSides) {
  const Authority other = test_authority(9);
  const auto foreign_driver = of(signed_by(other, Role::kDriver, "ada"));
  const auto foreign_host = of(signed_by(other, Role::kHost, kHost));
  const auto outside =
      shake_hands(foreign_driver->new_client(kHost).value(), of(Role::kHost, kHost)->new_server().value());
  EXPECT_FALSE(outside.done());
  const auto inside =
      shake_hands(of(Role::kDriver, "ada")->new_client(kHost).value(), foreign_host->new_server().value());
  EXPECT_FALSE(inside.done());
}

TEST_F(TlsContextTest, AClientWithoutACertificateIsRefused) {
  const ContextPtr bare = make_context({}, {.verify_peer = false}).value();
  SslPtr client(SSL_new(bare.get()));
  SSL_set_connect_state(client.get());
  const auto joined = shake_hands(std::move(client), of(Role::kHost, kHost)->new_server().value());
  ASSERT_FALSE(joined.done());
  const Error error = tls_error(joined.server.get(), joined.server_result, "10.0.0.3:5");
  EXPECT_EQ(error.code, ErrorCode::kUnauthenticated);
  EXPECT_THAT(error.message, HasSubstr("showed no certificate"));
}

TEST_F(TlsContextTest, OlderTlsIsRefused) {
  const Credentials driver = signed_by(authority_, Role::kDriver, "ada");
  const ContextPtr old = make_context(driver, {.version_min = TLS1_2_VERSION}).value();
  SSL_CTX_set_max_proto_version(old.get(), TLS1_2_VERSION);
  SslPtr client(SSL_new(old.get()));
  SSL_set_connect_state(client.get());
  EXPECT_FALSE(shake_hands(std::move(client), of(Role::kHost, kHost)->new_server().value()).done());
}

TEST_F(TlsContextTest, ExpiredCertificatesAreRefused) {
  const auto expired = signed_by(
      authority_, {.role = Role::kDriver, .name = "ada", .now = SystemClock().wall() - 48h, .valid_for = 3600s});
  const auto joined = shake_hands(of(expired)->new_client(kHost).value(), of(Role::kHost, kHost)->new_server().value());
  ASSERT_FALSE(joined.done());
  EXPECT_THAT(tls_error(joined.server.get(), joined.server_result, "x").message, HasSubstr("expired"));
}

TEST_F(TlsContextTest, TheHeadsCertificateAndRevokedTokensMayNotCall) {
  const auto host = of(Role::kHost, kHost);
  const auto revoked =
      of(signed_by(authority_, {.role = Role::kDriver, .name = "ada", .token_id = "t1", .now = SystemClock().wall()}));
  const auto joined = shake_hands(revoked->new_client(kHost).value(), host->new_server().value());
  ASSERT_TRUE(joined.done());
  EXPECT_TRUE(host->check_client(joined.server.get()));
  host->revocations().revoke_token("t1");
  EXPECT_EQ(host->check_client(joined.server.get()).error().code, ErrorCode::kUnauthenticated);

  const auto head = of(authority_.issue_head({}, SystemClock().wall()).value());
  EXPECT_FALSE(shake_hands(head->new_client(kHost).value(), host->new_server().value()).done());
}

TEST_F(TlsContextTest, AHostOfANodeWhoseTokenWasRevokedIsNotCalled) {
  const auto host =
      of(signed_by(authority_, {.role = Role::kHost, .name = kHost, .token_id = "t2", .now = SystemClock().wall()}));
  const auto caller = of(Role::kDriver, "ada");
  const auto joined = shake_hands(caller->new_client(kHost).value(), host->new_server().value());
  ASSERT_TRUE(joined.done());
  EXPECT_TRUE(caller->check_server(joined.client.get(), kHost));
  caller->revocations().revoke_token("t2");
  EXPECT_THAT(caller->check_server(joined.client.get(), kHost).error().message, HasSubstr("t2"));
}

TEST_F(TlsContextTest, ReloadCountsForTheNextConnectionAndStaysInTheCluster) {
  const auto host = of(Role::kHost, kHost);
  const auto caller = of(Role::kDriver, "ada");
  EXPECT_TRUE(caller->reload(signed_by(authority_, Role::kDriver, "grace")));
  const auto joined = shake_hands(caller->new_client(kHost).value(), host->new_server().value());
  ASSERT_TRUE(joined.done());
  EXPECT_EQ(host->check_client(joined.server.get())->name, "grace");
  EXPECT_FALSE(caller->reload(signed_by(test_authority(9), Role::kDriver, "ada")));
  EXPECT_FALSE(caller->reload({}));
  EXPECT_TRUE(shake_hands(caller->new_client(kHost).value(), host->new_server().value()).done());
}

}  // namespace
}  // namespace volador::security
