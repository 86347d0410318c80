#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <thread>
#include <vector>

#include "runtime/clock.h"
#include "runtime/net/server_name.h"
#include "runtime/security/authority.h"
#include "runtime/security/keys.h"
#include "runtime/security/revocations.h"
#include "runtime/security/tls_context.h"
#include "tests/runtime/net/channel_fixture.h"

namespace volador::net {
namespace {

using namespace std::chrono_literals;
using security::Authority;
using security::Role;

const std::string kHost = "0123456789abcdef0123456789abcdef";
const std::string kOtherHost = "fedcba9876543210fedcba9876543210";

class TlsChannelTest : public ChannelTest {
 protected:
  TlsChannelTest() : now_(SystemClock().wall()), authority_(*Authority::create(ClusterId({1}), now_)) {
    listener_.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    EXPECT_EQ(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), length), 0);
    EXPECT_EQ(::listen(listener_.get(), 64), 0);
    EXPECT_EQ(::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &length), 0);
    port_ = ntohs(address.sin_port);
  }
  ~TlsChannelTest() override {
    if (acceptor_.joinable()) {
      ::shutdown(listener_.get(), SHUT_RDWR);
      acceptor_.join();
    }
  }

  std::shared_ptr<security::TlsContext> context(const Authority& authority, Role role, const std::string& name,
                                                WallTime now, std::chrono::seconds valid_for = 1h,
                                                const std::string& token_id = {}) {
    const auto key = security::make_key_request(role, name);
    EXPECT_TRUE(key.has_value());
    const auto certificate = authority.sign(
        key->csr_pem, {.role = role, .name = name, .token_id = token_id, .now = now, .valid_for = valid_for});
    EXPECT_TRUE(certificate.has_value()) << certificate.error().message;
    auto made = security::TlsContext::create(
        {.certificate_pem = *certificate, .key_pem = key->key_pem, .authority_pem = authority.certificate_pem()});
    EXPECT_TRUE(made.has_value()) << made.error().message;
    return *made;
  }
  std::shared_ptr<security::TlsContext> context(Role role, const std::string& name) {
    return context(authority_, role, name, now_);
  }

  // Serves like a host behind a worker's data port: peeks at the name, then hands the socket over.
  void serve_tls(std::shared_ptr<security::TlsContext> tls, ServerOptions options = {}) {
    options.tls = std::move(tls);
    serve(
        [](CallRequest request, const std::shared_ptr<Responder>& responder) {
          responder->reply(request.body == "who" ? responder->peer().identity : std::move(request.body));
        },
        std::move(options));
    acceptor_ = std::thread([this] {
      while (true) {
        UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
        if (!socket) return;
        if (peek_) {
          auto name = peek_server_name(socket.get());
          while (name && !*name) {
            pollfd wait{socket.get(), POLLIN, 0};
            ::poll(&wait, 1, 10);
            name = peek_server_name(socket.get());
          }
          EXPECT_EQ(name ? **name : name.error().message, kHost);
        }
        server_->adopt(std::move(socket), [this] { ++proved_; });
      }
    });
  }

  TlsEndpoint endpoint(std::shared_ptr<const security::TlsContext> tls) const {
    return {.host = "127.0.0.1", .port = port_, .server_name = kHost, .tls = std::move(tls)};
  }

  // Expects a rejection: the call ends without execution, or with an unknown outcome if TLS 1.3 let the client send
  // before it learned of the rejection.
  void expect_refused(std::shared_ptr<const security::TlsContext> tls, const std::string& reason) {
    Signal down;
    Error why;
    const auto connection = CallConnection::connect(*loop_, endpoint(std::move(tls)), {}, [&](Error error) {
      why = std::move(error);
      down.set();
    });
    const auto result = start_call(*connection, 1, "x").get();
    ASSERT_FALSE(result.has_value());
    EXPECT_EQ(result.error().code, ErrorCode::kUnavailable) << result.error().message;
    ASSERT_TRUE(down.wait());
    EXPECT_NE(why.message.find(reason), std::string::npos) << why.message;
  }

  std::atomic<int> proved_{0};
  const WallTime now_;
  Authority authority_;
  UniqueFd listener_;
  uint16_t port_ = 0;
  bool peek_ = true;
  std::thread acceptor_;
};

TEST_F(TlsChannelTest, CallsTravelBothWaysBetweenCertifiedProcesses) {
  serve_tls(context(Role::kHost, kHost));
  const auto connection = CallConnection::connect(*loop_, endpoint(context(Role::kDriver, "alice")));
  EXPECT_EQ(start_call(*connection, 1, "who").get(), "driver alice");
  uint64_t id = 1;
  for (const size_t size : {size_t{0}, size_t{100}, size_t{16} << 10, size_t{1} << 20, size_t{40} << 20}) {
    const std::string body(size, 'b');
    const auto result = start_call(*connection, ++id, body).get();
    ASSERT_TRUE(result.has_value()) << result.error().message;
    EXPECT_TRUE(*result == body) << size;
  }
}

TEST_F(TlsChannelTest, ManyCallersShareATlsConnection) {
  serve_tls(context(Role::kHost, kHost));
  const auto connection = CallConnection::connect(*loop_, endpoint(context(Role::kHost, kOtherHost)));
  std::atomic<uint64_t> next_id{1};
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < 16; ++i) {
    callers.emplace_back([&] {
      for (int k = 0; k < 50; ++k) {
        const uint64_t id = next_id++;
        const std::string body = std::to_string(id) + std::string(id * 97 % 40'000, 'x');
        if (start_call(*connection, id, body).get() != body) ++wrong;
      }
    });
  }
  for (auto& caller : callers) caller.join();
  EXPECT_EQ(wrong.load(), 0);
  std::vector<PendingResult> results;
  for (int i = 0; i < 5000; ++i) results.push_back(start_call(*connection, next_id++, "small"));
  for (const auto& result : results) ASSERT_EQ(result.get(), "small");
}

