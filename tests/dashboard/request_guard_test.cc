#include "dashboard/request_guard.h"

#include <gtest/gtest.h>

namespace volador::dashboard {
namespace {

TEST(ParseTarget, PathAndQueryAreDecodedOnce) {
  const auto target = parse_target("/api/v1/experiments/my%20run/trials?filter=a%3Db+c&order=-step&filter=second");
  ASSERT_TRUE(target.has_value());
  EXPECT_EQ(target->path, "/api/v1/experiments/my run/trials");
  EXPECT_EQ(target->query.at("filter"), "a=b c");
  EXPECT_EQ(target->query.at("order"), "-step");
  EXPECT_EQ(parse_target("/%252e%252e/x")->path, "/%2e%2e/x");
}

TEST(ParseTarget, PathTricksAreRefused) {
  for (const char* target :
       {"",       "x",      "http://evil/", "/..",   "/../etc/passwd", "/a/../b", "/a/%2e%2e/b", "/%2e%2e%2fetc",
        "/a/./b", "//evil", "/a//b",        "/a\\b", "/a%5cb",         "/a%00",   "/a%0d%0ab",   "/%",
        "/%4",    "/%zz",   "/a%2fb",       "/a/",   "/a?x=%zz",       "*",       "/a#b"}) {
    EXPECT_FALSE(parse_target(target).has_value()) << target;
  }
  std::string many = "/?";
  for (int n = 0; n < 100; ++n) many += "q" + std::to_string(n) + "=1&";
  EXPECT_FALSE(parse_target(many).has_value());
}

TEST(IsRequestHead, AHeadIsWaitedForToItsEndOrItsLimit) {
  const std::string head = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
  for (size_t bytes = 0; bytes < head.size(); ++bytes)
    EXPECT_FALSE(is_request_head(head.substr(0, bytes), 1024).value()) << bytes;
  EXPECT_TRUE(is_request_head(head, 1024).value());
  EXPECT_TRUE(is_request_head(head + "and a body", 1024).value());
  EXPECT_TRUE(is_request_head(head.substr(0, 20), 20).value()) << "too long: the server says so";
  EXPECT_TRUE(is_request_head("BREW /tea HTCPCP/1.0\r\n\r\n", 1024).value());
  EXPECT_TRUE(is_request_head("M-SEARCH * HTTP/1.1\r\n\r\n", 1024).value());
}

TEST(IsRequestHead, OtherBytesAreNone) {
  for (const std::string_view bytes :
       {std::string_view("\x16\x03\x01\x02", 4), std::string_view("\0", 1), std::string_view(" GET / HTTP/1.1\r\n"),
        std::string_view("\r\n"), std::string_view("GET/ HTTP/1.1\r\n"),
        std::string_view("GETGETGETGETGETGETGETGETG")}) {
    EXPECT_FALSE(is_request_head(bytes, 1024).has_value()) << bytes;
  }
}

TEST(HostGuard, NamesOfTheLoopbackPassOnAnyPortAndForeignOnesDoNot) {
  const HostGuard guard({"10.0.0.7", "fe80::1"}, "https://volador.example/base");
  for (const char* host :
       {"localhost", "LOCALHOST:1", "127.0.0.1:8080", "[::1]:80", "10.0.0.7:9", "[fe80::1]:9", "volador.example"})
    EXPECT_TRUE(guard.is_ours(host)) << host;
  for (const char* host : {"", "evil.example", "127.0.0.1.evil.example", "localhost.evil", "localhost:", "localhost:1x",
                           "localhost:123456", "[::1", "volador.example:81", "127.0.0.1:80@evil"}) {
    EXPECT_FALSE(guard.is_ours(host)) << host;
  }
}

TEST(HostGuard, PagesOfOtherSitesAreForeign) {
  const HostGuard guard({}, "https://volador.example");
  EXPECT_TRUE(guard.same_origin("http://localhost:9", "localhost:9", false));
  EXPECT_TRUE(guard.same_origin("https://127.0.0.1:9", "127.0.0.1:9", true));
  EXPECT_TRUE(guard.same_origin("https://volador.example", "127.0.0.1:9", false));
  for (const char* origin : {"", "null", "http://evil.example", "https://localhost:9", "http://localhost:8",
                             "http://localhost", "http://localhost:9.evil"}) {
    EXPECT_FALSE(guard.same_origin(origin, "localhost:9", false)) << origin;
  }
  EXPECT_FALSE(guard.same_origin("http://evil.example", "evil.example", false));
}

TEST(CookieOf, FindsWholeNamesOnly) {
  EXPECT_EQ(cookie_of("a=1; volador_session_80=xyz; b=2", "volador_session_80"), "xyz");
  EXPECT_EQ(cookie_of("xvolador_session_80=1", "volador_session_80"), "");
  EXPECT_EQ(cookie_of("volador_session_801=1", "volador_session_80"), "");
  EXPECT_EQ(cookie_of("", "a"), "");
}

}  // namespace
}  // namespace volador::dashboard
