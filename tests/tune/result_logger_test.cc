#include "tune/results/result_logger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "temporary_directory.h"
#include "tune/results/result_text.h"

namespace volador::tune {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr TrialId kLoggedTrial{0x3f2a90c1};

ResultRow row(int64_t step, Metrics metrics, TrialId trial = kLoggedTrial) {
  return {.trial = trial,
          .metrics = std::move(metrics),
          .step = step,
          .time_this_iter_s = 0.5,
          .time_total_s = 0.5 * static_cast<double>(step),
          .reported = WallTime(std::chrono::seconds(1'700'000'000)),
          .hostname = "heron",
          .node = "b",
          .pid = 42};
}

std::vector<std::string> lines_of(const fs::path& path) {
  std::istringstream in(read_text(path));
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

class ResultLoggerTest : public ::testing::Test {
 protected:
  fs::path file(const std::string& name) const { return directory_.path() / to_string(kLoggedTrial) / name; }
  ResultLoggerOptions options() const {
    return {.directory = directory_.path(), .flush_interval = std::chrono::hours(1)};
  }
  TemporaryDirectory directory_;
};

TEST_F(ResultLoggerTest, WritesParamsResultsAndTable) {
  ResultLogger logger(options());
  logger.start_trial(kLoggedTrial, WallTime(std::chrono::seconds(1'700'000'000)),
                     Config{{"lr", 0.01}, {"model", {{"width", 32}}}});
  logger.log(row(1, {{"accuracy", 0.25}}));
  logger.log(row(2, {{"accuracy", 0.5}}));
  const auto status = logger.flush();
  EXPECT_FALSE(status.error);
  EXPECT_EQ(status.rows_written, 2);
  EXPECT_EQ(json::parse(read_text(file("params.json"))), json::parse(R"({"lr": 0.01, "model": {"width": 32}})"));
  const auto lines = lines_of(file("result.json"));
  ASSERT_EQ(lines.size(), 2U);
  const json second = json::parse(lines[1]);
  EXPECT_EQ(second["accuracy"], 0.5);
  EXPECT_EQ(second["training_iteration"], 2);
  EXPECT_EQ(second["time_this_iter_s"], 0.5);
  EXPECT_EQ(second["time_total_s"], 1);
  EXPECT_EQ(second["timestamp"], 1'700'000'000);
  EXPECT_EQ(second["trial_id"], "3f2a90c1");
  EXPECT_EQ(second["done"], false);
  EXPECT_EQ(second["hostname"], "heron");
  EXPECT_EQ(second["node"], "b");
  EXPECT_EQ(second["pid"], 42);
  const auto table = lines_of(file("progress.csv"));
  ASSERT_EQ(table.size(), 3U);
  EXPECT_EQ(table[0],
            "accuracy,training_iteration,time_this_iter_s,time_total_s,timestamp,date,trial_id,done,hostname,node,pid");
  EXPECT_THAT(table[2], ::testing::StartsWith("0.5,2,0.5,1,1700000000,"));
}

TEST_F(ResultLoggerTest, AColumnThatAppearsLaterIsKept) {
  ResultLogger logger(options());
  logger.log(row(1, {{"loss", 3}}));
  logger.flush();
  logger.log(row(2, {{"loss", 2}, {"accuracy", 0.5}}));
  logger.log(row(3, {{"eval, \"best\"", 7}}));
  EXPECT_FALSE(logger.flush().error);
  const auto table = lines_of(file("progress.csv"));
  ASSERT_EQ(table.size(), 4U);
  EXPECT_THAT(table[0], ::testing::EndsWith("pid,accuracy,\"eval, \"\"best\"\"\""));
  EXPECT_THAT(table[1], ::testing::EndsWith(",42,,"));
  EXPECT_THAT(table[2], ::testing::EndsWith(",42,0.5,"));
  EXPECT_THAT(table[3], ::testing::StartsWith(",3,"));
  EXPECT_THAT(table[3], ::testing::EndsWith(",42,,7"));
  logger.log(row(4, {{"loss", 1}}));
  EXPECT_FALSE(logger.flush().error);
  EXPECT_THAT(lines_of(file("progress.csv")).back(), ::testing::EndsWith(",42,,"));
}

TEST_F(ResultLoggerTest, NanIsNullInJsonAndInfinitiesAreTexts) {
  ResultLogger logger(options());
  logger.log(
      row(1, {{"a", std::numeric_limits<double>::quiet_NaN()}, {"b", -std::numeric_limits<double>::infinity()}}));
  logger.flush();
  const json line = json::parse(lines_of(file("result.json")).at(0));
  EXPECT_TRUE(line["a"].is_null());
  EXPECT_EQ(line["b"], "-inf");
  EXPECT_THAT(lines_of(file("progress.csv")).at(1), ::testing::StartsWith("nan,-inf,1,"));
}

TEST_F(ResultLoggerTest, AddedKeysWinOverReportedOnes) {
  ResultLogger logger(options());
  logger.log(row(3, {{"training_iteration", 99}, {"loss", 1}, {"pid", 7}}));
  logger.flush();
  const json line = json::parse(lines_of(file("result.json")).at(0));
  EXPECT_EQ(line["training_iteration"], 3);
  EXPECT_EQ(line["pid"], 42);
}

TEST_F(ResultLoggerTest, FailuresAreParagraphsOfErrorTxt) {
  ResultLogger logger(options());
  logger.log_error(kLoggedTrial, WallTime(std::chrono::seconds(1)), "attempt 1: std::runtime_error: out of luck");
  logger.log_error(kLoggedTrial, WallTime(std::chrono::seconds(2)), "attempt 2: signal 11");
  logger.flush();
  EXPECT_THAT(read_text(file("error.txt")), ::testing::AllOf(HasSubstr("out of luck\n\n"), HasSubstr("signal 11\n\n")));
}

TEST_F(ResultLoggerTest, WhatTheDiskRefusesIsKeptAndWrittenLater) {
  ResultLogger logger(options());
  logger.start_trial(kLoggedTrial, WallTime(std::chrono::seconds(1'700'000'000)), Config{{"lr", 1}});
  logger.log(row(1, {{"loss", 3}}));
  logger.flush();
  const std::string before = read_text(file("progress.csv"));
  fs::rename(file("progress.csv"), file("aside"));
  fs::create_directory(file("progress.csv"));
  logger.log(row(2, {{"loss", 2}}));
  auto status = logger.flush();
  ASSERT_TRUE(status.error);
  EXPECT_THAT(status.error->message, HasSubstr("progress.csv"));
  EXPECT_EQ(status.rows_unwritten, 1);
  EXPECT_EQ(status.rows_lost, 0);
  fs::remove(file("progress.csv"));
  fs::rename(file("aside"), file("progress.csv"));
  logger.log(row(3, {{"loss", 1}}));
  status = logger.flush();
  EXPECT_FALSE(status.error);
  EXPECT_EQ(status.rows_written, 3);
  EXPECT_EQ(status.rows_unwritten, 0);
  EXPECT_EQ(lines_of(file("progress.csv")).size(), 4U);
  EXPECT_EQ(lines_of(file("result.json")).size(), 3U);
  EXPECT_THAT(read_text(file("progress.csv")), ::testing::StartsWith(before));
}

TEST_F(ResultLoggerTest, AFullDiskNamesThePathAndCountsWhatIsLost) {
  fs::create_directories(directory_.path() / to_string(kLoggedTrial));
  fs::create_symlink("/dev/full", file("result.json"));
  auto small = options();
  small.unwritten_bytes_max = 2000;
  ResultLogger logger(small);
  for (int step = 1; step <= 100; ++step) logger.log(row(step, {{"loss", 1}}));
  const auto status = logger.flush();
  ASSERT_TRUE(status.error);
  EXPECT_EQ(status.error->code, ErrorCode::kUnavailable);
  EXPECT_THAT(status.error->message, ::testing::AllOf(HasSubstr("result.json"), HasSubstr("No space left")));
  EXPECT_GT(status.rows_unwritten, 0);
  EXPECT_GT(status.rows_lost, 0);
  EXPECT_EQ(status.rows_unwritten + status.rows_lost, 100);
}

TEST_F(ResultLoggerTest, ManyTrialsNeedNoDescriptorEach) {
  {
    rlimit limit{};
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    const rlimit few{64, limit.rlim_max};
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
    ResultLogger logger(options());
    for (uint32_t trial = 1; trial <= 100; ++trial) logger.log(row(1, {{"loss", 1}}, TrialId(trial)));
    EXPECT_FALSE(logger.flush().error);
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  }
  int found = 0;
  for (const auto& entry : fs::directory_iterator(directory_.path()))
    found += fs::exists(entry.path() / "result.json") ? 1 : 0;
  EXPECT_EQ(found, 100);
}

TEST_F(ResultLoggerTest, AShortQueueLosesNothing) {
  auto narrow = options();
  narrow.rows_waiting_max = 4;
  ResultLogger logger(narrow);
  for (int step = 1; step <= 500; ++step) logger.log(row(step, {{"loss", 1}}));
  EXPECT_EQ(logger.flush().rows_written, 500);
  EXPECT_EQ(lines_of(file("result.json")).size(), 500U);
}

TEST(ResultText, WideningRespectsQuotes) {
  std::string lines = "1,\"a\nb\"\n2,c\n";
  widen_csv(lines, 2);
  EXPECT_EQ(lines, "1,\"a\nb\",,\n2,c,,\n");
}

TEST(ResultText, JsonTextIsAlwaysValid) {
  const std::vector<std::string> texts{"plain",
                                       "quote\" back\\slash",
                                       std::string("nul\0 and \x01", 9),
                                       "fl\xc3\xbcgel 飞鱼",
                                       "bad \xff\xfe \xc3",
                                       "\xed\xa0\x80",
                                       "\xf0\x9f\x90\x9f",
                                       "\xf4\x90\x80\x80"};
  for (const std::string& text : texts) {
    std::string out;
    append_json_text(out, text);
    EXPECT_TRUE(json::accept(out)) << out;
  }
}

}  // namespace
}  // namespace volador::tune
