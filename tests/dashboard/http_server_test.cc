#include "dashboard/http_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <future>

namespace volador::dashboard {
namespace {

// Answers when the test does.
class LateHandler final : public HttpHandler {
 public:
  void on_request(HttpRequest, Respond respond) override { asked.set_value(std::move(respond)); }
  tl::expected<std::shared_ptr<SocketEvents>, HttpResponse> on_socket(const HttpRequest&,
                                                                      std::weak_ptr<Socket>) override {
    return tl::unexpected(HttpResponse{.status = 404, .content_type = {}, .body = {}});
  }
  const std::vector<std::pair<std::string, std::string>>& common_headers() const override { return headers_; }

  std::promise<Respond> asked;

 private:
  std::vector<std::pair<std::string, std::string>> headers_;
};

class Client {
 public:
  explicit Client(uint16_t port) : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in to{
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
    EXPECT_EQ(connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
    constexpr std::string_view kRequest = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    EXPECT_EQ(send(fd_, kRequest.data(), kRequest.size(), MSG_NOSIGNAL), static_cast<ssize_t>(kRequest.size()));
  }
  ~Client() { close(fd_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  std::string read_all() {
    std::string text;
    char bytes[4096];
    for (ssize_t got = 0; (got = recv(fd_, bytes, sizeof bytes, 0)) > 0;) text.append(bytes, static_cast<size_t>(got));
    return text;
  }

 private:
  int fd_;
};

TEST(HttpServerTest, AnAnswerMayComeLater) {
  LateHandler handler;
  const auto server = HttpServer::listen({}).value();
  server->run(handler);
  Client client(server->port());
  auto respond = handler.asked.get_future().get();
  server->post(
      [&respond] { std::exchange(respond, nullptr)({.status = 200, .content_type = "text/plain", .body = "late"}); });
  const std::string answer = client.read_all();
  EXPECT_TRUE(answer.starts_with("HTTP/1.1 200")) << answer;
  EXPECT_TRUE(answer.ends_with("late")) << answer;
}

TEST(HttpServerTest, NoConnectionOutlivesTheServerWhoeverStillOwesItAnAnswer) {
  LateHandler handler;
  auto server = HttpServer::listen({}).value();
  server->run(handler);
  Client client(server->port());
  const auto respond = handler.asked.get_future().get();
  server->stop();
  EXPECT_EQ(client.read_all(), "") << "it is closed, not left open";
  respond({.status = 200, .content_type = "text/plain", .body = "too late"});
  server.reset();
}

}  // namespace
}  // namespace volador::dashboard
