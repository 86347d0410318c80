#include "runtime/access_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "tests/temporary_directory.h"

namespace volador {
namespace {

class AccessFile : public ::testing::Test {
 protected:
  TemporaryDirectory folder_;
  Paths paths_ = Paths::from({.volador_home = folder_.path().native()}).value();
  ClusterAccess heron_{.cluster = "heron",
                       .cluster_id = "ab",
                       .address = "127.0.0.1:6380",
                       .fingerprint = "sha256:77",
                       .token = "vt1.x"};
};

TEST_F(AccessFile, ComesBackAsItWasSavedAndIsPrivate) {
  ASSERT_TRUE(save_access(paths_, heron_));
  auto loaded = load_access(paths_, "heron");
  ASSERT_TRUE(loaded) << loaded.error().message;
  EXPECT_EQ(loaded->address, heron_.address);
  EXPECT_EQ(loaded->cluster_id, heron_.cluster_id);
  EXPECT_EQ(loaded->fingerprint, heron_.fingerprint);
  EXPECT_EQ(loaded->token, heron_.token);
  struct stat status {};
  ASSERT_EQ(::stat(paths_.cluster("heron").access().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
}

TEST_F(AccessFile, AMissingOneNamesTheCluster) {
  auto loaded = load_access(paths_, "crane");
  ASSERT_FALSE(loaded);
  EXPECT_EQ(loaded.error().code, ErrorCode::kNotFound);
  EXPECT_NE(loaded.error().message.find("\"crane\""), std::string::npos);
  EXPECT_EQ(load_current_cluster(paths_).error().code, ErrorCode::kNotFound);
}

TEST_F(AccessFile, DamagedFilesAreErrors) {
  ASSERT_TRUE(save_access(paths_, heron_));
  for (const char* text :
       {"", "{", "[]", "{\"cluster\": 1}", "{\"cluster\": \"heron\", \"address\": \"\", \"token\": \"\"}"}) {
    std::ofstream(paths_.cluster("heron").access()) << text;
    EXPECT_EQ(load_access(paths_, "heron").error().code, ErrorCode::kInvalidArgument) << text;
  }
}

TEST_F(AccessFile, TheClusterStartedLastIsRemembered) {
  ASSERT_TRUE(save_current_cluster(paths_, "heron"));
  ASSERT_TRUE(save_current_cluster(paths_, "crane"));
  EXPECT_EQ(load_current_cluster(paths_).value(), "crane");
  std::ofstream(paths_.current()) << "../x\n";
  EXPECT_FALSE(load_current_cluster(paths_));
}

}  // namespace
}  // namespace volador
