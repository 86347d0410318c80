#include "runtime/cluster_target.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "runtime/access_file.h"
#include "runtime/logins.h"
#include "runtime/settings.h"
#include "tests/temporary_directory.h"

namespace volador {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kNowMs = 1'000'000;

class ClusterTargetOfThisMachine : public ::testing::Test {
 protected:
  void leave_head(const std::string& cluster, const std::string& address,
                  const std::string& fingerprint = "sha256:77") {
    ASSERT_TRUE(save_access(paths_, {.cluster = cluster,
                                     .cluster_id = "ab",
                                     .address = address,
                                     .fingerprint = fingerprint,
                                     .token = "vt1.of-" + cluster}));
    ASSERT_TRUE(save_current_cluster(paths_, cluster));
  }
  void sign_in(const std::string& address, const std::string& user, int64_t expires_ms = kNowMs + 1) {
    ASSERT_TRUE(save_login(paths_, {.address = address,
                                    .fingerprint = "sha256:77",
                                    .user = user,
                                    .token = "vt1.of-" + user,
                                    .expires_ms = expires_ms}));
  }
  Result<ClusterTarget> find(const GivenTarget& given = {}) const { return find_cluster(given, paths_, kNowMs); }
  static std::string shown(const Result<ClusterTarget>& found) {
    if (!found) return found.error().message;
    return found->address + " " + found->token + " " + found->local_cluster + " " + found->user;
  }

  TemporaryDirectory folder_;
  Paths paths_ = Paths::from({.volador_home = folder_.path().native()}).value();
};

TEST_F(ClusterTargetOfThisMachine, WhatIsGivenComesFirstThenTheSignInThenTheHead) {
  leave_head("heron", "here:1");
  EXPECT_EQ(shown(find()), "here:1 vt1.of-heron heron ");
  sign_in("here:1", "mei");
  EXPECT_EQ(shown(find()), "here:1 vt1.of-mei heron mei");
  EXPECT_EQ(shown(find({.token = "vt1.given"})), "here:1 vt1.given heron ");
  EXPECT_EQ(shown(find({.address = "here:1"})), "here:1 vt1.of-mei heron mei");
}

TEST_F(ClusterTargetOfThisMachine, TheClusterHereComesBeforeASignInElsewhere) {
  sign_in("there:1", "kim");
  EXPECT_EQ(shown(find()), "there:1 vt1.of-kim  kim");
  sign_in("there:2", "mei");
  EXPECT_EQ(shown(find()), "there:2 vt1.of-mei  mei") << "the newest";
  EXPECT_EQ(shown(find({.address = "there:1"})), "there:1 vt1.of-kim  kim");
  leave_head("heron", "here:1");
  leave_head("crane", "here:2");
  EXPECT_EQ(shown(find()), "here:2 vt1.of-crane crane ");
  EXPECT_EQ(shown(find({.cluster = "heron"})), "here:1 vt1.of-heron heron ");
  EXPECT_EQ(shown(find({.address = "here:1"})), "here:1 vt1.of-heron heron ");
}

TEST_F(ClusterTargetOfThisMachine, ASignInAtAnEarlierClusterOfTheAddressIsNotUsed) {
  sign_in("here:1", "mei");
  leave_head("heron", "here:1", "sha256:88");
  EXPECT_EQ(shown(find()), "here:1 vt1.of-heron heron ");
}

TEST_F(ClusterTargetOfThisMachine, AnExpiredSignInIsAnErrorUnlessATokenIsGiven) {
  leave_head("heron", "here:1");
  sign_in("here:1", "mei", kNowMs);
  const auto expired = find();
  ASSERT_FALSE(expired);
  EXPECT_EQ(expired.error().code, ErrorCode::kUnauthenticated);
  EXPECT_THAT(expired.error().message, HasSubstr("the sign-in of mei at here:1 has expired"));
  EXPECT_EQ(shown(find({.token = "vt1.given"})), "here:1 vt1.given heron ");
  sign_in("here:1", "mei", 0);
  EXPECT_EQ(shown(find()), "here:1 vt1.of-mei heron mei") << "0 never expires";
}

TEST_F(ClusterTargetOfThisMachine, WhatIsMissingIsSaid) {
  EXPECT_EQ(find().error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(shown(find()), HasSubstr("no cluster is known here"));
  EXPECT_EQ(find({.address = "there:1"}).error().code, ErrorCode::kUnauthenticated);
  EXPECT_THAT(shown(find({.address = "there:1"})), HasSubstr("no token for the cluster at there:1: sign in with"));
  EXPECT_EQ(find({.cluster = "heron"}).error().code, ErrorCode::kNotFound);
  ASSERT_TRUE(save_current_cluster(paths_, "heron"));
  std::filesystem::create_directories(paths_.cluster("heron").nodes());
  EXPECT_THAT(shown(find()), HasSubstr("this machine only has a worker of cluster heron"));
  sign_in("there:1", "kim");
  EXPECT_EQ(shown(find()), "there:1 vt1.of-kim  kim") << "a worker's machine";
  std::ofstream(paths_.logins()) << "{";
  EXPECT_EQ(find().error().code, ErrorCode::kInvalidArgument);
}

TEST_F(ClusterTargetOfThisMachine, ARefusalNamesTheSignIn) {
  const ClusterTarget by_mei{.address = "here:1", .user = "mei"};
  const Error refused{ErrorCode::kUnauthenticated, "token t-1 was revoked"};
  EXPECT_THAT(with_sign_in(refused, by_mei).message,
              HasSubstr("token t-1 was revoked; the token is from the sign-in of mei at here:1"));
  EXPECT_EQ(with_sign_in(refused, {.address = "here:1"}), refused);
  const Error lost{ErrorCode::kUnavailable, "no answer"};
  EXPECT_EQ(with_sign_in(lost, by_mei), lost);
}

TEST_F(ClusterTargetOfThisMachine, SettingsCompleteWhatIsNotGiven) {
  const auto config =
      resolve(volador_settings(), {.environment = {{"VOLADOR_ADDRESS", "there:1"}, {"VOLADOR_TOKEN", "vt1.set"}}});
  ASSERT_TRUE(config) << config.error().message;
  const auto all = with_settings({}, *config);
  EXPECT_EQ(all->address + " " + all->token, "there:1 vt1.set");
  const auto given = with_settings({.address = "here:1", .token = "vt1.given"}, *config);
  EXPECT_EQ(given->address + " " + given->token, "here:1 vt1.given");
  const auto named = with_settings({.cluster = "heron"}, *config);
  EXPECT_EQ(named->address + named->cluster, "heron");
}

}  // namespace
}  // namespace volador
