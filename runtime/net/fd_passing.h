// Whole messages with file descriptors between processes of one machine, over SOCK_SEQPACKET Unix sockets.
//
// A message of up to 64 KiB is sent in the packet; a larger one in a memfd whose descriptor is sent instead. Usable
// right after fork(): no threads, locks or globals.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/net/unique_fd.h"
#include "runtime/result.h"

namespace volador::net {

inline constexpr size_t kMessageBytesMax = size_t{64} << 20;        // Per message.
inline constexpr size_t kMessageInlineBytesMax = size_t{64} << 10;  // Larger messages use a memfd.
inline constexpr size_t kMessageFdsMax = 64;                        // Descriptors per message.

// A received message with its descriptors.
struct FdMessage {
  std::string bytes;
  std::vector<UniqueFd> fds;  // Close-on-exec, in the order they were sent.
};

// Two connected ends, close-on-exec, blocking.
[[nodiscard]] Result<std::pair<UniqueFd, UniqueFd>> seqpacket_pair();

// Sends all or nothing; the caller keeps the descriptors. Waits up to `patience` on a full socket, blocking or not.
// Several threads may send on one socket: messages do not mix. kInvalidArgument: above kMessageBytesMax or
// kMessageFdsMax. kUnavailable: the peer is gone or did not read in time.
[[nodiscard]] Result<void> send_message(int fd, std::string_view bytes, std::span<const int> fds = {},
                                        std::chrono::milliseconds patience = std::chrono::seconds(5));

// Waits for the next message, also on a non-blocking socket. One thread at a time. kUnavailable: the peer closed its
// end. kInvalidArgument: not a message of send_message; close the socket.
[[nodiscard]] Result<FdMessage> recv_message(int fd);

// As recv_message() without waiting: nullopt if there is no message. For poll and epoll loops.
[[nodiscard]] Result<std::optional<FdMessage>> try_recv_message(int fd);

}  // namespace volador::net
