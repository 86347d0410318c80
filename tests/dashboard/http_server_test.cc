#include "dashboard/http_server.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <deque>
#include <future>

namespace volador::dashboard {
namespace {

// Responds when the test triggers it.
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

// Responds immediately and accepts any request with an authorization.
class PromptHandler final : public HttpHandler {
 public:
  void on_request(HttpRequest request, Respond respond) override {
    if (!request.header("authorization").empty()) request.prove();
    respond({.status = 200, .content_type = "text/plain", .body = "here"});
  }
  tl::expected<std::shared_ptr<SocketEvents>, HttpResponse> on_socket(const HttpRequest&,
                                                                      std::weak_ptr<Socket>) override {
    return tl::unexpected(HttpResponse{.status = 404, .content_type = {}, .body = {}});
  }
  const std::vector<std::pair<std::string, std::string>>& common_headers() const override { return headers_; }

 private:
  std::vector<std::pair<std::string, std::string>> headers_;
};

constexpr std::string_view kLastRequest = "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
constexpr std::string_view kRequest = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
constexpr std::string_view kProof = "GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer x\r\n\r\n";

class Client {
 public:
  explicit Client(uint16_t port, std::string_view says = kLastRequest)
      : fd_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in to{
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}, .sin_zero = {}};
    EXPECT_EQ(connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
    say(says);
  }
  ~Client() { close(fd_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  void say(std::string_view text) {
    EXPECT_EQ(send(fd_, text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
  }
  // Returns the data received up to `end`, or until the server closed.
  std::string read_to(std::string_view end) {
    std::string text;
    char byte;
    while (!text.ends_with(end) && recv(fd_, &byte, 1, 0) == 1) text += byte;
    return text;
  }
  bool ends(std::chrono::milliseconds within) {
    pollfd wait{fd_, POLLRDHUP, 0};
    return poll(&wait, 1, static_cast<int>(within.count())) == 1;
  }

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

// Hello times below a second: the kernel defers accepts by whole seconds.
const HttpLimits kFewStrangers{.strangers = {.connections = 8,
                                             .unproved = 2,
                                             .unproved_of_address = 2,
                                             .hello_time = std::chrono::milliseconds(900),
                                             .crowded_time = std::chrono::milliseconds(10)},
                               .stranger_time = std::chrono::seconds(1),
                               .idle_time = std::chrono::seconds(20)};

TEST(HttpServerTest, SilentAndUnfinishedRequestsHoldUpNobody) {
  PromptHandler handler;
  const auto server = HttpServer::listen({.limits = kFewStrangers}).value();
  server->run(handler);
  std::deque<Client> strangers;
  for (int i = 0; i < 30; ++i)
    strangers.emplace_back(server->port(), i % 2 == 0 ? "" : "GET / HTTP/1.1\r\nHost: local");
  EXPECT_TRUE(Client(server->port()).read_all().ends_with("here"));
  for (Client& one : strangers) EXPECT_TRUE(one.ends(std::chrono::seconds(5)));
}

TEST(HttpServerTest, WhatIsNoRequestEndsAtOnce) {
  PromptHandler handler;
  const auto server = HttpServer::listen({.limits = {.strangers = {.hello_time = std::chrono::seconds(30)}}}).value();
  server->run(handler);
  EXPECT_EQ(Client(server->port(), std::string_view("\x16\x03\x01\x02\0\1", 6)).read_all(), "");
  EXPECT_EQ(Client(server->port(), "!!!").read_all(), "");
}

TEST(HttpServerTest, IdleStrangersMakeRoomWithinSecondsAndOthersStay) {
  PromptHandler handler;
  const auto server = HttpServer::listen({.limits = kFewStrangers}).value();
  server->run(handler);
  std::deque<Client> known;
  for (int i = 0; i < 6; ++i) {  // More than there are places for strangers.
    known.emplace_back(server->port(), kProof);
    EXPECT_TRUE(known.back().read_to("here").ends_with("here"));
  }
  Client first(server->port(), kRequest), second(server->port(), kRequest);
  EXPECT_TRUE(first.read_to("here").ends_with("here"));
  EXPECT_TRUE(second.read_to("here").ends_with("here"));
  EXPECT_TRUE(Client(server->port()).read_all().ends_with("here")) << "once one of the two has gone";
  EXPECT_TRUE(first.ends(std::chrono::seconds(5)));
  EXPECT_TRUE(second.ends(std::chrono::seconds(5)));
  for (Client& one : known) {
    EXPECT_FALSE(one.ends(std::chrono::milliseconds(0)));
    one.say(kRequest);
    EXPECT_TRUE(one.read_to("here").ends_with("here"));
  }
}

TEST(HttpServerTest, AStrangersConnectionIsNotKeptForLong) {
  PromptHandler handler;
  HttpLimits limits;
  limits.stranger_last = std::chrono::seconds(0);
  const auto server = HttpServer::listen({.limits = limits}).value();
  server->run(handler);
  EXPECT_NE(Client(server->port(), kRequest).read_all().find("Connection: close"), std::string::npos);
  Client known(server->port(), kProof);
  known.read_to("here");
  known.say(kRequest);
  EXPECT_TRUE(known.read_to("here").ends_with("here")) << "it is no stranger any more";
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
