// Peers that send invalid data, do not read, or exhaust the descriptors.
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <filesystem>
#include <random>
#include <thread>
#include <vector>

#include "runtime/net/frame.h"
#include "tests/runtime/net/channel_fixture.h"

namespace volador::net {
namespace {

using namespace std::chrono_literals;

UniqueFd raw_connect(const std::string& path) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::snprintf(address.sun_path, sizeof address.sun_path, "%s", path.c_str());
  EXPECT_EQ(::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  return fd;
}

void send_bytes(const UniqueFd& fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n <= 0) return;
    bytes.remove_prefix(static_cast<size_t>(n));
  }
}

// Returns true if the server closed; reads what it sent before.
bool closed_by_server(const UniqueFd& fd) {
  std::string buffer(1 << 16, '\0');
  while (true) {
    pollfd wait{fd.get(), POLLIN, 0};
    if (::poll(&wait, 1, 20'000) <= 0) return false;
    if (::recv(fd.get(), buffer.data(), buffer.size(), 0) <= 0) return true;
  }
}

std::string hello() {
  std::string bytes;
  put_hello(bytes, {.window = {.calls = 1, .bytes = 1}, .caller = {}});
  return bytes;
}

class HostilePeerTest : public ChannelTest {
 protected:
  void expect_service() {
    const auto connection = connect();
    EXPECT_EQ(start_call(*connection, 1, "well").get(), "well");
  }
};

TEST_F(HostilePeerTest, StrangersAreClosedAndOthersServed) {
  serve_echo();
  std::string wrong_length = hello() + std::string(kFrameHeaderBytes, '\xff');
  std::string replies_to_host = hello();
  put_reply_header(replies_to_host, 1, 0);
  std::string same_id_twice = hello();
  put_call_header(same_id_twice, {.request_id = 1});
  for (const std::string& bytes :
       {std::string("GET / HTTP/1.1\r\nHost: x\r\n\r\n"), std::string(64 << 10, '\0'), wrong_length, replies_to_host,
        std::string("\x16\x03\x01\x02\x00\x01", 6) + std::string(20, 'x')}) {
    const UniqueFd fd = raw_connect(path());
    send_bytes(fd, bytes);
    EXPECT_TRUE(closed_by_server(fd));
  }
  expect_service();
  EXPECT_TRUE(eventually([&] { return server_->connections() == 0; }));
}

TEST_F(HostilePeerTest, RandomBytesAfterAHelloNeverHurtOthers) {
  serve_echo();
  std::mt19937_64 random(1);
  for (int i = 0; i < 200; ++i) {
    const UniqueFd fd = raw_connect(path());
    std::string bytes = i % 2 == 0 ? hello() : "";
    for (size_t n = random() % 300; n > 0; --n) bytes += static_cast<char>(random());
    send_bytes(fd, bytes);
  }
  expect_service();
  EXPECT_TRUE(eventually([&] { return server_->connections() == 0; }));
}

TEST_F(HostilePeerTest, WithoutAHelloInTimeAConnectionIsClosed) {
  serve_echo({.handshake_timeout = 50ms});
  const UniqueFd silent = raw_connect(path());
  const UniqueFd slow = raw_connect(path());
  send_bytes(slow, hello().substr(0, 20));
  EXPECT_TRUE(closed_by_server(silent));
  EXPECT_TRUE(closed_by_server(slow));
  expect_service();
}

TEST_F(HostilePeerTest, SilentConnectionsDoNotKeepOthersOut) {
  serve_echo({.handshakes_max = 8});
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 50; ++i) silent.push_back(raw_connect(path()));
  expect_service();
  EXPECT_TRUE(closed_by_server(silent.front()));
  EXPECT_TRUE(eventually([&] { return server_->connections() <= 9; }));
}

TEST_F(HostilePeerTest, ConnectionsAboveTheLimitAreClosed) {
  serve_echo({.connections_max = 2});
  const auto first = connect();
  const auto second = connect();
  EXPECT_TRUE(start_call(*first, 1, "").get().has_value());
  EXPECT_TRUE(start_call(*second, 1, "").get().has_value());
  EXPECT_TRUE(closed_by_server(raw_connect(path())));
}

TEST_F(HostilePeerTest, ACallerThatDoesNotReadStopsBeingServedAndIsNotBuffered) {
  constexpr size_t kReplyBytes = 256 << 10;
  const auto answered = std::make_shared<std::atomic<size_t>>(0);  // Received calls are answered after the test.
  serve(
      [answered](const CallRequest&, const std::shared_ptr<Responder>& responder) {
        ++*answered;
        responder->reply(std::string(kReplyBytes, 'x'));
      },
      {.replies_bytes_aim = 1 << 20, .replies_bytes_max = 4 << 20});
  const UniqueFd fd = raw_connect(path());
  ASSERT_EQ(::fcntl(fd.get(), F_SETFL, O_NONBLOCK), 0);
  std::string calls = hello();
  for (uint64_t id = 1; id <= 100'000; ++id) put_call_header(calls, {.request_id = id});
  std::string_view rest = calls;
  bool stuck = false;
  while (!rest.empty() && !stuck) {
    const ssize_t n = ::send(fd.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (n > 0) {
      rest.remove_prefix(static_cast<size_t>(n));
    } else {
      pollfd wait{fd.get(), POLLOUT, 0};
      stuck = ::poll(&wait, 1, 500) == 0;
    }
  }
  EXPECT_TRUE(stuck);                    // The server stops reading, so the calls stay with the caller.
  EXPECT_LT(answered->load(), 10'000U);  // The calls of one read; beyond 4 MiB their results were dropped.
  const auto connection = connect();
  EXPECT_TRUE(start_call(*connection, 1, "").get().has_value());
}

TEST_F(HostilePeerTest, AServerThatNeverAnswersBoundsWhatItsCallersHold) {
  const UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::snprintf(address.sun_path, sizeof address.sun_path, "%s", path().c_str());
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(::listen(listener.get(), 5), 0);
  const auto connection = connect({.waiting_calls_max = 1000, .waiting_bytes_max = 1 << 20, .connect_timeout = 200ms});
  std::vector<PendingResult> results;
  for (uint64_t id = 1; id <= 1500; ++id) results.push_back(start_call(*connection, id, "x"));
  for (size_t i = 0; i < results.size(); ++i) {
    const auto result = results[i].get();
    ASSERT_FALSE(result.has_value());
    EXPECT_EQ(result.error().code, ErrorCode::kUnavailable);
    const bool refused = result.error().message.find("limit 1000 calls") != std::string::npos;
    EXPECT_EQ(refused, i >= 1000) << result.error().message;
  }
}

TEST_F(HostilePeerTest, AHostThatBreaksTheProtocolEndsTheConnectionOnly) {
  const UniqueFd listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::snprintf(address.sun_path, sizeof address.sun_path, "%s", path().c_str());
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(::listen(listener.get(), 5), 0);
  Signal down;
  const auto connection = connect({}, [&](const Error&) { down.set(); });
  const auto result = start_call(*connection, 1, "x");
  const UniqueFd host(::accept(listener.get(), nullptr, nullptr));
  std::string bytes;
  put_hello(bytes, {.window = {.calls = 10, .bytes = 1000}, .caller = {}});
  send_bytes(host, bytes);
  std::string read(hello().size() + kFrameHeaderBytes + kCallHeaderBytes + 1, '\0');
  ASSERT_EQ(::recv(host.get(), read.data(), read.size(), MSG_WAITALL), static_cast<ssize_t>(read.size()));
  send_bytes(host, std::string(100, '\xee'));
  EXPECT_EQ(result.get().error().code, ErrorCode::kUnknownOutcome);
  EXPECT_TRUE(down.wait());
}

// Runs in its own process and lowers its limit.
[[noreturn]] void run_out_of_descriptors(const std::string& path) {
  const auto fail = [](const char* what) {
    std::fprintf(stderr, "%s\n", what);
    std::_Exit(1);
  };
  auto loop = IoLoop::create();
  auto server = CallServer::create(**loop, {.unix_path = path},
                                   each_call([](CallRequest request, const std::shared_ptr<Responder>& responder) {
                                     responder->reply(std::move(request.body));
                                   }));
  if (!server) fail(server.error().message.c_str());
  std::vector<UniqueFd> callers;
  for (int i = 0; i < 60; ++i) callers.emplace_back(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const auto next = static_cast<rlim_t>(callers.back().get()) + 1;
  const rlimit limit{next + 10, next + 10};
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) fail("setrlimit");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::snprintf(address.sun_path, sizeof address.sun_path, "%s", path.c_str());
  int refused = 0;
  int served = 0;
  for (const UniqueFd& fd : callers) {
    if (::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) fail("connect");
  }
  for (const UniqueFd& fd : callers) {
    char byte = 0;
    const ssize_t n = ::recv(fd.get(), &byte, 1, 0);  // The server's hello, or the end of the stream.
    ++(n == 1 ? served : refused);
  }
  if (served == 0 || refused == 0) fail("expected some callers to be served and some refused");
  callers.clear();
  const auto connection = CallConnection::connect(**loop, UnixEndpoint{path});
  if (start_call(*connection, 1, "again").get() != "again") fail("no service after the shortage");
  connection->close();
  (*server)->close();
  std::filesystem::remove_all(std::filesystem::path(path).parent_path());  // No destructor of the fixture runs here.
  std::_Exit(0);
}

TEST_F(HostilePeerTest, OutOfDescriptorsCallersAreRefusedUntilSomeAreFree) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the sanitizer's own check of virtual calls opens a pipe, for which this test leaves no descriptors";
#endif
  ::testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(run_out_of_descriptors(path()), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace volador::net
