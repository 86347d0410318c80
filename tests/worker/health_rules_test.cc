#include "worker/resources/health_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/language/health_reason.h"

namespace volador::worker {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class HealthRulesTest : public ::testing::Test {
 protected:
  std::vector<std::string> found() const {
    std::vector<std::string> texts;
    for (const protocol::HealthProblem& one : rules_.problems()) texts.push_back(health_reason(one).text());
    return texts;
  }
  void check(const std::string& output, int code = 0) {
    rules_.on_check({.program = "check.sh", .code = code, .output = output});
  }
  static HealthSample with_gpu(HealthSample::Gpu gpu) { return {.gpus = {std::move(gpu)}}; }

  HealthRules rules_{{0, 1}, {0, 1}};
};

TEST_F(HealthRulesTest, OneOddSampleNeitherMakesNorEndsAProblem) {
  const HealthSample good{.cards = {{.name = "eth0", .up = true}}};
  const HealthSample bad{.cards = {{.name = "eth0", .up = false}}};
  rules_.on_sample(good);
  rules_.on_sample(bad);
  EXPECT_THAT(found(), IsEmpty());
  rules_.on_sample(good);
  rules_.on_sample(bad);
  EXPECT_THAT(found(), IsEmpty()) << "the two bad samples are not in a row";
  rules_.on_sample(bad);
  EXPECT_THAT(found(), ElementsAre("network card eth0 is down"));
  rules_.on_sample(good);
  rules_.on_sample(good);
  rules_.on_sample(bad);
  rules_.on_sample(good);
  rules_.on_sample(good);
  EXPECT_THAT(found(), ElementsAre("network card eth0 is down")) << "the three good samples are not in a row";
  rules_.on_sample(good);
  EXPECT_THAT(found(), IsEmpty());
}

TEST_F(HealthRulesTest, TheFirstSampleCountsAtOnce) {
  rules_.on_sample(with_gpu({.index = 1, .error = "GPU is lost"}));
  EXPECT_THAT(found(), ElementsAre("GPU 1: the driver does not reach it (GPU is lost)"));
  EXPECT_EQ(rules_.problems()[0].gpu(), 1);
}

TEST_F(HealthRulesTest, EveryFaultOfAGpuHasItsSentence) {
  rules_.on_sample(with_gpu({.index = 0,
                             .memory_errors = 3,
                             .remap_failed = true,
                             .reset_due = true,
                             .too_hot = true,
                             .temperature_celsius = 93.4,
                             .xids = {79}}));
  EXPECT_THAT(found(), ::testing::UnorderedElementsAre("GPU 0: memory errors that could not be corrected: 3",
                                                       "GPU 0: a faulty memory row could not be replaced",
                                                       "GPU 0: faulty memory is replaced when the GPU is reset",
                                                       "GPU 0: it slows down because it is too hot (93 °C)",
                                                       "GPU 0: the driver reported the critical error Xid 79"));
}

TEST_F(HealthRulesTest, AGraveErrorOfTheDriverLastsAndFaultsOfProgramsDoNotCount) {
  rules_.on_sample({});
  rules_.on_sample(with_gpu({.index = 1, .xids = {13, 31, 43}}));
  EXPECT_THAT(found(), IsEmpty());
  rules_.on_sample(with_gpu({.index = 1, .xids = {13, 79}}));
  for (int i = 0; i < 5; ++i) rules_.on_sample(with_gpu({.index = 1}));
  EXPECT_THAT(found(), ElementsAre("GPU 1: the driver reported the critical error Xid 79"));
}

TEST_F(HealthRulesTest, FileSystemsAreFullOrReadOnly) {
  rules_.on_sample({.file_systems = {{.path = "/a", .free_bytes = HealthRules::kFullBytes},
                                     {.path = "/b", .free_bytes = 1 << 20},
                                     {.path = "/c", .free_bytes = 0, .read_only = true}}});
  EXPECT_THAT(found(), ElementsAre("file system /b is full (1 MiB free)", "file system /c is read-only"));
}

TEST_F(HealthRulesTest, LinesOfTheCheckProgramBelongToGpusOrToTheNode) {
  check("gpu 1: 12 ECC errors\n  GPU 1 : row remap pending \nfan 3 stands still\n\nGPU 7: is none of this node\n");
  EXPECT_THAT(found(), ::testing::UnorderedElementsAre("GPU 1: check.sh: 12 ECC errors; row remap pending",
                                                       "check.sh: fan 3 stands still; GPU 7: is none of this node"));
  check("");
  EXPECT_THAT(found(), IsEmpty()) << "it passed";
}

TEST_F(HealthRulesTest, ACheckProgramThatFailsWithoutALineIsAProblem) {
  check("", 3);
  EXPECT_THAT(found(), ElementsAre("check.sh failed and printed no reason (exit code 3)"));
  check("disk broken\n", 3);
  EXPECT_THAT(found(), ElementsAre("check.sh: disk broken"));
  rules_.on_check({.program = "check.sh", .end = CheckResult::End::kSignaled, .code = 11});
  EXPECT_THAT(found(), ElementsAre("check.sh failed and printed no reason (signal 11)"));
  rules_.on_check({.program = "check.sh", .end = CheckResult::End::kTimedOut, .output = "gpu 0: odd\n", .timeout = 2s});
  EXPECT_THAT(found(), ElementsAre("GPU 0: check.sh: odd", "check.sh did not end within 2.00 s"));
  rules_.on_check({.program = "check.sh", .end = CheckResult::End::kNotStarted, .error = "no such file"});
  EXPECT_THAT(found(), ElementsAre("check.sh cannot be started: no such file"));
}

TEST_F(HealthRulesTest, OutputOfTheCheckProgramIsBoundedAndPlain) {
  std::string lines;
  for (int i = 0; i < 1000; ++i) lines += "gpu 0: line " + std::to_string(i) + std::string(500, 'x') + "\x1b[31m\xff\n";
  check(lines);
  ASSERT_EQ(rules_.problems().size(), 1U);
  EXPECT_LE(rules_.problems()[0].detail().size(), HealthRules::kTextBytesMax);
  EXPECT_THAT(rules_.problems()[0].detail(), HasSubstr("line 1"));
  EXPECT_EQ(rules_.problems()[0].detail().find('\x1b'), std::string::npos);
}

TEST_F(HealthRulesTest, AReadingThatHangsIsAProblemWhileItDoes) {
  const BootTime start{100s};
  for (BootTime now = start; now < start + HealthRules::kSilent; now += 1s) {
    rules_.on_look(now, start, true);
    EXPECT_THAT(found(), IsEmpty());
  }
  rules_.on_look(start + HealthRules::kSilent, start, true);
  EXPECT_THAT(found(), ElementsAre("GPU 0: the driver has not answered for 30 s",
                                   "GPU 1: the driver has not answered for 30 s"));
  rules_.on_look(start + 31s, std::nullopt, false);
  EXPECT_THAT(found(), IsEmpty());
}

TEST_F(HealthRulesTest, AStoppedProcessIsNoHangingReading) {
  const BootTime start{100s};
  rules_.on_look(start, start, false);
  rules_.on_look(start + 1h, start, false);
  EXPECT_THAT(found(), IsEmpty());
  for (int second = 1; second <= 30; ++second) rules_.on_look(start + 1h + std::chrono::seconds(second), start, false);
  EXPECT_THAT(found(), ElementsAre("a file system has not answered for 30 s"));
}

}  // namespace
}  // namespace volador::worker
