#include "runtime/net/loopback.h"

#include <gtest/gtest.h>

namespace volador::net {
namespace {

TEST(Loopback, AddressesOfThisMachineOnly) {
  for (const char* host : {"127.0.0.1", "127.255.0.9", "::1", "0:0:0:0:0:0:0:1", "localhost"}) {
    EXPECT_TRUE(is_loopback(host)) << host;
  }
}

TEST(Loopback, OtherAddressesAndNamesThatLookLikeOne) {
  for (const char* host : {"", "0.0.0.0", "::", "10.0.0.1", "127.example.org", "128.0.0.1", "localhost.example.org"}) {
    EXPECT_FALSE(is_loopback(host)) << host;
  }
}

}  // namespace
}  // namespace volador::net
