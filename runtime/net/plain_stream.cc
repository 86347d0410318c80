#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "runtime/net/stream.h"

namespace volador::net {
namespace {

class PlainStream final : public Stream {
 public:
  explicit PlainStream(UniqueFd socket) : socket_(std::move(socket)) {}

  int fd() const override { return socket_.get(); }
  Result<Handshake> handshake() override { return Handshake::kDone; }
  std::string identity() const override { return {}; }
  Result<void> check_peer() override { return {}; }
  void shut_down() override { ::shutdown(socket_.get(), SHUT_RDWR); }

  StreamResult read(std::span<char> buffer) override {
    ssize_t n = 0;
    do {
      n = ::recv(socket_.get(), buffer.data(), buffer.size(), MSG_DONTWAIT);
    } while (n < 0 && errno == EINTR);
    return outcome(n, n == 0);
  }

  StreamResult write(std::span<const iovec> parts) override {
    msghdr message{};
    message.msg_iov = const_cast<iovec*>(parts.data());
    message.msg_iovlen = parts.size();
    ssize_t n = 0;
    do {
      n = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    } while (n < 0 && errno == EINTR);
    return outcome(n, false);
  }

 private:
  static StreamResult outcome(ssize_t n, bool ended) {
    StreamResult result;
    if (n >= 0) {
      result.bytes = result.touched = static_cast<size_t>(n);
      result.ended = ended;
      if (ended) result.error = "the peer closed it";
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      result.blocked = true;
    } else {
      result.ended = true;
      result.error = std::strerror(errno);
    }
    return result;
  }

  UniqueFd socket_;
};

}  // namespace

std::unique_ptr<Stream> make_plain_stream(UniqueFd socket) { return std::make_unique<PlainStream>(std::move(socket)); }

}  // namespace volador::net
