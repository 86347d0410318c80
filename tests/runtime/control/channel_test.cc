#include "runtime/control/channel.h"

#include <fcntl.h>
#include <grpcpp/channel.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>

#include "runtime/random.h"
#include "runtime/security/authority.h"

namespace volador::control {
namespace {

using namespace std::chrono_literals;

// Each death test runs in a new process: gRPC stays initialised for the rest of a process.
class ChannelWithoutDescriptors : public testing::Test {
 protected:
  void SetUp() override { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

  static std::string authority_pem() {
    SystemRandom random;
    const SystemClock clock;
    return security::Authority::create(new_id<ClusterId>(random), clock.wall()).value().certificate_pem();
  }
  static void take_all_descriptors() {
    rlimit files{};
    ::getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = 64;
    ::setrlimit(RLIMIT_NOFILE, &files);
    while (::open("/dev/null", O_RDONLY) >= 0) {
    }
  }
  // Tries to connect to a port without a listener; returns whether it failed in time.
  static bool connecting_fails(const std::string& authority) {
    const Channel channel("127.0.0.1:9", {.certificate_pem = {}, .key_pem = {}, .authority_pem = authority});
    return !channel.grpc()->WaitForConnected(std::chrono::system_clock::now() + 500ms);
  }
};

TEST_F(ChannelWithoutDescriptors, TheFirstUseIsRefusedWithTheNextStep) {
  EXPECT_EXIT(
      {
        take_all_descriptors();
        const auto prepared = prepare_grpc();
        if (!prepared) std::fputs(prepared.error().message.c_str(), stderr);
        std::_Exit(!prepared && prepared.error().code == ErrorCode::kUnavailable ? 0 : 1);
      },
      testing::ExitedWithCode(0), "raise `ulimit -n`");
}

TEST_F(ChannelWithoutDescriptors, ALaterChannelFailsToConnectAndTheProcessGoesOn) {
  EXPECT_EXIT(
      {
        const std::string authority = authority_pem();
        if (!prepare_grpc() || !connecting_fails(authority)) std::_Exit(1);
        take_all_descriptors();
        std::_Exit(connecting_fails(authority) ? 0 : 2);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace volador::control
