#include "jobs/code_folder.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "jobs/job_spec.h"
#include "runtime/files/directory_archive.h"
#include "runtime/result.h"
#include "tests/temporary_directory.h"

namespace volador::jobs {
namespace {

namespace fs = std::filesystem;

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

struct IgnoreCase {
  const char* rules;
  const char* path;
  bool is_directory;
  bool ignored;
};

TEST(IgnoreRulesTest, RulesMatchAsInGitignore) {
  const std::vector<IgnoreCase> cases{
      {"", "train.py", false, false},
      {"", ".git", true, true},
      {"", "lib/__pycache__", true, true},
      {"", "node_modules", true, true},
      {"", ".venv", true, true},
      {"", ".git", false, false},
      {"# data", "# data", false, false},
      {"\n  \n", "a", false, false},
      {"*.ckpt", "last.ckpt", false, true},
      {"*.ckpt", "runs/7/last.ckpt", false, true},
      {"*.ckpt", "last.ckpt.txt", false, false},
      {"*.ckpt  \r", "last.ckpt", false, true},
      {"data", "data", false, true},
      {"data", "src/data", true, true},
      {"data", "database", true, false},
      {"data/", "data", true, true},
      {"data/", "data", false, false},
      {"data/", "src/data", true, true},
      {"/data", "data", true, true},
      {"/data", "src/data", true, false},
      {"/data/", "data", true, true},
      {"/data/", "src/data", true, false},
      {"src/data", "src/data", true, true},
      {"src/data", "lib/src/data", true, false},
      {"src/*.bin", "src/a.bin", false, true},
      {"src/*.bin", "src/deep/a.bin", false, false},
      {"src/?.bin", "src/ab.bin", false, false},
      {"**/logs", "logs", true, true},
      {"**/logs", "a/b/logs", true, true},
      {"**/logs", "mylogs", true, false},
      {"**/logs/debug.txt", "logs/debug.txt", false, true},
      {"**/logs/debug.txt", "a/logs/debug.txt", false, true},
      {"**/logs/debug.txt", "mylogs/debug.txt", false, false},
      {"src/**", "src/a", false, true},
      {"src/**", "src/a/b", false, true},
      {"src/**", "lib/a", false, false},
      {"src/**/out", "src/out", true, true},
      {"src/**/out", "src/a/out", true, true},
      {"src/**/out", "src/a/b/out", true, true},
      {"src/**/out", "src/about", true, false},
      {"src/**/*.bin", "src/a/b/c.bin", false, true},
      {"src/**/*.bin", "src/c.bin", false, true},
      {"src/**/*.bin", "lib/c.bin", false, false},
      {"*.bin\n!keep.bin", "keep.bin", false, false},
      {"*.bin\n!keep.bin", "a/keep.bin", false, false},
      {"*.bin\n!keep.bin", "other.bin", false, true},
      {"!keep.bin\n*.bin", "keep.bin", false, true},
      {"*\n!/src/", "src", true, false},
      {"*\n!/src/", "src", false, true},
      {"!.venv/", ".venv", true, false},
      {"a[0-9].txt", "a7.txt", false, true},
      {"a[0-9].txt", "ab.txt", false, false},
      {"\\!important", "!important", false, true},
      {"\\#notes", "#notes", false, true},
  };
  for (const IgnoreCase& each : cases) {
    EXPECT_EQ(IgnoreRules(each.rules).ignores(each.path, each.is_directory), each.ignored)
        << "rules: " << each.rules << ", path: " << each.path << (each.is_directory ? "/" : "");
  }
}

class CodeFolderTest : public testing::Test {
 protected:
  CodeFolderTest() { fs::create_directories(folder_); }

  void write(const std::string& name, const std::string& content = "x") {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name, std::ios::binary) << content;
  }
  // A file of this size that takes no room.
  void write_sparse(const std::string& name, int64_t bytes) {
    write(name, "");
    fs::resize_file(folder_ / name, static_cast<uintmax_t>(bytes));
  }
  // The entries of the archive, sorted.
  std::vector<std::string> packed() {
    std::vector<std::string> names;
    const auto done = pack_code(folder_, archive_);
    EXPECT_TRUE(done) << done.error().message;
    if (!done) return names;
    const fs::path target = temporary_.path() / fmt::format("unpacked{}", ++unpacked_);
    const auto whole = unpack_archive(archive_, target, {}, Durability::kProcess);
    EXPECT_TRUE(whole) << whole.error().message;
    for (const auto& entry : fs::recursive_directory_iterator(target))
      names.push_back(fs::relative(entry.path(), target).string() + (entry.is_directory() ? "/" : ""));
    std::ranges::sort(names);
    EXPECT_EQ(done->archive_bytes, static_cast<int64_t>(fs::file_size(archive_)));
    return names;
  }
  std::string hash() {
    const auto done = pack_code(folder_, archive_);
    EXPECT_TRUE(done) << done.error().message;
    return done ? done->sha256 : std::string();
  }
  Error refusal() {
    const auto done = pack_code(folder_, archive_);
    EXPECT_FALSE(done);
    return done ? Error() : done.error();
  }

