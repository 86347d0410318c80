#include "jobs/data/data_copies.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "runtime/clock.h"
#include "tests/temporary_directory.h"

namespace volador::jobs {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

class DataCopiesTest : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) const {
    fs::create_directories((source / name).parent_path());
    std::ofstream(source / name) << text;
  }
  static std::string read(const fs::path& file) {
    std::ifstream in(file);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  Result<DataCopies::Copy> prepare(const fs::path& from) {
    return DataCopies(store).prepare(from, {"PATH=/usr/bin:/bin"}, "n1");
  }

  TemporaryDirectory directory;
  fs::path source = directory.path() / "source";
  SystemClock clock;
  std::vector<std::string> said;
  SharedStore store{directory.path() / "store", kDataLimits, clock,
                    [this](const std::string& text) { said.push_back(text); }};
};

TEST_F(DataCopiesTest, ACopyIsMadeOnceAndHasWhatTheSourceHas) {
  write("train/a.bin", "12345");
  write("labels", "7");
  fs::create_symlink("train/a.bin", source / "link");
  const auto first = prepare(source);
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(read(first->path / "train/a.bin"), "12345");
  EXPECT_EQ(fs::read_symlink(first->path / "link"), "train/a.bin");
  EXPECT_THAT(said, ElementsAre(StartsWith("volador: copying " + source.string() + " ("),
                                StartsWith("volador: the copy is complete")));
  const auto second = prepare(source);
  ASSERT_TRUE(second);
  EXPECT_EQ(second->path, first->path);
  EXPECT_EQ(said.size(), 2U);
}

TEST_F(DataCopiesTest, AChangedSourceHasANewCopy) {
  write("a", "1");
  const auto first = prepare(source);
  ASSERT_TRUE(first);
  write("b", "2");
  const auto second = prepare(source);
  ASSERT_TRUE(second);
  EXPECT_NE(second->path, first->path);
  EXPECT_EQ(read(second->path / "b"), "2");
  EXPECT_FALSE(fs::exists(first->path / "b"));
}

TEST_F(DataCopiesTest, AFileIsCopiedAndALinkToTheSourceIsFollowed) {
  write("one", "1");
  fs::create_symlink(source / "one", directory.path() / "alias");
  const auto copy = prepare(directory.path() / "alias");
  ASSERT_TRUE(copy) << copy.error().message;
  EXPECT_EQ(read(copy->path), "1");
  EXPECT_FALSE(fs::is_symlink(copy->path));
}

TEST_F(DataCopiesTest, WhatCannotBeCopiedIsNamed) {
  EXPECT_EQ(prepare("/missing/data").error().message,
            "mount /missing/data: node n1 cannot copy it: /missing/data: No such file or directory");
  EXPECT_THAT(prepare("/dev/null").error().message, HasSubstr("neither a file, a folder nor a link"));
  store.cancel();
  write("a", "1");
  EXPECT_EQ(prepare(source).error().code, ErrorCode::kCancelled);
}

TEST_F(DataCopiesTest, JobsThatStartTogetherShareOneCopy) {
  for (int i = 0; i < 50; ++i) write("f" + std::to_string(i), std::string(1000, 'x'));
  fs::path other;
  std::thread thread([&] {
    SharedStore its_store(directory.path() / "store", kDataLimits, clock, [](const std::string&) {});
    const auto copy = DataCopies(its_store).prepare(source, {"PATH=/usr/bin:/bin"}, "n1");
    if (copy) other = copy->path;
  });
  const auto copy = prepare(source);
  thread.join();
  ASSERT_TRUE(copy);
  EXPECT_EQ(copy->path, other);
}

}  // namespace
}  // namespace volador::jobs
