#include "runtime/security/handshake.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/ssl.h>

#include <csignal>

#include "runtime/security/openssl_types.h"
#include "tests/runtime/security/loopback_server.h"
#include "tests/runtime/security/test_certificates.h"

namespace volador::security {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

constexpr auto kTimeout = 5s;

// A TLS server with these credentials: sends the whole chain, requests client certificates of the same authority (or
// none) and sends one byte to accepted clients.
class TlsServer {
 public:
  explicit TlsServer(const Credentials& credentials, int verify = SSL_VERIFY_NONE)
      : context_(SSL_CTX_new(TLS_server_method())), server_([this](int fd) { serve(fd); }) {
    const auto chain = parse_certificates(credentials.certificate_pem).value();
    SSL_CTX_use_certificate(context_.get(), chain[0].get());
    if (chain.size() > 1) SSL_CTX_add1_chain_cert(context_.get(), chain[1].get());
    SSL_CTX_use_PrivateKey(context_.get(), parse_key(credentials.key_pem).value().get());
    const auto authority = parse_certificate(credentials.authority_pem);
    X509_STORE_add_cert(SSL_CTX_get_cert_store(context_.get()), authority->get());
    SSL_CTX_set_verify(context_.get(), verify, nullptr);
    SSL_CTX_set_num_tickets(context_.get(), 0);
  }
  const std::string& address() const { return server_.address(); }

 private:
  void serve(int fd) {
    const std::unique_ptr<SSL, Freed<SSL_free>> ssl(SSL_new(context_.get()));
    SSL_set_fd(ssl.get(), fd);
    char byte = 'h';
    if (SSL_accept(ssl.get()) != 1 || SSL_write(ssl.get(), &byte, 1) != 1) return;
    SSL_read(ssl.get(), &byte, 1);
  }

  ContextPtr context_;
  LoopbackServer server_;
};

class Handshake : public testing::Test {
 protected:
  Handshake() { std::signal(SIGPIPE, SIG_IGN); }  // For the servers above.

  Credentials head(const Authority& authority) { return authority.issue_head({}, clock_.wall()).value(); }

  SystemClock clock_;
  Authority authority_ = test_authority();
};

TEST_F(Handshake, FindsTheAuthorityOfAHead) {
  const TlsServer server(head(authority_));
  const auto reply = probe_authority(server.address(), kTimeout, clock_);
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(reply->authority, authority_.fingerprint());
  EXPECT_EQ(reply->authority_pem, authority_.certificate_pem());
  EXPECT_EQ(reply->head.cluster, test_cluster());
  EXPECT_TRUE(probe_expected(server.address(), authority_.fingerprint(), kTimeout, clock_));
}

TEST_F(Handshake, AnotherClusterIsNamedWithBothFingerprintsAndTheNextStep) {
  const TlsServer server(head(authority_));
  const Fingerprint expected = test_authority(9).fingerprint();
  const auto reply = probe_expected(server.address(), expected, kTimeout, clock_);
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, ErrorCode::kUnauthenticated);
  EXPECT_EQ(reply.error().message,
            server.address() + " belongs to another cluster: its certificate is " +
                short_text(authority_.fingerprint()) + ", the token expects " + short_text(expected) +
                ".\n  Copy the join command that `volador start --head` printed on that machine, or run `volador token "
                "create` there.");
}

TEST_F(Handshake, AClosedPortIsRefusedByName) {
  LoopbackServer server(nullptr);
  const std::string address = server.address();
  server.stop();
  const auto reply = probe_authority(address, kTimeout, clock_);
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(reply.error().message, HasSubstr("nothing listens at " + address));
  EXPECT_THAT(reply.error().message, HasSubstr("tried 127.0.0.1"));
}

TEST_F(Handshake, ASilentServerIsGivenUpInTime) {
  const LoopbackServer server(nullptr);
  const auto begin = std::chrono::steady_clock::now();
  const auto reply = probe_authority(server.address(), 200ms, clock_);
  ASSERT_FALSE(reply);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 3s);
  EXPECT_EQ(reply.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(reply.error().message, HasSubstr("did not finish a TLS handshake within 0.2 s"));
}

TEST_F(Handshake, PlainTextServersAreNotTls) {
  for (const std::string_view answer :
       {"HTTP/1.1 400 Bad Request\r\n\r\n", "-ERR unknown command\r\n", "\x00\x01\x02"}) {
    const LoopbackServer server([answer](int fd) {
      char bytes[4096];
      (void)!::recv(fd, bytes, sizeof bytes, 0);
      (void)!::send(fd, answer.data(), answer.size(), MSG_NOSIGNAL);
    });
    const auto reply = probe_authority(server.address(), kTimeout, clock_);
    ASSERT_FALSE(reply);
    if (answer.size() > 5) {
      EXPECT_EQ(reply.error().code, ErrorCode::kUnauthenticated);
      EXPECT_THAT(reply.error().message, HasSubstr("does not speak TLS"));
    }
  }
}