  TemporaryDirectory temporary_;
  const fs::path folder_ = temporary_.path() / "code";
  const fs::path archive_ = temporary_.path() / "archive";
  int unpacked_ = 0;
};

TEST_F(CodeFolderTest, TheFolderTravelsWithoutWhatIsIgnored) {
  write("train.py");
  write("lib/model.py");
  write("lib/__pycache__/model.pyc");
  write("data/images.bin");
  write("notes.tmp");
  write("keep.tmp");
  fs::create_directories(folder_ / "empty");
  write(".detignore", "data/\n*.tmp\n");
  write(".voladorignore", "!keep.tmp\n");
  EXPECT_THAT(packed(),
              ElementsAre(".detignore", ".voladorignore", "empty/", "keep.tmp", "lib/", "lib/model.py", "train.py"));
}

TEST_F(CodeFolderTest, TheSummaryCountsFilesAndBytes) {
  write("a", "12345");
  write("b/c", "678");
  const auto done = pack_code(folder_, archive_);
  ASSERT_TRUE(done);
  EXPECT_EQ(done->files, 2);
  EXPECT_EQ(done->content_bytes, 8);
  EXPECT_EQ(done->sha256.size(), 64U);
}

TEST_F(CodeFolderTest, FilesThatGitIgnoresDoNotTravel) {
  const std::string git = fmt::format("git init -q '{}' >/dev/null 2>&1", folder_.string());
  if (std::system(git.c_str()) != 0) GTEST_SKIP() << "there is no git";
  write("train.py");
  write("ignored.bin");
  write("out/log.txt");
  write("lib/new.py");
  write("lib/ignored.bin");
  write(".gitignore", "*.bin\nout/\n");
  EXPECT_THAT(packed(), ElementsAre(".gitignore", "lib/", "lib/new.py", "train.py"));
  write(".voladorignore", "lib/\n");
  EXPECT_THAT(packed(), ElementsAre(".gitignore", ".voladorignore", "train.py"));
}

TEST_F(CodeFolderTest, AFolderBelowAGitRepositoryTravelsByItself) {
  const std::string git = fmt::format("git init -q '{}' >/dev/null 2>&1", temporary_.path().string());
  if (std::system(git.c_str()) != 0) GTEST_SKIP() << "there is no git";
  std::ofstream(temporary_.path() / ".gitignore") << "*.bin\n";
  write("train.py");
  write("a.bin");
  EXPECT_THAT(packed(), ElementsAre("train.py"));
}

TEST_F(CodeFolderTest, TheLimitIsExactAndTheLargestFilesAreNamed) {
  write_sparse("large.bin", int64_t{60} << 20);
  write_sparse("data/middle.bin", int64_t{34} << 20);
  write_sparse("small.bin", (int64_t{1} << 20) - 10);
  write("train.py", "0123456789");
  EXPECT_TRUE(pack_code(folder_, archive_));
  write("train.py", "0123456789+");
  const Error error = refusal();
  EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(error.message, HasSubstr("at most 95 MiB"));
  EXPECT_THAT(error.message, HasSubstr("large.bin (60 MiB), data/middle.bin (34 MiB), small.bin ("));
  EXPECT_THAT(error.message, HasSubstr("4 files"));
  EXPECT_THAT(error.message, Not(HasSubstr("train.py (")));
  EXPECT_THAT(error.message, HasSubstr(".voladorignore"));
  write(".voladorignore", "data/\n");
  EXPECT_TRUE(pack_code(folder_, archive_));
}

TEST_F(CodeFolderTest, ASymbolicLinkIsRefusedWithItsPath) {
  write("lib/train.py");
  fs::create_symlink("train.py", folder_ / "lib/latest.py");
  const Error error = refusal();
  EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(error.message, HasSubstr((fs::canonical(folder_) / "lib/latest.py").string()));
  EXPECT_THAT(error.message, HasSubstr("a symbolic link"));
  fs::remove(folder_ / "lib/latest.py");
  fs::create_directory_symlink("/", folder_ / "root");
  EXPECT_THAT(refusal().message, HasSubstr("root: a symbolic link"));
  write(".voladorignore", "root\n");
  EXPECT_THAT(packed(), ElementsAre(".voladorignore", "lib/", "lib/train.py"));
}

TEST_F(CodeFolderTest, WhatIsNoFolderIsRefused) {
  const auto missing = pack_code(folder_ / "missing", archive_);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(missing.error().message, HasSubstr((folder_ / "missing").string()));
  write("file");
  EXPECT_FALSE(pack_code(folder_ / "file", archive_));
}

TEST_F(CodeFolderTest, EqualTreesHaveEqualHashes) {
  write("b.py", "print(1)");
  write("a/c.py", "print(2)");
  const std::string first = hash();
  fs::remove_all(folder_);
  write("a/c.py", "print(2)");
  write("b.py", "print(1)");
  write("__pycache__/b.pyc", "compiled");
  EXPECT_EQ(hash(), first);
  write("b.py", "print(3)");
  EXPECT_NE(hash(), first);
}

TEST_F(CodeFolderTest, FilesThatTheJobNeedsMustTravel) {
  write("deps/requirements.txt");
  write("local.txt");
  write(".voladorignore", "local.txt\n");
  EXPECT_TRUE(pack_code(folder_, archive_, {"deps/requirements.txt"}));
  const auto missing = pack_code(folder_, archive_, {"requirements.txt"});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(missing.error().message, HasSubstr("has no file requirements.txt; name one that it has"));
  const auto ignored = pack_code(folder_, archive_, {"local.txt"});
  ASSERT_FALSE(ignored);
  EXPECT_THAT(ignored.error().message,
              HasSubstr("local.txt does not travel with the job, because git or .voladorignore"));
  EXPECT_FALSE(pack_code(folder_, archive_, {"deps"}));
}

}  // namespace
}  // namespace volador::jobs
