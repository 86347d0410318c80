// Heads of messages between a browser and a server in a job.
#include "dashboard/page_head.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace volador::dashboard {
namespace {

using testing::HasSubstr;
using testing::Not;

Result<PageRequest> request(const std::string& fields, const std::string& first = "GET /lab?a=1 HTTP/1.1",
                            bool tls = false) {
  return read_page_request(first + "\r\n" + fields + "\r\n", 8888, "10.0.0.9", tls);
}

TEST(PageHead, TheServerSeesItsOwnAddressAndNoCookiesOfVolador) {
  const auto read = request(
      "Host: heron:40123\r\nOrigin: http://heron:40123\r\nReferer: http://heron:40123/tree?x\r\n"
      "Cookie: volador_session_1=a; theme=dark; volador_page_40123=b; _xsrf=2|c\r\nConnection: keep-alive\r\n"
      "Keep-Alive: 5\r\nX-Forwarded-For: 1.2.3.4\r\nAccept: */*\r\n");
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(read->head,
            "GET /lab?a=1 HTTP/1.1\r\nHost: 127.0.0.1:8888\r\norigin: http://127.0.0.1:8888\r\n"
            "referer: http://127.0.0.1:8888/tree?x\r\naccept: */*\r\ncookie: theme=dark; _xsrf=2|c\r\n"
            "x-forwarded-for: 10.0.0.9\r\nx-forwarded-host: heron:40123\r\nx-forwarded-proto: http\r\n"
            "connection: close\r\n\r\n");
  EXPECT_EQ(read->host, "heron:40123");
  EXPECT_EQ(read->origin, "http://heron:40123");
  EXPECT_EQ(read->target, "/lab?a=1");
  EXPECT_FALSE(read->upgrade);
}

TEST(PageHead, OnlyAnUpgradeKeepsTheConnection) {
  const auto socket = request("Host: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n");
  ASSERT_TRUE(socket.has_value());
  EXPECT_TRUE(socket->upgrade);
  EXPECT_THAT(socket->head, HasSubstr("connection: upgrade\r\nupgrade: websocket\r\n\r\n"));
  EXPECT_FALSE(request("Host: a\r\nUpgrade: websocket\r\n")->upgrade);
  EXPECT_FALSE(request("Host: a\r\nConnection: upgrade\r\n")->upgrade);
}

TEST(PageHead, ABodyHasAKnownLength) {
  EXPECT_EQ(request("Host: a\r\nContent-Length: 12\r\n", "POST /x HTTP/1.1")->body_bytes, 12u);
  for (const char* fields : {"Host: a\r\nTransfer-Encoding: chunked\r\n", "Host: a\r\nContent-Length: x\r\n",
                             "Host: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n",
                             "Host: a\r\nContent-Length: -1\r\n", "Host: a\r\nContent-Length: 1, 1\r\n",
                             "Host: a\r\nContent-Length:\r\n", "Host: a\r\nContent-Length: 99999999999999999999\r\n"})
    EXPECT_FALSE(request(fields, "POST /x HTTP/1.1").has_value()) << fields;
}

TEST(PageHead, WhatIsNoRequestIsRefused) {
  for (const char* first : {"GET /", "GET  HTTP/1.1", "GET http://x/ HTTP/1.1", "GET / HTTP/2", "G T / HTTP/1.1", "",
                            "GET /a b HTTP/1.1", "PRI * HTTP/2.0"})
    EXPECT_FALSE(request("Host: a\r\n", first).has_value()) << first;
  for (const char* fields : {"", "Host: a\r\nHost: b\r\n", "Host: a\r\n folded\r\n", "Host: a\r\nx y: 1\r\n",
                             "Host: a\r\nnothing\r\n", "Host: a\r\nx: \x01\r\n", "Host: a\r\nx: 1\ny: 2\r\n"})
    EXPECT_FALSE(request(fields).has_value()) << fields;
  EXPECT_FALSE(read_page_request("GET / HTTP/1.1\r\nHost: a\r\n", 1, "p", false).has_value());
  EXPECT_FALSE(read_page_request("GET / HTTP/1.1\r\nHost: a\r\n\r\nGET /", 1, "p", false).has_value());
}

TEST(PageHead, AReplyLeadsToThePageAndSetsNoCookieOfVolador) {
  const auto reply = [](const std::string& head) { return read_page_reply(head, 8888, "https://heron:40123"); };
  const auto read = reply(
      "HTTP/1.0 302 Found\r\nLocation: http://127.0.0.1:8888/lab\r\nSet-Cookie: volador_session_1=stolen; Path=/\r\n"
      "Set-Cookie: theme=dark\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n");
  ASSERT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(read->head,
            "HTTP/1.1 302 Found\r\nlocation: https://heron:40123/lab\r\nset-cookie: theme=dark\r\n"
            "transfer-encoding: chunked\r\nconnection: close\r\n\r\n");
  EXPECT_THAT(reply("HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:88880/\r\n\r\n")->head,
              HasSubstr("location: http://127.0.0.1:88880/\r\n"));
  EXPECT_THAT(reply("HTTP/1.1 302 Found\r\nLocation: /tree\r\n\r\n")->head, HasSubstr("location: /tree\r\n"));
  EXPECT_TRUE(reply("HTTP/1.1 100 Continue\r\n\r\n")->informational);
  const auto upgraded = reply("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n");
  EXPECT_FALSE(upgraded->informational);
  EXPECT_THAT(upgraded->head, HasSubstr("upgrade: websocket\r\nconnection: upgrade\r\n\r\n"));
  for (const char* head : {"SSH-2.0-OpenSSH\r\n\r\n", "HTTP/1.1\r\n\r\n", "\r\n\r\n", "HTTP/1.1 200 OK\r\nx\r\n\r\n"})
    EXPECT_FALSE(reply(head).has_value()) << head;
}

TEST(PageHead, TheKeyIsTakenOutOfTheAddress) {
  const auto taken = [](const char* target) {
    const PageKey key = take_page_key(target);
    return key.key + " " + key.target;
  };
  EXPECT_EQ(taken("/?volador_key=k"), "k /");
  EXPECT_EQ(taken("/lab?a=1&volador_key=k&b=2"), "k /lab?a=1&b=2");
  EXPECT_EQ(taken("/lab?a=1"), " /lab?a=1");
  EXPECT_EQ(taken("/lab"), " /lab");
  EXPECT_EQ(taken("/?"), " /");
}

}  // namespace
}  // namespace volador::dashboard
