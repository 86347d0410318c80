#include "worker/shell/data_port.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <future>
#include <mutex>
#include <thread>
#include <vector>

#include "runtime/random.h"
#include "worker/shell/node_identity.h"

namespace volador::worker {
namespace {

using namespace std::chrono_literals;

// A hand-made TLS client hello for `name`: version, random, one cipher suite, no compression, server name.
std::string client_hello(const std::string& name) {
  const auto two = [](size_t n) { return std::string{static_cast<char>(n >> 8), static_cast<char>(n & 0xff)}; };
  const std::string entry = std::string(1, '\0') + two(name.size()) + name;
  const std::string list = two(entry.size()) + entry;
  const std::string extension = std::string(2, '\0') + two(list.size()) + list;
  const std::string body = std::string("\x03\x03") + std::string(32, 'r') + std::string(1, '\0') + two(2) +
                           std::string("\x13\x01") + std::string("\x01") + std::string(1, '\0') +
                           two(extension.size()) + extension;
  const std::string message = std::string("\x01") + std::string(1, '\0') + two(body.size()) + body;
  return std::string("\x16\x03\x01") + two(message.size()) + message;
}

const net::AdmissionLimits kFew{.connections = 4, .hello_time = 300ms, .crowded_time = 10ms, .proof_time = 300ms};

class DataPortTest : public ::testing::Test {
 protected:
  DataPortTest() {
    loop_ = std::move(*net::IoLoop::create("test"));
    port_ = std::move(*DataPort::create(*loop_, clock_, {.strangers = kFew},
                                        [this](HostId host, net::UniqueFd fd, uint64_t number) -> Result<void> {
                                          const std::lock_guard guard(mutex_);
                                          if (host != known_) return make_error(ErrorCode::kNotFound, "no such host");
                                          adopted_.push_back(std::move(fd));
                                          numbers_.push_back(number);
                                          return {};
                                        }));
  }
  ~DataPortTest() override { port_.reset(); }

