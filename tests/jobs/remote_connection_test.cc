// Connections of users to ports of the machine of a rank.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <future>
#include <optional>
#include <string>
#include <utility>

#include "jobs/rank_process.h"
#include "jobs/remote/remote_commands.h"
#include "runtime/net/unique_fd.h"

namespace volador::jobs {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

class UserConnectionTest : public testing::Test {
 protected:
  void SetUp() override {
    listener_.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    ASSERT_EQ(::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), size), 0);
    ASSERT_EQ(::listen(listener_.get(), 8), 0);
    ASSERT_EQ(::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
    commands_.emplace(surroundings_, RemoteCommands::Limits{.connections = 2});
  }

  Result<void> start(const std::string& id = "c") {
    return commands_->start({.id = id, .command_line = {}, .by_user = true, .port = port_});
  }
  net::UniqueFd accepted() const { return net::UniqueFd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)); }
  // The output until the connection has ended, whose code is in code_.
  std::string read_all() {
    std::string output;
    while (!code_) {
      std::promise<RemoteCommands::Events> given;
      commands_->take("c", [&](RemoteCommands::Events events) { given.set_value(std::move(events)); });
      const auto events = given.get_future().get();
      if (events.empty()) break;
      for (const RemoteEvent& event : events) {
        if (event.kind == RemoteEvent::kOutput) output += event.bytes.data;
        if (event.kind == RemoteEvent::kEnded) code_ = event.code;
      }
    }
    return output;
  }
  static std::string receive_all(const net::UniqueFd& socket) {
    std::string received;
    std::array<char, 65536> part{};
    for (ssize_t got = 0; (got = ::read(socket.get(), part.data(), part.size())) > 0;)
      received.append(part.data(), static_cast<size_t>(got));
    return received;
  }

  RankSurroundings surroundings_{.job = "job-1", .rank = 0};
  net::UniqueFd listener_;
  int port_ = 0;
  std::optional<RemoteCommands> commands_;
  std::optional<int> code_;
};

TEST_F(UserConnectionTest, BytesPassInBothDirectionsUntilTheServerCloses) {
  ASSERT_TRUE(start());
  const std::string much(3 << 20, 'x');
  auto served = std::async(std::launch::async, [&] {
    const net::UniqueFd server = accepted();
    const std::string received = receive_all(server);  // Until the end of the input.
    std::string_view left = much;
    while (!left.empty()) {
      const ssize_t wrote = ::write(server.get(), left.data(), left.size());
      if (wrote <= 0) break;
      left.remove_prefix(static_cast<size_t>(wrote));
    }
    return received;
  });
  ASSERT_TRUE(commands_->offer("c", "GET /", false));
  ASSERT_TRUE(commands_->offer("c", " now", true));
  EXPECT_EQ(read_all(), much);
  EXPECT_EQ(code_, 0);
  EXPECT_EQ(served.get(), "GET / now");
}

TEST_F(UserConnectionTest, ABrokenConnectionEndsWithCodeOne) {
  ASSERT_TRUE(start());
  {
    const net::UniqueFd server = accepted();
    const linger at_once{.l_onoff = 1, .l_linger = 0};
    ASSERT_EQ(::setsockopt(server.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
  }
  EXPECT_EQ(read_all(), "");
  EXPECT_EQ(code_, 1);
}

TEST_F(UserConnectionTest, TheServerSeesTheEndOfACallerThatIsGone) {
  ASSERT_TRUE(start());
  const net::UniqueFd server = accepted();
  commands_->abandon("c");
  EXPECT_EQ(receive_all(server), "");
  EXPECT_EQ(read_all(), "");
}

TEST_F(UserConnectionTest, APortWithoutAServerIsRefusedAtOnce) {
  listener_.reset();
  const auto started = start();
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(started.error().message, HasSubstr("nothing listens on port " + std::to_string(port_)));
}

TEST_F(UserConnectionTest, ThereIsALimit) {
  ASSERT_TRUE(start("a"));
  ASSERT_TRUE(start("b"));
  const auto third = start("c");
  ASSERT_FALSE(third);
  EXPECT_THAT(third.error().message, HasSubstr("2 connections that users started"));
}

TEST_F(UserConnectionTest, TheEndOfTheRankClosesThem) {
  ASSERT_TRUE(start());
  const net::UniqueFd server = accepted();
  commands_.reset();
  EXPECT_EQ(receive_all(server), "");
}

}  // namespace
}  // namespace volador::jobs
