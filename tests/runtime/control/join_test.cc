#include "runtime/control/join.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "runtime/control/certify.h"
#include "tests/runtime/control/test_head.h"

namespace volador::control {
namespace {

using security::Role;
using testing::HasSubstr;

JoinOptions options_for(const TestHead& head) {
  return {.address = head.address(), .token = head.token(), .role = Role::kNode, .name = "node-b"};
}

TEST(Join, GivesACertificateOfTheRoleAndCluster) {
  const TestHead head;
  const auto joined = join(options_for(head), SystemClock());
  ASSERT_TRUE(joined) << joined.error().message;
  EXPECT_EQ(joined->cluster_name, "heron");
  EXPECT_EQ(joined->cluster, test_cluster());
  const auto self = security::parse_peer_identity(joined->credentials.certificate_pem);
  ASSERT_TRUE(self);
  EXPECT_EQ(self->role, Role::kNode);
  EXPECT_EQ(self->name, "node-b");
  EXPECT_EQ(self->token_id, head.token().id);
}

TEST(Join, AWrongSecretIsRefusedByTheHead) {
  const TestHead head;
  auto options = options_for(head);
  options.token.secret = security::Secret::random(security::kTokenSecretBytes);
  const auto joined = join(options, SystemClock());
  ASSERT_FALSE(joined);
  EXPECT_EQ(joined.error().code, ErrorCode::kUnauthenticated);
  EXPECT_THAT(joined.error().message, HasSubstr("not known"));
}

TEST(Join, AnotherClusterIsNamedByBothFingerprintsBeforeAnythingIsSent) {
  const TestHead head;
  const TestHead other(9);
  auto options = options_for(head);
  options.address = other.address();
  const auto joined = join(options, SystemClock());
  ASSERT_FALSE(joined);
  EXPECT_EQ(joined.error().code, ErrorCode::kUnauthenticated);
  EXPECT_THAT(joined.error().message, HasSubstr("belongs to another cluster"));
  EXPECT_THAT(joined.error().message, HasSubstr(short_text(head.authority().fingerprint())));
  EXPECT_THAT(joined.error().message, HasSubstr(short_text(other.authority().fingerprint())));
}

TEST(Join, ADriverTokenMayNotJoinANode) {
  const TestHead head;
  auto options = options_for(head);
  options.token.role = security::TokenRole::kDriver;
  const auto joined = join(options, SystemClock());
  ASSERT_FALSE(joined);
  EXPECT_EQ(joined.error().code, ErrorCode::kPermissionDenied);
  EXPECT_THAT(joined.error().message, HasSubstr("cannot join as node"));
}

TEST(Join, AClosedPortIsNamed) {
  TestHead head;
  head.stop();
  const auto joined = join(options_for(head), SystemClock());
  ASSERT_FALSE(joined);
  EXPECT_EQ(joined.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(joined.error().message, HasSubstr("nothing listens at " + head.address()));
}

TEST(Join, AClockThatIsFarBehindIsNamed) {
  const TestHead head;
  FakeClock clock;  // In 2023.
  const auto joined = join(options_for(head), clock);
  ASSERT_FALSE(joined);
  EXPECT_EQ(joined.error().code, ErrorCode::kUnauthenticated);
  EXPECT_THAT(joined.error().message, HasSubstr("clock"));
}

TEST(Certify, ANodeGetsCertificatesForItsHostsAndItsOwnNextOne) {
  const TestHead head;
  const auto joined = join(options_for(head), SystemClock());
  ASSERT_TRUE(joined);
  const Channel channel(head.address(), joined->credentials);
  const HostId host(std::array<uint8_t, 16>{1, 2, 3});
  const auto credentials = certify_host(channel, host, std::chrono::seconds(10));
  ASSERT_TRUE(credentials) << credentials.error().message;
  const auto identity = security::parse_peer_identity(credentials->certificate_pem);
  ASSERT_TRUE(identity);
  EXPECT_EQ(identity->role, Role::kHost);
  EXPECT_EQ(identity->name, to_string(host));
  EXPECT_THAT(identity->dns_names, testing::ElementsAre(to_string(host)));

  const auto renewed = renew_node(channel, "node-b", std::chrono::seconds(10));
  ASSERT_TRUE(renewed) << renewed.error().message;
  EXPECT_NE(renewed->key_pem, joined->credentials.key_pem);
}

TEST(Certify, AHeadThatRestartsIsWaitedForUntilStopped) {
  TestHead head;
  const auto joined = join(options_for(head), SystemClock());
  ASSERT_TRUE(joined);
  const Channel channel(head.address(), joined->credentials);
  const HostId host(std::array<uint8_t, 16>{1});
  head.service().lose_next(2);
  EXPECT_TRUE(certify_host(channel, host, std::chrono::seconds(10)));
  head.stop();
  std::thread restart([&head] {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    head.start();
  });
  const auto waited = certify_host(channel, host, std::chrono::seconds(10));
  restart.join();
  EXPECT_TRUE(waited) << waited.error().message;

  head.stop();
  std::stop_source stop;
  stop.request_stop();
  const auto stopped = certify_host(channel, host, std::chrono::seconds(10), stop.get_token());
  ASSERT_FALSE(stopped);
  EXPECT_EQ(stopped.error().code, ErrorCode::kUnavailable);
}

TEST(Certify, WithoutACertificateIsRefused) {
  const TestHead head;
  const Channel channel(head.address(),
                        {.certificate_pem = {}, .key_pem = {}, .authority_pem = head.authority().certificate_pem()});
  const auto credentials = certify_host(channel, HostId(std::array<uint8_t, 16>{1}), std::chrono::seconds(10));
  ASSERT_FALSE(credentials);
  EXPECT_EQ(credentials.error().code, ErrorCode::kUnauthenticated);
  EXPECT_EQ(credentials.error().message, "show a certificate: join first");
}

}  // namespace
}  // namespace volador::control
