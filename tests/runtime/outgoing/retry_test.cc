#include "runtime/outgoing/retry.h"

#include <gtest/gtest.h>

namespace volador::outgoing {
namespace {

TEST(Retry, AddressesOfWebhooksAreChecked) {
  const auto parts = [](const char* url) {
    const auto to = parse_webhook(url);
    return to ? to->host + " " + to->url : to.error().message;
  };
  EXPECT_EQ(parts("https://hooks.example/services/T0?a=b#c"), "hooks.example https://hooks.example/services/T0?a=b");
  EXPECT_EQ(parts("http://127.0.0.1:8080"), "127.0.0.1 http://127.0.0.1:8080");
  EXPECT_EQ(parts("http://[::1]:80/x"), "::1 http://[::1]:80/x");
  EXPECT_EQ(parts("https://h?q"), "h https://h?q");
  const std::string expected = "expected an address like https://example.org/hook, ";
  EXPECT_EQ(parts("ftp://h/"), expected + "which begins with https:// or http://");
  EXPECT_EQ(parts("http://h:70000/"), expected + "with a port from 1 to 65535");
  EXPECT_EQ(parts("http://h:/"), expected + "with a port from 1 to 65535");
  EXPECT_EQ(parts("http:///x"), expected + "with the name of a machine");
  EXPECT_EQ(parts("http://h/a b\r\nX: y"), expected + "without spaces");
  EXPECT_EQ(parts("http://me:word@h/"), expected + "without a name and password");
}

TEST(Retry, AMessageIsSentAgainAFewTimesWhereThatMayHelp) {
  using std::chrono::seconds;
  const RetryPlan plan;
  EXPECT_EQ(pause_before_next(plan, 1, 0), seconds(1));
  EXPECT_EQ(pause_before_next(plan, 4, 503), seconds(8));
  EXPECT_EQ(pause_before_next(plan, 2, 429), seconds(2));
  EXPECT_EQ(pause_before_next(plan, 5, 503), std::nullopt);
  EXPECT_EQ(pause_before_next(plan, 1, 404), std::nullopt);
  EXPECT_EQ(pause_before_next({.attempts = 90, .longest_pause = seconds(60)}, 80, 0), seconds(60));
  EXPECT_TRUE(has_arrived(204));
  EXPECT_FALSE(has_arrived(302));
}

}  // namespace
}  // namespace volador::outgoing