TEST_F(TlsChannelTest, ALostConnectionIsNoticed) {
  serve_tls(context(Role::kHost, kHost));
  Signal down;
  const auto connection =
      CallConnection::connect(*loop_, endpoint(context(Role::kNode, "node-b")), {}, [&](const Error&) { down.set(); });
  EXPECT_TRUE(start_call(*connection, 1, "x").get().has_value());
  server_->close();
  EXPECT_TRUE(down.wait());
  EXPECT_EQ(start_call(*connection, 2, "x").get().error().code, ErrorCode::kUnavailable);
}

TEST_F(TlsChannelTest, AnotherHostsCertificateIsRefused) {
  serve_tls(context(Role::kHost, kOtherHost));
  expect_refused(context(Role::kDriver, "alice"), "certificate");
}

TEST_F(TlsChannelTest, ADriverMayNotPoseAsAHost) {
  serve_tls(context(Role::kDriver, kHost));
  expect_refused(context(Role::kDriver, "alice"), "");
}

TEST_F(TlsChannelTest, ACallerOfAnotherClusterIsRefused) {
  const Authority other = *Authority::create(ClusterId({2}), now_);
  serve_tls(context(Role::kHost, kHost));
  expect_refused(context(other, Role::kDriver, "mallory", now_), "");
  EXPECT_TRUE(eventually([&] { return server_->connections() == 0; }));
}

TEST_F(TlsChannelTest, AHostOfAnotherClusterIsRefused) {
  const Authority other = *Authority::create(ClusterId({2}), now_);
  serve_tls(context(other, Role::kHost, kHost, now_));
  expect_refused(context(Role::kDriver, "alice"), "certificate");
}

TEST_F(TlsChannelTest, ExpiredCertificatesAreRefusedOnBothSides) {
  serve_tls(context(authority_, Role::kHost, kHost, now_ - 48h));
  expect_refused(context(Role::kDriver, "alice"), "expired");
}

TEST_F(TlsChannelTest, ACallerProvesItselfOnceByItsCertificate) {
  serve_tls(context(Role::kHost, kHost));
  const auto connection = CallConnection::connect(*loop_, endpoint(context(Role::kDriver, "alice")));
  EXPECT_EQ(start_call(*connection, 1, "x").get(), "x");
  EXPECT_TRUE(eventually([&] { return proved_ == 1; }));
  expect_refused(context(authority_, Role::kDriver, "bob", now_ - 48h), "");
  EXPECT_EQ(start_call(*connection, 2, "y").get(), "y");
  EXPECT_EQ(proved_, 1);
}

TEST_F(TlsChannelTest, AnExpiredCallerIsRefused) {
  serve_tls(context(Role::kHost, kHost));
  expect_refused(context(authority_, Role::kDriver, "alice", now_ - 48h), "");
}

TEST_F(TlsChannelTest, ACallerWhoseTokenIsRevokedIsCutOffAndLetInNoMore) {
  const auto host = context(Role::kHost, kHost);
  serve_tls(host);
  const auto revoked = context(authority_, Role::kDriver, "alice", now_, 1h, "t1");
  Signal down;
  const auto connection = CallConnection::connect(*loop_, endpoint(revoked), {}, [&](const Error&) { down.set(); });
  const auto other =
      CallConnection::connect(*loop_, endpoint(context(authority_, Role::kDriver, "bob", now_, 1h, "t2")));
  EXPECT_EQ(start_call(*connection, 1, "who").get(), "driver alice");
  EXPECT_EQ(start_call(*other, 1, "who").get(), "driver bob");

  host->revocations().revoke_token("t1");
  server_->check_peers();
  ASSERT_TRUE(down.wait());
  EXPECT_TRUE(eventually([&] { return server_->connections() == 1; }));
  expect_refused(revoked, "");
  EXPECT_EQ(start_call(*other, 2, "x").get(), "x") << "the others go on";
}

TEST_F(TlsChannelTest, StrangersAndIdleConnectionsOnTheDataPortAreClosed) {
  peek_ = false;
  serve_tls(context(Role::kHost, kHost), {.handshake_timeout = 100ms});
  for (const std::string& bytes :
       {std::string(), std::string("GET / HTTP/1.1\r\n\r\n"), std::string("\x16\x03\x01\x02\x00\x01", 6)}) {
    const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port_);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ASSERT_EQ(::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    ::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    char buffer[256];
    pollfd wait{fd.get(), POLLIN, 0};
    while (::poll(&wait, 1, 20'000) > 0 && ::recv(fd.get(), buffer, sizeof buffer, 0) > 0) {
    }
    EXPECT_TRUE(eventually([&] { return server_->connections() == 0; }));
  }
  const auto connection = CallConnection::connect(*loop_, endpoint(context(Role::kDriver, "alice")));
  EXPECT_EQ(start_call(*connection, 1, "fine").get(), "fine");
}

TEST_F(TlsChannelTest, WithoutACertificateASocketIsNotAdopted) {
  serve_echo();
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  const UniqueFd left(ends[0]);
  server_->adopt(UniqueFd(ends[1]));
  char byte = 0;
  EXPECT_EQ(::recv(left.get(), &byte, 1, 0), 0);
}

}  // namespace
}  // namespace volador::net
