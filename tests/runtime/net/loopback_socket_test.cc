#include "runtime/net/loopback_socket.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <string>
#include <thread>

namespace volador::net {
namespace {

TEST(LoopbackSocket, CarriesAllBytesToAReaderThatIsSlower) {
  const auto listener = listen_on_loopback(0);
  ASSERT_TRUE(listener) << listener.error().message;
  const uint16_t port = port_of(*listener);
  EXPECT_NE(port, 0);
  const std::string sent(size_t{8} << 20, 'x');
  std::thread sends([&] { EXPECT_TRUE(send_all(connect_to_loopback(port).get(), sent)); });
  const UniqueFd server(::accept4(listener->get(), nullptr, nullptr, SOCK_CLOEXEC));
  size_t got = 0;
  std::string piece(size_t{64} << 10, '\0');
  for (ssize_t count; (count = ::recv(server.get(), piece.data(), piece.size(), 0)) > 0;)
    got += static_cast<size_t>(count);
  sends.join();
  EXPECT_EQ(got, sent.size());
}

TEST(LoopbackSocket, SendingEndsWherePeerIsGoneOrDoesNotRead) {
  const auto listener = listen_on_loopback(0);
  ASSERT_TRUE(listener);
  const std::string much(size_t{16} << 20, 'x');
  const UniqueFd client = connect_to_loopback(port_of(*listener));
  const timeval most{.tv_sec = 0, .tv_usec = 50'000};
  ASSERT_EQ(::setsockopt(client.get(), SOL_SOCKET, SO_SNDTIMEO, &most, sizeof most), 0);
  EXPECT_FALSE(send_all(client.get(), much));  // Its bytes are not read.
  UniqueFd(::accept4(listener->get(), nullptr, nullptr, SOCK_CLOEXEC)).reset();
  EXPECT_FALSE(send_all(client.get(), much));  // No SIGPIPE.
}

TEST(LoopbackSocket, NamesThePortThatCannotBeOpened) {
  const auto listener = listen_on_loopback(0);
  ASSERT_TRUE(listener);
  const uint16_t port = port_of(*listener);
  const auto again = listen_on_loopback(port);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(again.error().message,
            "port " + std::to_string(port) + " of 127.0.0.1 cannot be opened: Address already in use");
}

TEST(LoopbackSocket, NothingConnectsToAFreePort) {
  const auto port = free_loopback_port();
  ASSERT_TRUE(port) << port.error().message;
  EXPECT_FALSE(connect_to_loopback(*port));
  EXPECT_TRUE(listen_on_loopback(*port));
}

}  // namespace
}  // namespace volador::net
