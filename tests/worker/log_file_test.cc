#include "worker/logs/log_file.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "tests/temporary_directory.h"
#include "worker/core/rate_limit.h"

namespace volador::worker {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

TEST(LogFile, KeepsTheNewestFilesOfLimitedSize) {
  const volador::TemporaryDirectory folder;
  const fs::path path = folder.path() / "a.out";
  LogFile file(path, {.file_bytes_max = 100, .files_max = 3});
  EXPECT_FALSE(fs::exists(path)) << "made by the first line";
  for (int i = 0; i < 100; ++i) file.write("line number " + std::to_string(i) + "\n");
  uintmax_t count = 0;
  for (const auto& entry : fs::directory_iterator(folder.path())) {
    EXPECT_LE(entry.file_size(), 100u);
    if (entry.path() != lines_before_path(path)) ++count;
  }
  EXPECT_EQ(count, 3u);
  std::ifstream newest(path);
  EXPECT_EQ(read_lines_before(path), 100 - std::count(std::istreambuf_iterator<char>(newest), {}, '\n'));
  std::ifstream in(path);
  std::string last;
  for (std::string line; std::getline(in, line);) last = line;
  EXPECT_EQ(last, "line number 99");
}

TEST(LogFile, ASecondWriterGoesOnWhereTheFirstEnded) {
  const volador::TemporaryDirectory folder;
  LogFile(folder.path() / "a").write("one\n");
  LogFile(folder.path() / "a").write("two\n");
  std::ifstream in(folder.path() / "a");
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  EXPECT_EQ(text, "one\ntwo\n");
}

TEST(LogFile, AFolderThatIsNotThereLosesLinesQuietly) {
  LogFile file("/nowhere/at/all");
  file.write("one\n");
  file.write("two\n");
}

TEST(PruneLogs, TheOldestGoFirst) {
  const volador::TemporaryDirectory folder;
  for (int i = 0; i < 5; ++i) {
    const fs::path path = folder.path() / std::to_string(i);
    std::ofstream(path) << std::string(100, 'x');
    fs::last_write_time(path, fs::file_time_type() + std::chrono::seconds(i));
  }
  EXPECT_EQ(prune_logs(folder.path(), 1000, 10), 0u);
  EXPECT_EQ(prune_logs(folder.path(), 1000, 4), 1u);
  EXPECT_EQ(prune_logs(folder.path(), 250, 10), 2u);
  EXPECT_TRUE(fs::exists(folder.path() / "4"));
  EXPECT_FALSE(fs::exists(folder.path() / "2"));
  EXPECT_EQ(prune_logs(folder.path() / "none", 0, 0), 0u);
}

TEST(RateLimit, ABurstPassesThenThePaceHolds) {
  RateLimit limit(10, 5);
  BootTime now{100s};
  int passed = 0;
  for (int i = 0; i < 20; ++i) passed += limit.take(now, 1) ? 1 : 0;
  EXPECT_EQ(passed, 5);
  for (int i = 0; i < 100; ++i) passed += limit.take(now += 10ms, 1) ? 1 : 0;
  EXPECT_NEAR(passed, 15, 1);
  EXPECT_EQ(limit.spend(now += 10s, 5), 0ns);
  EXPECT_EQ(limit.spend(now, 10), 1s);
}

}  // namespace
}  // namespace volador::worker