TEST_F(Handshake, AServerThatHangsUpIsNamed) {
  const LoopbackServer server([](int) {});
  const auto reply = probe_authority(server.address(), kTimeout, clock_);
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(reply.error().message, HasSubstr(server.address()));
}

TEST_F(Handshake, OtherTlsServersAreNotHeads) {
  const TlsServer node(signed_by(authority_, Role::kNode, "b"));
  const auto lone = probe_authority(node.address(), kTimeout, clock_);
  ASSERT_FALSE(lone);
  EXPECT_EQ(lone.error().code, ErrorCode::kUnauthenticated);
  EXPECT_THAT(lone.error().message, HasSubstr("is not a Volador head"));

  auto with_chain = signed_by(authority_, Role::kNode, "b");
  with_chain.certificate_pem += authority_.certificate_pem();
  const TlsServer chained(with_chain);
  EXPECT_THAT(probe_authority(chained.address(), kTimeout, clock_).error().message, HasSubstr("of role node"));

  // A forged authority without its signature.
  const Authority other = test_authority(7);
  auto forged = head(other);
  forged.certificate_pem =
      forged.certificate_pem.substr(0, forged.certificate_pem.find("-----BEGIN", 10)) + authority_.certificate_pem();
  const TlsServer forger(forged);
  EXPECT_THAT(probe_expected(forger.address(), authority_.fingerprint(), kTimeout, clock_).error().message,
              HasSubstr("not signed by the authority"));
}

TEST_F(Handshake, AWrongClockIsNamedWithBothTimes) {
  const TlsServer server(head(authority_));
  const FakeClock in_2023;
  const auto reply = probe_authority(server.address(), kTimeout, in_2023);
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, ErrorCode::kUnauthenticated);
  EXPECT_THAT(reply.error().message, HasSubstr("this machine's clock says 2023-11-14"));
}

TEST_F(Handshake, CheckConnectionSaysWhetherTheServerTakesOurCertificate) {
  const TlsServer server(head(authority_), SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT);
  const auto good = signed_by(authority_, Role::kNode, "b");
  const auto accepted = check_connection(server.address(), good, kTimeout, clock_);
  // The preceding probe has no certificate; the server rejects it after it has received everything it needs.
  EXPECT_TRUE(accepted) << accepted.error().message;

  const auto foreign = signed_by(test_authority(9), Role::kNode, "b");
  EXPECT_THAT(check_connection(server.address(), foreign, kTimeout, clock_).error().message,
              HasSubstr("belongs to another cluster"));
  const auto old =
      signed_by(authority_, {.role = Role::kNode, .name = "b", .now = clock_.wall() - 48h, .valid_for = 3600s});
  EXPECT_THAT(check_connection(server.address(), old, kTimeout, clock_).error().message,
              HasSubstr("our own certificate"));
}

TEST_F(Handshake, AnAlertIsReadOut) {
  const Authority other = test_authority(9);
  auto wants_others = head(authority_);
  wants_others.authority_pem = other.certificate_pem();
  const TlsServer server(wants_others, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT);
  const auto refused = check_connection(server.address(), signed_by(authority_, Role::kNode, "b"), kTimeout, clock_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnauthenticated);
  EXPECT_THAT(refused.error().message, HasSubstr("unknown CA"));
}

TEST(HostPortTest, TakesNamesAndBothKindsOfAddresses) {
  EXPECT_EQ(parse_host_port("10.0.0.1:6380")->host, "10.0.0.1");
  EXPECT_EQ(parse_host_port("[fd00::1]:6380")->host, "fd00::1");
  EXPECT_EQ(parse_host_port("node-3:06380")->port, "6380");
  for (const std::string bad : {"", "10.0.0.1", "10.0.0.1:", ":6380", "h:0", "h:65536", "h:-1", "h:6380x",
                                "fd00::1:6380", "a b:1", "[]:1", "h\n:1"}) {
    const auto parsed = parse_host_port(bad);
    ASSERT_FALSE(parsed) << bad;
    EXPECT_EQ(parsed.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(parsed.error().message, HasSubstr("HOST:PORT"));
  }
}

TEST(HostPortTest, ANameThatDoesNotExistIsNamed) {
  const auto reply = probe_authority("no-such-host.invalid:6380", 5s, SystemClock());
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(reply.error().message, HasSubstr("no-such-host.invalid"));
}

}  // namespace
}  // namespace volador::security