  net::UniqueFd dial() {
    const auto peer = *parse_host_port(port_->address());
    net::UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(peer.port);
    ::inet_pton(AF_INET, peer.host.c_str(), &address.sin_addr);
    EXPECT_EQ(::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    return fd;
  }
  static void write_all(const net::UniqueFd& fd, const std::string& bytes) {
    EXPECT_EQ(::send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }
  // Returns whether the peer closed within 5 s.
  static bool closed(const net::UniqueFd& fd) {
    pollfd wait{fd.get(), POLLIN | POLLRDHUP, 0};
    char byte = 0;
    return ::poll(&wait, 1, 5000) == 1 && ::recv(fd.get(), &byte, 1, MSG_DONTWAIT) <= 0;
  }
  static uint16_t own_port(const net::UniqueFd& fd) { return port_of(fd, ::getsockname); }
  static uint16_t peer_port(const net::UniqueFd& fd) { return port_of(fd, ::getpeername); }
  static uint16_t port_of(const net::UniqueFd& fd, int (*name)(int, sockaddr*, socklen_t*)) {
    sockaddr_in address{};
    socklen_t size = sizeof address;
    EXPECT_EQ(name(fd.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    return ntohs(address.sin_port);
  }
  bool wait_adopted(size_t count) {
    for (int i = 0; i < 500; ++i) {
      {
        const std::lock_guard guard(mutex_);
        if (adopted_.size() >= count) return true;
      }
      std::this_thread::sleep_for(10ms);
    }
    return false;
  }

  SystemClock clock_;
  SeededRandom random_{3};
  const HostId known_ = new_id<HostId>(random_);
  std::mutex mutex_;
  std::vector<net::UniqueFd> adopted_;
  std::vector<uint64_t> numbers_;
  std::unique_ptr<net::IoLoop> loop_;
  std::unique_ptr<DataPort> port_;
};

TEST_F(DataPortTest, TheSocketReachesItsHostWithTheHelloStillOnIt) {
  const auto fd = dial();
  const std::string hello = client_hello(to_string(known_));
  write_all(fd, hello);
  ASSERT_TRUE(wait_adopted(1));
  std::string got(hello.size(), '\0');
  EXPECT_EQ(::recv(adopted_[0].get(), got.data(), got.size(), MSG_WAITALL), static_cast<ssize_t>(hello.size()));
  EXPECT_EQ(got, hello);
}

TEST_F(DataPortTest, AHelloInPiecesIsWaitedFor) {
  const auto fd = dial();
  const std::string hello = client_hello(to_string(known_));
  for (size_t at = 0; at < hello.size(); at += 40) {
    write_all(fd, hello.substr(at, 40));
    std::this_thread::sleep_for(30ms);
  }
  EXPECT_TRUE(wait_adopted(1));
}

TEST_F(DataPortTest, OthersAreClosed) {
  const auto unknown = dial();
  write_all(unknown, client_hello(to_string(new_id<HostId>(random_))));
  EXPECT_TRUE(closed(unknown));
  const auto no_id = dial();
  write_all(no_id, client_hello("example.org"));
  EXPECT_TRUE(closed(no_id));
  const auto no_tls = dial();
  write_all(no_tls, "GET / HTTP/1.1\r\nHost: here\r\n\r\n");
  EXPECT_TRUE(closed(no_tls));
  EXPECT_TRUE(adopted_.empty());
}

TEST_F(DataPortTest, SilentOnesAreClosedInTime) {
  const auto fd = dial();
  const auto before = std::chrono::steady_clock::now();
  EXPECT_TRUE(closed(fd));
  EXPECT_LT(std::chrono::steady_clock::now() - before, 2s);
}

TEST_F(DataPortTest, TooManySilentOnesPushTheOldestOut) {
  std::vector<net::UniqueFd> silent;
  for (int i = 0; i < 5; ++i) silent.push_back(dial());
  EXPECT_TRUE(closed(silent[0]));
  const auto fd = dial();
  write_all(fd, client_hello(to_string(known_)));
  EXPECT_TRUE(wait_adopted(1));
}

TEST_F(DataPortTest, ConnectionsWhosePeersDoNotProveThemselvesEnd) {
  const auto silent = dial();
  write_all(silent, client_hello(to_string(known_)));
  const auto proves = dial();
  write_all(proves, client_hello(to_string(known_)));
  ASSERT_TRUE(wait_adopted(2));
  {
    const std::lock_guard guard(mutex_);
    const bool first = peer_port(adopted_[0]) == own_port(proves);
    port_->on_proved(numbers_[first ? 0 : 1]);
  }
  EXPECT_TRUE(closed(silent));
  pollfd wait{proves.get(), POLLRDHUP, 0};
  EXPECT_EQ(::poll(&wait, 1, 300), 0);
}

TEST_F(DataPortTest, RunningOutOfDescriptorsIsSurvived) {
#ifdef VOLADOR_SANITIZED
  GTEST_SKIP() << "not run: the undefined-behaviour sanitizer needs descriptors itself to look at an object's type";
#endif
  rlimit before{};
  ::getrlimit(RLIMIT_NOFILE, &before);
  std::vector<net::UniqueFd> callers;
  for (int i = 0; i < 2; ++i) callers.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const rlimit low{static_cast<rlim_t>(callers.back().get() + 1), before.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &low);
  const auto peer = *parse_host_port(port_->address());
  for (const auto& fd : callers) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(peer.port);
    ::inet_pton(AF_INET, peer.host.c_str(), &address.sin_addr);
    ::connect(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address);
  }
  EXPECT_TRUE(closed(callers[0]));
  ::setrlimit(RLIMIT_NOFILE, &before);
  const auto fd = dial();
  write_all(fd, client_hello(to_string(known_)));
  EXPECT_TRUE(wait_adopted(1));
}

TEST(DataPort, AddressesThatCannotBeListenedOnAreNamed) {
  const auto loop = std::move(*net::IoLoop::create("test"));
  const SystemClock clock;
  const auto nobody = [](HostId, net::UniqueFd, uint64_t) -> Result<void> { return {}; };
  EXPECT_EQ(DataPort::create(*loop, clock, {.bind_address = "somewhere"}, nobody).error().code,
            ErrorCode::kInvalidArgument);
  EXPECT_NE(DataPort::create(*loop, clock, {.bind_address = "192.0.2.1"}, nobody)
                .error()
                .message.find("not an address of this machine"),
            std::string::npos);
  const auto first = DataPort::create(*loop, clock, {}, nobody);
  ASSERT_TRUE(first);
  const auto taken = parse_host_port((*first)->address())->port;
  EXPECT_NE(DataPort::create(*loop, clock, {.port = taken}, nobody).error().message.find("choose another port"),
            std::string::npos);
}

}  // namespace
}  // namespace volador::worker
