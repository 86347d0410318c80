#include "worker/logs/log_archive.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "runtime/ids.h"
#include "tests/temporary_directory.h"
#include "worker/logs/log_file.h"

namespace volador::worker {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class LogArchiveTest : public ::testing::Test {
 protected:
  LogArchiveTest() { fs::create_directory(logs()); }
  fs::path logs() const { return folder_.path() / "logs"; }
  fs::path worker_log() const { return folder_.path() / "worker.log"; }
  fs::path log(int restarts, const char* kind = "out") const {
    return logs() / (short_id(actor_) + "-" + std::to_string(restarts) + "." + kind);
  }

  // Writes "line 1" … "line N", every hundredth an error, to files of 1000 bytes.
  void write_lines(int count, const fs::path& path, int files_max = 100) const {
    LogFile file(path, {.file_bytes_max = 1000, .files_max = files_max});
    for (int i = 1; i <= count; ++i) file.write((i % 100 == 0 ? "error: line " : "line ") + std::to_string(i) + "\n");
  }
  protocol::ReadLog ask(int64_t from, int lines) const {
    protocol::ReadLog asked;
    asked.set_request(7);
    asked.set_actor_id(raw(actor_));
    asked.set_from(from);
    asked.set_lines(lines);
    return asked;
  }
  static std::vector<int64_t> numbers(const protocol::LogPart& part) {
    std::vector<int64_t> out;
    for (const auto& line : part.lines()) out.push_back(line.line());
    return out;
  }
  // Every line contains its number.
  static void expect_right_numbers(const protocol::LogPart& part) {
    for (const auto& line : part.lines())
      EXPECT_TRUE(line.text().ends_with("line " + std::to_string(line.line()))) << line.line() << ": " << line.text();
  }
  // Returns all search results, repeating the request while there is more.
  std::vector<int64_t> all_of(protocol::ReadLog asked, LogArchive& archive, int& asked_times) const {
    std::vector<int64_t> found;
    for (asked_times = 1;; ++asked_times) {
      const auto part = archive.read(asked);
      expect_right_numbers(part);
      const auto some = numbers(part);
      found.insert(asked.backward() ? found.begin() : found.end(), some.begin(), some.end());
      if (part.next() == 0 || asked_times > 1000) return found;
      asked.set_from(part.next());
    }
  }

