#include "worker/logs/log_tails.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <fstream>

#include "runtime/files/file_tail.h"
#include "tests/temporary_directory.h"

namespace volador::worker {
namespace {

using ::testing::ElementsAre;

class LogTails : public ::testing::Test {
 protected:
  LogTails() { std::filesystem::create_directory(logs()); }
  std::filesystem::path logs() const { return folder_.path() / "logs"; }
  std::filesystem::path log() const { return folder_.path() / "worker.log"; }
  // Each call gives the file a later modification time.
  void write(const std::filesystem::path& path, const std::string& text) {
    std::ofstream(path) << text;
    age_ += std::chrono::seconds(1);
    std::filesystem::last_write_time(path, std::filesystem::file_time_type{} + age_);
  }
  protocol::LogTails read(int lines, bool hosts, const LogTailLimits& limits = {}) {
    protocol::ReadLogs asked;
    asked.set_request(7);
    asked.set_lines(lines);
    asked.set_hosts(hosts);
    return read_log_tails(asked, log(), logs(), limits);
  }
  volador::TemporaryDirectory folder_;
  std::chrono::seconds age_{0};
};

TEST_F(LogTails, TheWorkersOwnLogComesFirstAndOlderFilesBeforeNewerOnes) {
  write(log(), "a\nb\nc\n");
  write(logs() / "1111-0.out", "one\ntwo\n");
  write(logs() / "2222-0.err", "ouch\n");
  write(logs() / "2222-0.out.1", "rotated away\n");
  write(logs() / "3333-0.out", "");
  const auto tails = read(2, true);
  EXPECT_EQ(tails.request(), 7u);
  ASSERT_EQ(tails.tails_size(), 3);
  EXPECT_EQ(tails.tails(0).source(), "worker");
  EXPECT_THAT(tails.tails(0).lines(), ElementsAre("b", "c"));
  EXPECT_EQ(tails.tails(1).source(), "1111-0");
  EXPECT_EQ(tails.tails(2).source(), "2222-0");
  EXPECT_TRUE(tails.tails(2).is_stderr());
  EXPECT_EQ(read(2, false).tails_size(), 1);
}

TEST_F(LogTails, BeyondTheLimitsOlderFilesAreLeftOutAndCounted) {
  write(log(), "a\n");
  for (int i = 0; i < 5; ++i) write(logs() / (std::to_string(i) + "-0.out"), std::string(100, 'x') + "\n");
  const auto few = read(10, true, {.files_max = 2});
  ASSERT_EQ(few.tails_size(), 3);
  EXPECT_EQ(few.tails(2).source(), "4-0");
  EXPECT_EQ(few.files_left_out(), 3);
  const auto small = read(10, true, {.bytes_max = 250});
  EXPECT_GE(small.files_left_out(), 2);
  EXPECT_LT(small.ByteSizeLong(), 600u);
}

TEST_F(LogTails, AMissingLogOfTheWorkerIsSaidAndTheRestStillComes) {
  write(logs() / "1111-0.out", "one\n");
  const auto tails = read(10, true);
  EXPECT_NE(tails.error().message().find("worker.log"), std::string::npos);
  ASSERT_EQ(tails.tails_size(), 1);
}

TEST(FileTail, GivesWholeLinesOnly) {
  const volador::TemporaryDirectory folder;
  const auto file = folder.path() / "log";
  std::ofstream(file) << "first line\nsecond\nthird\nbeing writ";
  EXPECT_THAT(tail_of_file(file, 2, 1000)->lines, ElementsAre("second", "third"));
  EXPECT_EQ(tail_of_file(file, 2, 1000)->end, 24);
  EXPECT_THAT(tail_of_file(file, 9, 20)->lines, ElementsAre("third")) << "the second is cut by the limit of bytes";
  EXPECT_EQ(tail_of_file(folder.path() / "none", 2, 1000).error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace volador::worker
