#include "cli/port_owner.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

namespace volador::cli {
namespace {

using ::testing::HasSubstr;

TEST(PortOwner, NamesTheProcessThatListens) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  ASSERT_EQ(::listen(fd, 1), 0);
  socklen_t size = sizeof address;
  ASSERT_EQ(::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
  const uint16_t port = ntohs(address.sin_port);

  EXPECT_THAT(port_owner(port).value_or(""), HasSubstr(std::to_string(::getpid())));
  auto taken = check_port_free("127.0.0.1", port);
  ASSERT_FALSE(taken);
  EXPECT_THAT(taken.error().message, HasSubstr("is in use by process " + std::to_string(::getpid())));
  EXPECT_THAT(taken.error().message, HasSubstr("--port"));
  ::close(fd);
  EXPECT_TRUE(check_port_free("127.0.0.1", port));
  EXPECT_FALSE(port_owner(port));
}

TEST(PortOwner, AddressesOfOtherMachinesAreRefused) {
  EXPECT_EQ(check_port_free("192.0.2.1", 0).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(check_port_free("nowhere", 0).error().code, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(check_port_free("127.0.0.1", 0));
}

}  // namespace
}  // namespace volador::cli
