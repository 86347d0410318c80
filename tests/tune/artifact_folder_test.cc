#include "tune/execution/artifact_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "temporary_directory.h"

namespace volador::tune {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

class ArtifactFolderTest : public ::testing::Test {
 protected:
  std::vector<std::string> names() const {
    std::vector<std::string> found;
    for (const auto& entry : fs::directory_iterator(root_.path())) found.push_back(entry.path().filename());
    return found;
  }
  TemporaryDirectory root_;
  const fs::path archive_ = root_.path() / "artifacts.vla";
  ArtifactFolder folder_{root_.path() / "artifacts", 1 << 20};
};

TEST_F(ArtifactFolderTest, PacksWhatIsNewAndLeavesNothingBeside) {
  EXPECT_FALSE(folder_.pack_changed(archive_).value()) << "nobody has made it";
  write_text(folder_.path() / "plots" / "a.svg", "a");
  write_text(folder_.path() / "b.txt", "b");
  const auto first = folder_.pack_changed(archive_).value();
  ASSERT_TRUE(first);
  EXPECT_EQ(first->files, 2);
  EXPECT_FALSE(folder_.pack_changed(archive_).value());
  write_text(folder_.path() / "b.txt", "more");
  const auto second = folder_.pack_changed(archive_).value();
  ASSERT_TRUE(second);
  EXPECT_EQ(second->files, 1);
  ASSERT_TRUE(add_artifacts(archive_, second->sha256, root_.path() / "here"));
  EXPECT_EQ(read_text(root_.path() / "here" / "b.txt"), "more");
  EXPECT_THAT(names(), UnorderedElementsAre("artifacts", "artifacts.vla", "here"));
}

TEST_F(ArtifactFolderTest, AnErrorLeavesNothingBesideEither) {
  write_text(folder_.path() / "b.txt", "b");
  const auto nowhere = folder_.pack_changed(root_.path() / "no folder" / "artifacts.vla");
  ASSERT_FALSE(nowhere);
  EXPECT_THAT(names(), ElementsAre("artifacts"));
  const auto packed = folder_.pack_changed(archive_).value();
  ASSERT_TRUE(packed) << "what was not packed is new still";
  EXPECT_FALSE(add_artifacts(archive_, std::string(64, '0'), root_.path() / "here"));
  EXPECT_THAT(names(), UnorderedElementsAre("artifacts", "artifacts.vla"));
}

TEST_F(ArtifactFolderTest, WhatAnEarlierOneLeftIsNotPacked) {
  write_text(folder_.path() / "b.txt", "b");
  write_text(root_.path() / "artifacts.staged" / "old.txt", "of a process that was killed");
  const auto packed = folder_.pack_changed(archive_).value();
  ASSERT_TRUE(packed);
  EXPECT_EQ(packed->files, 1);
  EXPECT_THAT(names(), UnorderedElementsAre("artifacts", "artifacts.vla"));
}

// Hard links across disks are not possible.
TEST_F(ArtifactFolderTest, WhereNothingCanBeLinkedThatIsSaidAndNothingIsLeft) {
  const fs::path elsewhere = fs::path("/dev/shm") / root_.path().filename();
  struct stat here {
  }, there{};
  if (::stat("/dev/shm", &there) != 0 || ::stat(root_.path().c_str(), &here) != 0 || here.st_dev == there.st_dev)
    GTEST_SKIP() << "there is one disk only";
  write_text(elsewhere / "b.txt", "b");
  fs::create_directory_symlink(elsewhere, folder_.path());
  const auto packed = folder_.pack_changed(archive_);
  fs::remove_all(elsewhere);
  ASSERT_FALSE(packed);
  EXPECT_THAT(packed.error().message, HasSubstr("b.txt"));
  EXPECT_THAT(names(), ElementsAre("artifacts"));
}

}  // namespace
}  // namespace volador::tune
