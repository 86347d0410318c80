#include "runtime/net/fd_passing.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <thread>

namespace volador::net {
namespace {

std::pair<UniqueFd, UniqueFd> make_pair() {
  auto pair = seqpacket_pair();
  EXPECT_TRUE(pair.has_value());
  return std::move(*pair);
}

TEST(FdPassing, SmallAndEmptyMessagesArriveWhole) {
  const auto [left, right] = make_pair();
  ASSERT_TRUE(send_message(left.get(), "hello").has_value());
  ASSERT_TRUE(send_message(left.get(), "").has_value());
  EXPECT_EQ(recv_message(right.get())->bytes, "hello");
  EXPECT_EQ(recv_message(right.get())->bytes, "");
}

TEST(FdPassing, LargeMessagesTravelInAMemfdWithTheirDescriptors) {
  const auto [left, right] = make_pair();
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const UniqueFd read_end(ends[0]);
  UniqueFd write_end(ends[1]);
  for (const size_t size : {kMessageInlineBytesMax, kMessageInlineBytesMax + 1, size_t{16} << 20}) {
    std::string bytes(size, 'x');
    bytes.back() = 'y';
    const int fds[] = {write_end.get()};
    ASSERT_TRUE(send_message(left.get(), bytes, fds).has_value());
    auto message = recv_message(right.get());
    ASSERT_TRUE(message.has_value());
    EXPECT_EQ(message->bytes, bytes);
    ASSERT_EQ(message->fds.size(), 1U);
    EXPECT_NE(::fcntl(message->fds[0].get(), F_GETFD) & FD_CLOEXEC, 0);
    ASSERT_EQ(::write(message->fds[0].get(), "z", 1), 1);
    char got = 0;
    ASSERT_EQ(::read(read_end.get(), &got, 1), 1);
    EXPECT_EQ(got, 'z');
  }
}

TEST(FdPassing, WithoutAMessageTryReturnsNothing) {
  const auto [left, right] = make_pair();
  auto message = try_recv_message(right.get());
  ASSERT_TRUE(message.has_value());
  EXPECT_FALSE(message->has_value());
}

TEST(FdPassing, AClosedPeerIsUnavailableOnBothSides) {
  auto [left, right] = make_pair();
  right.reset();
  EXPECT_EQ(recv_message(left.get()).error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(send_message(left.get(), "x").error().code, ErrorCode::kUnavailable);
}

TEST(FdPassing, APeerThatDoesNotReadEndsTheWait) {
  const auto [left, right] = make_pair();
  const std::string bytes(kMessageInlineBytesMax, 'x');
  Result<void> sent;
  for (int i = 0; i < 1000 && sent; ++i) sent = send_message(left.get(), bytes, {}, std::chrono::milliseconds(10));
  ASSERT_FALSE(sent.has_value());
  EXPECT_EQ(sent.error().code, ErrorCode::kUnavailable);
}

TEST(FdPassing, LimitsAreRefusedBeforeAnythingIsSent) {
  const auto [left, right] = make_pair();
  const std::vector<int> many(kMessageFdsMax + 1, left.get());
  EXPECT_EQ(send_message(left.get(), "x", many).error().code, ErrorCode::kInvalidArgument);
  const std::string large(kMessageBytesMax + 1, 'x');
  EXPECT_EQ(send_message(left.get(), large).error().code, ErrorCode::kInvalidArgument);
  EXPECT_FALSE(try_recv_message(right.get())->has_value());
}

TEST(FdPassing, ForeignPacketsAreRefused) {
  const auto [left, right] = make_pair();
  ASSERT_EQ(::send(left.get(), "GET / HTTP/1.1\r\n\r\n", 18, 0), 18);
  EXPECT_EQ(recv_message(right.get()).error().code, ErrorCode::kInvalidArgument);
  ASSERT_EQ(::send(left.get(), "x", 1, 0), 1);
  EXPECT_EQ(recv_message(right.get()).error().code, ErrorCode::kInvalidArgument);
  // A header that announces 2^63 bytes in a missing memfd.
  const uint32_t parts[] = {0x31444656, 1, 0, 0x80000000};
  ASSERT_EQ(::send(left.get(), parts, sizeof parts, 0), static_cast<ssize_t>(sizeof parts));
  EXPECT_EQ(recv_message(right.get()).error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace volador::net
