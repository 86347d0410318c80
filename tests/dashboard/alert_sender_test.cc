#include "dashboard/alert_sender.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

namespace volador::dashboard {
namespace {

// A listening loopback socket that never responds.
class SilentServer {
 public:
  SilentServer() : socket_(::socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    EXPECT_EQ(::bind(socket_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(socket_, 4), 0);
    EXPECT_EQ(::getsockname(socket_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
  }
  ~SilentServer() { ::close(socket_); }

  // Waits until a client has connected and sent data.
  int accept() const {
    const int line = ::accept(socket_, nullptr, nullptr);
    char letter = 0;
    EXPECT_EQ(::recv(line, &letter, 1, MSG_PEEK), 1);
    return line;
  }
  int port() const { return port_; }

 private:
  const int socket_;
  int port_ = 0;
};

AlertOptions to(const SilentServer& server, bool tls) {
  const std::string url = (tls ? "https" : "http") + ("://127.0.0.1:" + std::to_string(server.port())) + "/";
  return {.to = {.url = url, .host = "127.0.0.1"}, .timeout = std::chrono::hours(1)};
}

v1::Event crashed() {
  v1::Event event;
  event.set_level("warn");
  event.set_kind("experiment.crashed");
  event.set_text("experiment crashed: its program has left");
  return event;
}

TEST(AlertSender, EndsAtOnceWhileAServerGivesNoAnswer) {
  for (const bool tls : {false, true}) {
    const SilentServer server;
    AlertSender sender(to(server, tls));
    sender.take(crashed());
    const int line = server.accept();
    sender.take(crashed());
    sender.stop();
    sender.stop();
    ::close(line);
  }
}

TEST(AlertSender, EndsAtOnceBetweenTwoAttempts) {
  const SilentServer server;
  AlertOptions options = to(server, false);
  options.plan = {.attempts = 2, .first_pause = std::chrono::hours(1)};
  AlertSender sender(options);
  sender.take(crashed());
  ::close(server.accept());  // It ends without a response: the next attempt would follow in an hour.
  sender.stop();
}

}  // namespace
}  // namespace volador::dashboard