  volador::TemporaryDirectory folder_;
  ActorId actor_ = id_from_raw<ActorId>(std::string(16, 'a'));
};

TEST_F(LogArchiveTest, AnyLineOfARotatedLogByItsNumber) {
  write_lines(1000, log(0));
  ASSERT_TRUE(fs::exists(log(0).string() + ".5")) << "it was rotated";
  LogArchive archive(worker_log(), logs());
  for (const int64_t from : {1, 2, 99, 100, 500, 777, 998}) {
    const auto part = archive.read(ask(from, 3));
    EXPECT_EQ(part.request(), 7u);
    EXPECT_EQ(part.first(), 1);
    EXPECT_EQ(part.last(), 1000);
    EXPECT_THAT(numbers(part), ElementsAre(from, from + 1, from + 2));
    expect_right_numbers(part);
  }
  EXPECT_THAT(numbers(archive.read(ask(999, 50))), ElementsAre(999, 1000));
  EXPECT_THAT(numbers(archive.read(ask(0, 2))), ElementsAre(999, 1000)) << "the newest ones";
  EXPECT_THAT(numbers(archive.read(ask(1001, 2))), IsEmpty());
  EXPECT_THAT(numbers(archive.read(ask(INT64_MAX, 2))), IsEmpty());
  EXPECT_EQ(archive.read(ask(1, 500)).lines_size(), 500) << "over several files";
}

TEST_F(LogArchiveTest, NumbersStayWhereTheOldestLinesAreGone) {
  write_lines(1000, log(0), 3);
  LogArchive archive(worker_log(), logs());
  auto part = archive.read(ask(1, 1));
  EXPECT_GT(part.first(), 600);
  EXPECT_EQ(part.last(), 1000);
  EXPECT_THAT(numbers(part), ElementsAre(part.first())) << "the first that is still there";
  expect_right_numbers(part);
  {
    LogFile again(log(0), {.file_bytes_max = 1000, .files_max = 3});  // Another worker continues.
    for (int i = 1001; i <= 1500; ++i) again.write("line " + std::to_string(i) + "\n");
  }
  part = archive.read(ask(1480, 2));
  EXPECT_EQ(part.last(), 1500);
  expect_right_numbers(part);
  fs::remove(log(0).string() + ".2");  // Removed by the limit on all logs of the node.
  EXPECT_EQ(archive.read(ask(0, 1)).last(), 1500);
  expect_right_numbers(archive.read(ask(1, 10)));
}

TEST_F(LogArchiveTest, ASearchReadsALimitedPartAndGoesOnWhereItSays) {
  write_lines(1000, log(0));
  LogArchive archive(worker_log(), logs(), {.search_bytes_max = 2500});
  const std::vector<int64_t> errors{100, 200, 300, 400, 500, 600, 700, 800, 900, 1000};
  for (const bool backward : {false, true}) {
    for (const int lines : {1, 3, 1000}) {
      auto asked = ask(0, lines);
      asked.set_trouble(true);
      asked.set_backward(backward);
      int times = 0;
      EXPECT_EQ(all_of(asked, archive, times), errors) << lines << (backward ? " backward" : "");
      EXPECT_GE(times, 5) << "each answer read a part only";
    }
  }
  auto asked = ask(350, 1);
  asked.set_trouble(true);
  int times = 0;
  EXPECT_THAT(all_of(asked, archive, times).front(), 400) << "from that line on";
  asked.set_backward(true);
  EXPECT_THAT(all_of(asked, archive, times).back(), 300);
  asked = ask(0, 1000);
  asked.set_find("LINE 77");
  EXPECT_EQ(all_of(asked, archive, times).size(), 11u) << "77 and 770 to 779";
}

TEST_F(LogArchiveTest, ASearchThatFindsEveryLineKeepsToItsLimit) {
  write_lines(1000, log(0));
  LogArchive archive(worker_log(), logs(), {.lines_max = 50});
  for (const bool backward : {false, true}) {
    auto asked = ask(0, 1000);
    asked.set_find("line");
    asked.set_backward(backward);
    EXPECT_EQ(archive.read(asked).lines_size(), 50);
    int times = 0;
    EXPECT_EQ(all_of(asked, archive, times).size(), 1000u);
  }
}

TEST_F(LogArchiveTest, LinesAndAnswersAreLimitedInBytes) {
  std::ofstream(log(0)) << std::string(100, 'x') + "\n"
                        << std::string(99, 'x') + "é\n"
                        << "short\n";
  LogArchive archive(worker_log(), logs(), {.answer_bytes_max = 150, .line_bytes_max = 100});
  const auto part = archive.read(ask(1, 10));
  ASSERT_EQ(part.lines_size(), 2) << "the answer is full";
  EXPECT_EQ(part.lines(0).text(), std::string(100, 'x'));
  EXPECT_EQ(part.lines(1).text(), std::string(99, 'x') + " … [2 bytes cut]") << "no letter is cut in two";
}

TEST_F(LogArchiveTest, RunsOfAnActorThatWasRestarted) {
  write_lines(10, log(0));
  write_lines(20, log(2));
  write_lines(3, log(2, "err"));
  std::ofstream(logs() / (short_id(actor_) + "0-9.out")) << "another actor\n";
  LogArchive archive(worker_log(), logs());
  auto asked = ask(0, 1);
  auto part = archive.read(asked);
  EXPECT_EQ(part.run(), 3) << "the newest";
  ASSERT_EQ(part.runs_size(), 2);
  EXPECT_EQ(part.runs(0).run(), 1);
  EXPECT_EQ(part.runs(1).run(), 3);
  EXPECT_GT(part.runs(1).err_bytes(), 0);
  EXPECT_EQ(part.last(), 20);
  asked.set_run(1);
  EXPECT_EQ(archive.read(asked).last(), 10);
  asked.set_is_stderr(true);
  part = archive.read(asked);
  EXPECT_EQ(part.error().code(), 0) << "nothing was written there";
  EXPECT_EQ(part.last(), 0);
  asked.set_actor_id(std::string(16, 'b'));
  asked.set_run(0);
  EXPECT_NE(archive.read(asked).error().message().find("printed nothing"), std::string::npos);
}

TEST_F(LogArchiveTest, TheWorkersOwnLogWithItsOlderFiles) {
  std::ofstream(folder_.path() / "worker.1.log") << "line 1\nline 2\n";
  std::ofstream(worker_log()) << "line 3\nline 4 is being wri";
  protocol::ReadLog asked;
  asked.set_lines(10);
  LogArchive archive(worker_log(), logs());
  EXPECT_THAT(numbers(archive.read(asked)), ElementsAre(1, 2, 3));
  expect_right_numbers(archive.read(asked));
}

}  // namespace
}  // namespace volador::worker
