#include "runtime/net/fd_passing.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>

#include "runtime/quantities.h"

namespace volador::net {
namespace {

constexpr uint32_t kFdMagic = 0x31444656;  // "VFD1" in memory.
enum class Carrier : uint32_t { kInline = 0, kMemfd = 1 };

struct PacketHeader {
  uint32_t magic = kFdMagic;
  Carrier carrier = Carrier::kInline;
  uint64_t bytes = 0;
};
static_assert(sizeof(PacketHeader) == 16);

constexpr size_t kUsualBytes = size_t{4} << 10;  // Most messages are smaller.

std::string reason(int error) { return std::strerror(error); }

Result<void> write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) {
      return make_error(ErrorCode::kUnavailable, fmt::format("memfd for a message of {}: write: {}",
                                                             counted(bytes.size(), "byte"), reason(errno)));
    }
    bytes.remove_prefix(static_cast<size_t>(n));
  }
  return {};
}

Result<UniqueFd> to_memfd(std::string_view bytes) {
  UniqueFd fd(::memfd_create("volador-message", MFD_CLOEXEC));
  if (!fd) {
    return make_error(ErrorCode::kUnavailable,
                      fmt::format("memfd for a message of {}: {}", counted(bytes.size(), "byte"), reason(errno)));
  }
  VOLADOR_TRY(write_all(fd.get(), bytes));
  return fd;
}

// The size is checked against the file before allocation; a file that shrinks meanwhile is an error.
Result<std::string> from_memfd(int fd, uint64_t size) {
  struct stat info {};
  if (::fstat(fd, &info) != 0 || !S_ISREG(info.st_mode) || info.st_size < 0 ||
      static_cast<uint64_t>(info.st_size) != size) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("message: its memfd does not hold the {} bytes that its header says", size));
  }
  std::string bytes(size, '\0');
  size_t at = 0;
  while (at < bytes.size()) {
    const ssize_t n = ::pread(fd, bytes.data() + at, bytes.size() - at, static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return make_error(ErrorCode::kInvalidArgument, "message: its memfd ended early");
    at += static_cast<size_t>(n);
  }
  return bytes;
}

Result<void> wait_for(int fd, short events, int timeout_ms) {
  pollfd wait{fd, events, 0};
  while (true) {
    const int ready = ::poll(&wait, 1, timeout_ms);
    if (ready > 0) return {};
    if (ready == 0) {
      return make_error(ErrorCode::kUnavailable, fmt::format("message: the peer did not read for {} ms", timeout_ms));
    }
    if (errno != EINTR) return make_error(ErrorCode::kInternal, fmt::format("poll: {}", reason(errno)));
  }
}

using ControlBuffer = std::array<char, CMSG_SPACE(sizeof(int) * (kMessageFdsMax + 1))>;

Result<void> send_packet(int fd, const PacketHeader& header, std::string_view bytes, std::span<const int> fds,
                         int patience_ms) {
  iovec parts[2] = {{const_cast<PacketHeader*>(&header), sizeof header},
                    {const_cast<char*>(bytes.data()), bytes.size()}};
  alignas(cmsghdr) ControlBuffer control{};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = bytes.empty() ? 1 : 2;
  if (!fds.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(head), fds.data(), fds.size_bytes());
  }
  while (::sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == ENOBUFS) {
      VOLADOR_TRY(wait_for(fd, POLLOUT, patience_ms));
      continue;
    }
    const bool gone = errno == EPIPE || errno == ECONNRESET || errno == ENOTCONN || errno == ETOOMANYREFS;
    return make_error(gone ? ErrorCode::kUnavailable : ErrorCode::kInternal,
                      fmt::format("message of {} with {}: send: {}", counted(header.bytes, "byte"),
                                  counted(fds.size(), "descriptor"), reason(errno)));
  }
  return {};
}

std::vector<UniqueFd> take_descriptors(msghdr& message) {
  std::vector<UniqueFd> fds;
  for (cmsghdr* head = CMSG_FIRSTHDR(&message); head != nullptr; head = CMSG_NXTHDR(&message, head)) {
    if (head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (head->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(head) + i * sizeof(int), sizeof fd);
      fds.emplace_back(fd);
    }
  }
  return fds;
}

