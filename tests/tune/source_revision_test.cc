#include "tune/execution/source_revision.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <signal.h>

#include <cstdlib>

#include "tests/tune/temporary_directory.h"
#include "tune/results/experiment_state.h"

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

// Replaces git by a program that never responds.
TEST(SourceRevision, OfAGitThatHangsNothingIsSaidAndNothingIsLeft) {
  TemporaryDirectory folder;
  write_text(folder.path() / "git",
             "#!/bin/sh\necho $$ > '" + (folder.path() / "pid").string() + "'\nexec sleep 1000\n");
  std::filesystem::permissions(folder.path() / "git", std::filesystem::perms::owner_all);
  const std::string path = std::getenv("PATH");
  ::setenv("PATH", (folder.path().string() + ":" + path).c_str(), 1);
  const SourceRevision revision = source_revision(folder.path(), std::chrono::seconds(1));
  ::setenv("PATH", path.c_str(), 1);
  EXPECT_EQ(revision.commit, "");
  const std::string pid = read_text(folder.path() / "pid");
  if (!pid.ends_with('\n')) GTEST_SKIP() << "it was not even started within its time";
  EXPECT_NE(::kill(std::stoi(pid), 0), 0) << "it runs still";
}

TEST(SourceRevision, RunsNoDifferAndNoMonitorThatTheRepositoryNames) {
  TemporaryDirectory folder;
  if (!shell(folder.path(), "git init -q -b trunk && git config user.email a@b && git config user.name a"))
    GTEST_SKIP() << "no git";
  write_text(folder.path() / "data.bin", "one\n");
  write_text(folder.path() / ".gitattributes", "*.bin diff=shown\n");
  ASSERT_TRUE(shell(folder.path(), "git add . && git commit -q -m first"));
  write_text(folder.path() / "data.bin", "two\n");
  const std::string leaves = "touch '" + (folder.path() / "was_run").string() + "'; cat";
  for (const char* name :
       {"diff.shown.textconv", "diff.shown.command", "diff.external", "core.pager", "core.fsmonitor"})
    ASSERT_TRUE(shell(folder.path(), "git config " + std::string(name) + " \"" + leaves + "\""));
  EXPECT_TRUE(source_revision(folder.path()).changed);
  EXPECT_FALSE(std::filesystem::exists(folder.path() / "was_run"));
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
