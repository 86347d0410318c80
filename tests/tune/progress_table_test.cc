#include "tune/display/progress_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "tune/display/live_display.h"

namespace volador::tune {
namespace {

using namespace std::chrono_literals;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

ProgressRow row(std::string trial, TrialStatus status, int64_t step, std::optional<double> value,
                std::string lr = "0.01") {
  return {.trial = std::move(trial),
          .status = status,
          .node = status == TrialStatus::kWaiting ? "" : "heron",
          .step = step,
          .value = value,
          .parameters = {std::move(lr), "32"}};
}

ProgressSnapshot snapshot() {
  ProgressSnapshot s;
  s.name = "digits";
  s.scheduler = "ASHA max_t 27, factor 3";
  s.metric = "accuracy";
  s.counts[static_cast<int>(TrialStatus::kRunning)] = 1;
  s.counts[static_cast<int>(TrialStatus::kStopped)] = 1;
  s.counts[static_cast<int>(TrialStatus::kFinished)] = 1;
  s.trials_total = 6;
  s.waiting_reason = "for a CPU: 2 of 2 in use";
  s.parameters = {"lr", "model.width"};
  s.rows = {row("3f2a90c1", TrialStatus::kFinished, 27, 0.98312),
            row("8be10d77", TrialStatus::kRunning, 9, 0.971, "0.0082"), row("11112222", TrialStatus::kStopped, 1, 0.5)};
  s.best = ProgressBest{"3f2a90c1", 0.98312, 27, {"0.01", "32"}};
  s.best_so_far = s.best;
  s.elapsed = 21s;
  s.directory = "~/volador_results/digits_2026-11-21_10-02-11";
  return s;
}

TEST(ProgressTable, ShowsCountsBestRowsAndDirectory) {
  EXPECT_THAT(progress_lines(snapshot(), {.columns = 140}),
              ElementsAre("digits · ASHA max_t 27, factor 3 · 6 trials: 1 running, 1 stopped, 1 finished, 3 waiting "
                          "(for a CPU: 2 of 2 in use) · 0:21",
                          "best 3f2a90c1  accuracy 0.9831 at step 27   lr 0.01  model.width 32",
                          " trial     status    node   step  accuracy      lr  model.width",
                          " 3f2a90c1  finished  heron    27    0.9831    0.01           32",
                          " 8be10d77  running   heron     9     0.971  0.0082           32",
                          " 11112222  stopped   heron     1       0.5    0.01           32",
                          " …  3 more waiting: volador list trials digits",
                          "results  ~/volador_results/digits_2026-11-21_10-02-11"));
}

TEST(ProgressTable, TheHeadlineBreaksInsteadOfLosingResourcesAndTime) {
  ProgressSnapshot s = snapshot();
  s.resources = "2 of 2 CPUs, 0.5 of 1 GPU";
  s.goes_on = true;
  s.left = TimeLeft{.seconds = 8, .low = 8, .high = 8};
  EXPECT_EQ(progress_lines(s, {.columns = 180})[0], progress_headline(s)) << "one line where it fits";
  const auto at_120 = progress_lines(s, {.columns = 120});
  EXPECT_EQ(at_120[0],
            "digits · ASHA max_t 27, factor 3 · 6 trials: 1 running, 1 stopped, 1 finished, 3 waiting (for a CPU: 2 of "
            "2 in use)");
  EXPECT_EQ(at_120[1], "  2 of 2 CPUs, 0.5 of 1 GPU · 0:21, about 0:08 left");
  s.waiting_reason = {};
  const auto at_80 = progress_lines(s, {.columns = 80});
  EXPECT_EQ(at_80[0], "digits · ASHA max_t 27, factor 3");
  EXPECT_EQ(at_80[1], "  6 trials: 1 running, 1 stopped, 1 finished, 3 waiting");
  EXPECT_EQ(at_80[2], "  2 of 2 CPUs, 0.5 of 1 GPU · 0:21, about 0:08 left");
  s.scheduler = "FIFO";
  EXPECT_EQ(progress_lines(s, {.columns = 80})[0],
            "digits · FIFO · 6 trials: 1 running, 1 stopped, 1 finished, 3 waiting");
}

TEST(ProgressTable, LongNodeNamesLeaveRoomForTheMetricAt80Columns) {
  ProgressSnapshot s = snapshot();
  for (ProgressRow& one : s.rows) one.node = "rack-17-chassis-04-of-the-machine-hall-gpu-node-03";
  const auto lines = progress_lines(s, {.columns = 80});
  EXPECT_THAT(lines, Contains(HasSubstr("rack-17-…node-03")));
  EXPECT_THAT(lines, Contains(HasSubstr("accuracy      lr  model.width")));
}

TEST(ProgressTable, SpeaksChinese) {
  const auto lines = progress_lines(snapshot(), {.columns = 100, .language = Language::kChinese});
  EXPECT_THAT(lines[1], HasSubstr("  6 个试验: 1 运行中"));
  EXPECT_THAT(lines, Contains(HasSubstr("最佳 3f2a90c1  accuracy 0.9831")));
  for (const std::string& line : lines) EXPECT_LE(display_width(line), 100) << line;
}

TEST(ProgressTable, HasAColumnOfResourcesWhereTheyChange) {
  ProgressSnapshot s = snapshot();
  for (ProgressRow& one : s.rows) one.resources = "cpus 1";
  s.rows[1].resources = "cpus 4, gpus 1";
  const auto lines = progress_lines(s, {.columns = 140});
  EXPECT_EQ(lines[2], " trial     status    node   step  accuracy  resources           lr  model.width");
  EXPECT_EQ(lines[4], " 8be10d77  running   heron     9     0.971  cpus 4, gpus 1  0.0082           32");
}

TEST(ProgressTable, NoLineIsWiderThanTheTerminal) {
  ProgressSnapshot s = snapshot();
  s.name = "数字识别数字识别";
  s.rows[1].node = "计算节点一二三四五六七八九十";
  s.rows.push_back(row("dead", TrialStatus::kFailed, 2, std::nullopt));
  s.rows.back().error = std::string(300, 'x');
  for (int columns = 20; columns < 200; ++columns) {
    for (const std::string& line : progress_lines(s, {.columns = columns})) {
      EXPECT_LE(display_width(line), columns) << line;
      EXPECT_EQ(line.find('\n'), std::string::npos);
    }
  }
}

TEST(ProgressTable, SaysHowManyTrialsAndColumnsAreCutOff) {
  ProgressSnapshot s = snapshot();
  s.rows.clear();
  for (int i = 0; i < 50; ++i) s.rows.push_back(row("run" + std::to_string(i), TrialStatus::kRunning, 1, 0.1 * i));
  for (int i = 0; i < 70; ++i) s.rows.push_back(row("end" + std::to_string(i), TrialStatus::kStopped, 1, 0.01 * i));
  s.counts[static_cast<int>(TrialStatus::kRunning)] = 50;
  s.counts[static_cast<int>(TrialStatus::kStopped)] = 70;
  s.counts[static_cast<int>(TrialStatus::kFinished)] = 0;
  s.trials_total = 130;
  const auto lines = progress_lines(s, {.columns = 48, .rows_max = 8});
  EXPECT_THAT(lines, Contains(HasSubstr("44 more running, 68 ended, 10 waiting")));
  EXPECT_THAT(lines, Contains(HasSubstr("more column")));
  EXPECT_THAT(lines, Contains(HasSubstr("run49")));
  EXPECT_THAT(lines, Contains(HasSubstr("end69")));
}

TEST(ProgressTable, FailedTrialsSayWhy) {
  ProgressSnapshot s = snapshot();
  for (int i = 0; i < 5; ++i) {
    s.rows.push_back(row("bad" + std::to_string(i), TrialStatus::kFailed, i, std::nullopt));
    s.rows.back().error = "std::runtime_error: out of luck\nsecond line";
  }
  const auto lines = progress_lines(s, {.columns = 100, .rows_max = 20});
  EXPECT_THAT(lines, Contains(" bad2 failed at step 2: std::runtime_error: out of luck"));
  EXPECT_THAT(lines, Contains(HasSubstr("2 more failed")));
}

TEST(ProgressTable, ShowsTheBestValueSoFarWhereItIsAnotherOne) {
  ProgressSnapshot s = snapshot();
  s.best_so_far = ProgressBest{"8be10d77", 0.99, 3, {}};
  EXPECT_EQ(progress_lines(s, {.columns = 140})[2], "best so far 8be10d77  accuracy 0.99 at step 3");
  s.best_so_far = ProgressBest{"3f2a90c1", 0.99, 20, {}};
  EXPECT_EQ(progress_best_so_far_line(s), "best so far 3f2a90c1  accuracy 0.99 at step 20") << "of the same trial";
  s.best.reset();
  EXPECT_EQ(progress_best_line(s), "");
}

TEST(ProgressTable, NanRanksLast) {
  ProgressSnapshot s = snapshot();
  s.rows[0].value = std::numeric_limits<double>::quiet_NaN();
  const auto lines = progress_lines(s, {.columns = 140});
  EXPECT_THAT(lines[5], HasSubstr("3f2a90c1"));
  EXPECT_THAT(lines[5], HasSubstr("nan"));
}

TEST(ProgressTable, ColourOnlyWhereAskedFor) {
  for (const std::string& line : progress_lines(snapshot(), {.columns = 100}))
    EXPECT_EQ(line.find('\x1b'), std::string::npos);
  EXPECT_THAT(progress_lines(snapshot(), {.columns = 100, .colour = true}), Contains(HasSubstr("\x1b[36mrunning ")));
}

TEST(ProgressTable, WidthCountsEastAsianAndCombiningCharacters) {
  EXPECT_EQ(display_width("飞鱼"), 4);
  EXPECT_EQ(display_width("e\xcc\x81"), 1);
  EXPECT_EQ(cut_to_width("飞鱼飞鱼", 5), "飞鱼…");
  EXPECT_EQ(cut_to_width("abc", 3), "abc");
  EXPECT_EQ(cut_to_width("abcd", 3), "ab…");
  EXPECT_EQ(cut_to_width("a\x1b[2Jb", 20), "a?[2Jb");
  EXPECT_EQ(cut_to_width("bad \xff end", 20), "bad ? end");
}

TEST(ProgressTable, FormatsTimesAndValues) {
  EXPECT_EQ(format_elapsed(21s), "0:21");
  EXPECT_EQ(format_elapsed(3723s), "1:02:03");
  EXPECT_EQ(format_value(0.98312), "0.9831");
  EXPECT_EQ(format_value(27), "27");
  EXPECT_EQ(format_value(1.234e-5), "1.234e-05");
  EXPECT_EQ(format_value(std::numeric_limits<double>::quiet_NaN()), "nan");
}

class LiveDisplayTest : public ::testing::Test {
 protected:
  LiveDisplayTest()
      : display_(
            {.terminal = [this] { return terminal_; }, .write = [this](std::string_view bytes) { out_ += bytes; }}) {}
  std::string taken() { return std::exchange(out_, {}); }