// Memory for bytes beyond the usual size: a thread without large packets touches none of its pages.
char* room_for_large() {
  static thread_local const auto room = std::make_unique_for_overwrite<char[]>(kMessageInlineBytesMax - kUsualBytes);
  return room.get();
}

Result<std::optional<FdMessage>> receive(int fd) {
  PacketHeader header;
  std::array<char, kUsualBytes> usual;  // NOLINT: filled by the kernel.
  char* const large = room_for_large();
  std::array<iovec, 3> parts{iovec{&header, sizeof header}, iovec{usual.data(), usual.size()},
                             iovec{large, kMessageInlineBytesMax - kUsualBytes}};
  alignas(cmsghdr) ControlBuffer control{};
  msghdr message{};
  message.msg_iov = parts.data();
  message.msg_iovlen = parts.size();
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ssize_t n = 0;
  do {
    n = ::recvmsg(fd, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  } while (n < 0 && errno == EINTR);
  if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return std::nullopt;
  if (n < 0 && errno == ECONNRESET) n = 0;
  if (n < 0) return make_error(ErrorCode::kInternal, fmt::format("message: receive: {}", reason(errno)));

  FdMessage result;
  result.fds = take_descriptors(message);
  if (n == 0) return make_error(ErrorCode::kUnavailable, "message: the peer closed its end");
  const size_t size = static_cast<size_t>(n);
  if ((message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0 || size < sizeof header) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("message: a packet of {} bytes was cut off or is too short", size));
  }
  if (header.magic != kFdMagic || header.bytes > kMessageBytesMax) {
    return make_error(ErrorCode::kInvalidArgument, fmt::format("message: bad magic or {} announced (limit {})",
                                                               counted(header.bytes, "byte"), kMessageBytesMax));
  }
  if (header.carrier == Carrier::kInline) {
    const size_t content = size - sizeof header;
    if (header.bytes != content) {
      return make_error(ErrorCode::kInvalidArgument, "message: its header and its packet differ in length");
    }
    result.bytes.reserve(content);
    result.bytes.assign(usual.data(), std::min(content, usual.size()));
    if (content > usual.size()) result.bytes.append(large, content - usual.size());
    return result;
  }
  if (header.carrier != Carrier::kMemfd || size != sizeof header || result.fds.empty()) {
    return make_error(ErrorCode::kInvalidArgument, "message: its memfd is missing");
  }
  auto bytes = from_memfd(result.fds.front().get(), header.bytes);
  if (!bytes) return make_error(std::move(bytes).error());
  result.bytes = *std::move(bytes);
  result.fds.erase(result.fds.begin());
  return result;
}

}  // namespace

Result<std::pair<UniqueFd, UniqueFd>> seqpacket_pair() {
  int ends[2] = {-1, -1};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return make_error(ErrorCode::kUnavailable, fmt::format("socketpair: {}", reason(errno)));
  }
  return std::pair(UniqueFd(ends[0]), UniqueFd(ends[1]));
}

Result<void> send_message(int fd, std::string_view bytes, std::span<const int> fds,
                          std::chrono::milliseconds patience) {
  if (bytes.size() > kMessageBytesMax || fds.size() > kMessageFdsMax) {
    return make_error(
        ErrorCode::kInvalidArgument,
        fmt::format("message of {} with {}: the limits are {} bytes and {} descriptors", counted(bytes.size(), "byte"),
                    counted(fds.size(), "descriptor"), kMessageBytesMax, kMessageFdsMax));
  }
  const int patience_ms = static_cast<int>(patience.count());
  PacketHeader header;
  header.bytes = bytes.size();
  if (bytes.size() <= kMessageInlineBytesMax) return send_packet(fd, header, bytes, fds, patience_ms);

  auto memfd = to_memfd(bytes);
  if (!memfd) return make_error(std::move(memfd).error());
  header.carrier = Carrier::kMemfd;
  std::vector<int> all{memfd->get()};
  all.insert(all.end(), fds.begin(), fds.end());
  return send_packet(fd, header, {}, all, patience_ms);
}

Result<FdMessage> recv_message(int fd) {
  while (true) {
    auto message = receive(fd);
    if (!message) return make_error(std::move(message).error());
    if (*message) return std::move(**message);
    VOLADOR_TRY(wait_for(fd, POLLIN, -1));
  }
}

Result<std::optional<FdMessage>> try_recv_message(int fd) { return receive(fd); }

}  // namespace volador::net
