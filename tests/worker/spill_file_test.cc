#include "worker/store/spill_file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "tests/temporary_directory.h"

namespace volador::worker {
namespace {

using ::testing::HasSubstr;

std::vector<std::byte> bytes_of(size_t count, unsigned seed) {
  std::vector<std::byte> bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>((i * 2654435761U + seed) >> 13);
  return bytes;
}

// The open spill file of this process, according to /proc.
std::string path_to_spill_file() {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
    if (!gone && target.find("spill-here") != std::string::npos) return entry.path().string();
  }
  return {};
}

class SpillFileTest : public ::testing::Test {
 protected:
  TemporaryDirectory base;
  const std::filesystem::path folder = base.path() / "spill-here";
  const NodeId node{{1}};
  std::unique_ptr<SpillFile> file = std::move(*SpillFile::create(folder, node));
};

TEST_F(SpillFileTest, GivesBackWhatWasWritten) {
  const auto large = bytes_of(static_cast<size_t>(kSpillChunkBytes) * 2 + 12345, 1);
  const auto small = bytes_of(17, 2);
  const auto sums = file->write(8192, large);
  const auto small_sums = file->write(0, small);
  ASSERT_TRUE(sums && small_sums);
  EXPECT_EQ((*sums)->size(), 3u);
  std::vector<std::byte> back(large.size());
  ASSERT_TRUE(file->read(8192, static_cast<int64_t>(large.size()), **sums, 0, back));
  EXPECT_EQ(back, large);
  for (const auto& [from, count] :
       {std::pair<size_t, size_t>{0, 1}, {static_cast<size_t>(kSpillChunkBytes) - 3, 7}, {large.size() - 5, 5}}) {
    std::vector<std::byte> part(count);
    ASSERT_TRUE(file->read(8192, static_cast<int64_t>(large.size()), **sums, static_cast<int64_t>(from), part));
    EXPECT_TRUE(std::equal(part.begin(), part.end(), large.begin() + static_cast<std::ptrdiff_t>(from)));
  }
  back.resize(17);
  ASSERT_TRUE(file->read(0, 17, **small_sums, 0, back));
  EXPECT_EQ(back, small);
}

TEST_F(SpillFileTest, HasNoNameAndLeavesNothing) {
  ASSERT_TRUE(file->write(0, bytes_of(100'000, 3)));
  EXPECT_TRUE(std::filesystem::is_empty(folder));
  EXPECT_FALSE(path_to_spill_file().empty());
  file.reset();
  EXPECT_TRUE(path_to_spill_file().empty());
}

TEST_F(SpillFileTest, ADamagedFileIsAnErrorAndNeverWrongData) {
  const auto data = bytes_of(static_cast<size_t>(kSpillChunkBytes) + 100'000, 4);
  const auto sums = file->write(4096, data);
  ASSERT_TRUE(sums);
  const int raw = ::open(path_to_spill_file().c_str(), O_RDWR);
  ASSERT_GE(raw, 0);
  ASSERT_EQ(::pwrite(raw, "x", 1, 4096 + kSpillChunkBytes + 50), 1);
  std::vector<std::byte> back(data.size());
  const auto read = file->read(4096, static_cast<int64_t>(data.size()), **sums, 0, back);
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, ErrorCode::kObjectLost);
  EXPECT_THAT(read.error().message, HasSubstr("checksum"));
  std::vector<std::byte> first(1000);
  EXPECT_TRUE(file->read(4096, static_cast<int64_t>(data.size()), **sums, 0, first)) << "the chunk before is whole";
  ASSERT_EQ(::ftruncate(raw, 5000), 0);
  EXPECT_EQ(file->read(4096, static_cast<int64_t>(data.size()), **sums, 0, back).error().code, ErrorCode::kObjectLost);
  ::close(raw);
}

TEST_F(SpillFileTest, DiscardedRangesGoBackToTheDisk) {
  ASSERT_TRUE(file->write(0, bytes_of(1 << 20, 5)));
  struct stat info {};
  ASSERT_EQ(::stat(path_to_spill_file().c_str(), &info), 0);
  const auto before = info.st_blocks;
  file->discard(0, 1 << 20);
  ASSERT_EQ(::stat(path_to_spill_file().c_str(), &info), 0);
  EXPECT_LT(info.st_blocks, before);
}

TEST_F(SpillFileTest, AFullDiskIsAnErrorAndNothingHalfWrittenStays) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  ::signal(SIGXFSZ, SIG_IGN);
  const rlimit low{1 << 20, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &low), 0);
  const auto written = file->write(0, bytes_of(3 << 20, 6));
  ::setrlimit(RLIMIT_FSIZE, &before);
  ::signal(SIGXFSZ, SIG_DFL);
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(written.error().message, HasSubstr(folder.string()));
  struct stat info {};
  ASSERT_EQ(::stat(path_to_spill_file().c_str(), &info), 0);
  EXPECT_EQ(info.st_blocks, 0);
}

TEST_F(SpillFileTest, WhatAKilledWorkerCouldLeaveIsRemovedAndOthersFilesAreNot) {
  const std::string mine = "volador-spill-" + short_id(node) + "-abcdef";
  std::ofstream(folder / mine) << "left";
  std::ofstream(folder / "thesis.txt") << "mine";
  std::ofstream(folder / "volador-spill-ffffffff-abcdef") << "another node's";
  ASSERT_TRUE(SpillFile::create(folder, node));
  EXPECT_FALSE(std::filesystem::exists(folder / mine));
  EXPECT_TRUE(std::filesystem::exists(folder / "thesis.txt"));
  EXPECT_TRUE(std::filesystem::exists(folder / "volador-spill-ffffffff-abcdef"));
}

TEST_F(SpillFileTest, AFolderThatCannotBeMadeSaysWhatToDo) {
  std::ofstream(base.path() / "plain") << "";
  const auto made = SpillFile::create(base.path() / "plain" / "x", node);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(made.error().message, HasSubstr("object_spill_directory"));
}

}  // namespace
}  // namespace volador::worker