  FakeClock clock_;
  TerminalState terminal_;
  std::string out_;
  LiveDisplay display_;
};

TEST_F(LiveDisplayTest, DrawsInPlaceOnATerminalAtItsFrameRate) {
  terminal_ = {.is_terminal = true, .columns = 120, .rows = 40};
  display_.update(snapshot(), clock_.now());
  EXPECT_THAT(taken(), ::testing::Not(HasSubstr("\x1b[J")));
  display_.update(snapshot(), clock_.now());
  EXPECT_EQ(taken(), "");
  clock_.advance(100ms);
  display_.update(snapshot(), clock_.now());
  EXPECT_THAT(taken(), HasSubstr("\x1b[9A\r\x1b[J"));
  display_.print("(trial 3f2a90c1, node b) hello");
  const std::string printed = taken();
  EXPECT_LT(printed.find("\x1b[J"), printed.find("hello"));
  EXPECT_LT(printed.find("hello"), printed.find("digits ·"));
  display_.finish(snapshot());
  taken();
  display_.print("after");
  EXPECT_EQ(taken(), "after\n");
}

TEST_F(LiveDisplayTest, SaysNoticesInTheLanguageOfTheTerminal) {
  display_.say(reason("notice.cannot_pause", "3f2a90c1"));
  EXPECT_EQ(taken(), "trial 3f2a90c1 is not paused: it saves no checkpoint; it goes on\n");
  terminal_.language = Language::kChinese;
  display_.say(reason("notice.cannot_pause", "3f2a90c1"));
  EXPECT_EQ(taken(), "试验 3f2a90c1 没有暂停：它不保存检查点；它继续运行\n");
  display_.say("words of user code");
  EXPECT_EQ(taken(), "words of user code\n");
}

TEST_F(LiveDisplayTest, NeverDrawsMoreLinesThanTheTerminalHas) {
  terminal_ = {.is_terminal = true, .columns = 80, .rows = 5};
  display_.update(snapshot(), clock_.now());
  const std::string frame = taken();
  EXPECT_LE(std::count(frame.begin(), frame.end(), '\n'), 4);
}

TEST_F(LiveDisplayTest, PrintsPlainLinesOnChangesOnlyElsewhere) {
  display_.update(snapshot(), clock_.now());
  EXPECT_THAT(taken(),
              ::testing::AllOf(HasSubstr("digits ·"), HasSubstr("\nbest "), ::testing::Not(HasSubstr("\x1b"))));
  clock_.advance(6s);
  ProgressSnapshot later = snapshot();
  later.goes_on = true;
  later.left = TimeLeft{3723, 3600, 3800};
  EXPECT_THAT(progress_headline(later), HasSubstr(", about 1:02:03 left (1:00:00 to 1:03:20)"));
  later.left = TimeLeft{2, 2.1, 2.2};
  EXPECT_THAT(progress_headline(later), ::testing::EndsWith(", about 0:02 left"));
  later.left.reset();
  EXPECT_THAT(progress_headline(later), HasSubstr(", – left"));
  later.goes_on = false;
  later.elapsed = 27s;
  display_.update(later, clock_.now());
  EXPECT_EQ(taken(), "");
  clock_.advance(6s);
  later.counts[static_cast<int>(TrialStatus::kRunning)] = 2;
  display_.update(later, clock_.now());
  const std::string changed = taken();
  EXPECT_EQ(std::count(changed.begin(), changed.end(), '\n'), 1);
  later.counts[static_cast<int>(TrialStatus::kRunning)] = 3;
  clock_.advance(1s);
  display_.update(later, clock_.now());
  EXPECT_EQ(taken(), "");
  display_.finish(later);
  EXPECT_THAT(taken(), HasSubstr("results  "));
}

}  // namespace
}  // namespace volador::tune
