#include "tune/source_revision.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

#include "tests/tune/temporary_directory.h"
#include "tune/experiment_state.h"

namespace volador::tune {
namespace {

using ::testing::HasSubstr;

bool shell(const std::filesystem::path& folder, const std::string& command) {
  return std::system(("cd '" + folder.string() + "' && (" + command + ") >/dev/null 2>&1").c_str()) == 0;
}

TEST(SourceRevision, IsThatOfTheFoldersRepository) {
  TemporaryDirectory folder;
  if (!shell(folder.path(), "git init -q -b trunk && git config user.email a@b && git config user.name a"))
    GTEST_SKIP() << "no git";
  EXPECT_EQ(source_revision(folder.path()).commit, "") << "nothing is committed";
  write_text(folder.path() / "model.cc", "int width = 8;\n");
  ASSERT_TRUE(shell(folder.path(), "git add . && git commit -q -m first && mkdir below"));
  const SourceRevision clean = source_revision(folder.path() / "below");
  EXPECT_EQ(clean.commit.size(), 40U);
  EXPECT_EQ(clean.branch, "trunk");
  EXPECT_FALSE(clean.changed);
  write_text(folder.path() / "model.cc", "int width = 9;\n");
  const SourceRevision changed = source_revision(folder.path());
  EXPECT_TRUE(changed.changed);
  EXPECT_EQ(changed.commit, clean.commit);
  EXPECT_THAT(changed.diff, HasSubstr("+int width = 9;"));
  write_text(folder.path() / "model.cc", std::string(3 << 20, 'x'));
  const SourceRevision large = source_revision(folder.path());
  EXPECT_TRUE(large.changed);
  EXPECT_LT(large.diff.size(), SourceRevision::kDiffBytesMax + 100);
  EXPECT_THAT(large.diff.substr(large.diff.size() - 60), HasSubstr("cut here"));
}

TEST(SourceRevision, AFolderWithoutARepositoryHasNone) {
  EXPECT_EQ(source_revision("/proc").commit, "");
  EXPECT_EQ(source_revision("/there/is/no/such/folder").commit, "");
}

TEST(ExperimentState, KeepsHowItsProgramWasStarted) {
  ExperimentState state{.name = "x", .metric = "m"};
  state.origin = {
      {"./train", "--width=9"}, "/home/me", "gpu-1", "0123456789abcdef0123456789abcdef01234567", "trunk", true};
  const auto back = experiment_state_from_json(to_json(state)).value();
  EXPECT_EQ(back.origin.arguments, state.origin.arguments);
  EXPECT_EQ(back.origin.working_directory, "/home/me");
  EXPECT_EQ(back.origin.hostname, "gpu-1");
  EXPECT_EQ(back.origin.git_commit, state.origin.git_commit);
  EXPECT_EQ(back.origin.git_branch, "trunk");
  EXPECT_TRUE(back.origin.git_changed);
}

}  // namespace
}  // namespace volador::tune
