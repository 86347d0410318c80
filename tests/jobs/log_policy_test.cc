// Log policies: which lines match, and what a match does to the job.
#include "jobs/log_policy.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "jobs/job_core.h"
#include "jobs/job_spec.h"
#include "jobs/job_yaml.h"
#include "runtime/node_name_rule.h"
#include "runtime/protocol/control.pb.h"
#include "runtime/protocol/volador/v1/jobs.pb.h"
#include "tests/jobs/job_core_harness.h"

namespace volador::jobs {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr const char* kGuideLine = "this iteration hardware time is 2201.521 and e2e time is 3317.794921875 ms.";

// "0:line" for each match, the stream cut into pieces of this size.
std::vector<std::string> matches_of(const std::vector<LogRule>& rules, std::string_view stream, size_t piece = 7) {
  auto matcher = LogMatcher::create(rules);
  EXPECT_TRUE(matcher) << matcher.error().message;
  std::vector<std::string> out;
  const auto found = [&](size_t rule, std::string_view line) { out.push_back(fmt::format("{}:{}", rule, line)); };
  for (size_t at = 0; at < stream.size(); at += piece) (*matcher)->feed(stream.substr(at, piece), found);
  (*matcher)->end(found);
  return out;
}

TEST(LogMatcherTest, FindsPatternsAnywhereInALine) {
  const std::string stream = "loss 1\nCUDA error: out of memory\nloss 2\n\nUncorrectable ECC error on gpu 3";
  for (size_t piece = 1; piece < 80; ++piece) {
    EXPECT_THAT(matches_of({{"out of memory"}, {"ECC .* gpu (\\d)"}}, stream, piece),
                ElementsAre("0:CUDA error: out of memory", "1:Uncorrectable ECC error on gpu 3"));
    EXPECT_THAT(matches_of({{"^loss 2$"}}, stream, piece), ElementsAre("0:loss 2"));
    EXPECT_THAT(matches_of({{"1[^0-9]*2"}, {"memory\\sloss"}}, stream, piece), IsEmpty()) << "no match over two lines";
  }
}

TEST(LogMatcherTest, TheRatioOfTheGuidesLineIsCompared) {
  const std::string line = fmt::format("step 7\n{}\n", kGuideLine);  // 0.66354945
  EXPECT_THAT(matches_of({{"", 0.66}}, line), ElementsAre(fmt::format("0:{}", kGuideLine)));
  EXPECT_THAT(matches_of({{"", 0.67}}, line), IsEmpty());
  EXPECT_THAT(matches_of({{"", 0.6}}, "the hardware time is 9 and e2e time is 1 ms\nhardware/e2e 0.9\n"), IsEmpty());
  EXPECT_THAT(matches_of({{"", 0.6}}, "this iteration hardware time is 1.2.3 and e2e time is 1 ms.\n"), IsEmpty());
  EXPECT_THAT(matches_of({{"", 0.6}}, "this iteration hardware time is 1 and e2e time is 0 ms.\n"), IsEmpty());
  EXPECT_THAT(matches_of({{"(\\d+) of (\\d+) slow", 0.5}}, "3 of 4 slow\n1 of 4 slow\n"), ElementsAre("0:3 of 4 slow"));
}

TEST(LogMatcherTest, PiecesOfAnyStreamGiveTheSameMatches) {
  std::mt19937 random(5);
  for (int round = 0; round < 100; ++round) {
    std::string stream;
    for (int i = 0; i < 200; ++i) stream += "ab\nc"[random() % 4];
    const std::vector<LogRule> rules{{"a+b"}, {"c$"}, {"^b"}};
    const auto whole = matches_of(rules, stream, stream.size());
    auto pieces = matches_of(rules, stream, 1 + random() % 9);
    std::vector<std::string> sorted = whole;
    std::ranges::sort(sorted);
    std::ranges::sort(pieces);
    EXPECT_EQ(pieces, sorted);
  }
}

TEST(LogMatcherTest, ALongLineNeedsLittleMemory) {
  const std::string line = std::string(100'000, 'x') + "NaN\n";
  EXPECT_THAT(matches_of({{"NaN"}}, line, 4096), SizeIs(1));
}

// ---- the specification ----

v1::JobSpec with_policy(const std::string& pattern, const std::string& action, double ratio = 0) {
  v1::JobSpec spec = core_spec(4);
  v1::LogPolicy& policy = *spec.add_log_policies();
  policy.set_pattern(pattern);
  policy.set_action(action);
  policy.set_ratio_above(ratio);
  return spec;
}

TEST(LogPolicySpec, ErrorsNameThePolicyAndThePlace) {
  const auto refused = [](const v1::JobSpec& spec) {
    const auto checked = checked_spec(spec);
    return checked ? std::string() : checked.error().message;
  };
  EXPECT_EQ(refused(with_policy("CUDA error", "label")), "");
  EXPECT_EQ(refused(with_policy("", "notify", 0.66)), "");
  EXPECT_EQ(
      refused(with_policy("a", "mail")),
      "log_policies, number 1: action: expected label, notify, exclude_node, cancel_retries or move, got \"mail\"");
  EXPECT_EQ(refused(with_policy("loss [nan", "label")),
            "log_policies, number 1: pattern: \"loss [nan\" is no regular expression: missing ]: [nan at character 6");
  EXPECT_THAT(refused(with_policy("", "label")), HasSubstr("pattern: expected a regular expression"));
  EXPECT_THAT(refused(with_policy("(a)", "label", 0.5)), HasSubstr("it has two groups, whose numbers are divided"));
  EXPECT_THAT(refused(with_policy("a", "move")), HasSubstr("only a job that resumes can be moved; give max_resumes"));
  EXPECT_THAT(refused(with_policy("a", "label", -1)), HasSubstr("ratio_above"));
}

TEST(LogPolicySpec, YamlHasAListOfMaps) {
  const auto read = jobs_from_yaml(
      "command: [a]\nlog_policies:\n  - {pattern: 'CUDA', action: exclude_node, label: cuda}\n  - {ratio_above: 0.66, "
      "action: notify}\n",
      "job.yaml");
  ASSERT_TRUE(read) << read.error().message;
  ASSERT_EQ(read->base.log_policies_size(), 2);
  EXPECT_EQ(read->base.log_policies(0).label(), "cuda");
  EXPECT_EQ(read->base.log_policies(1).ratio_above(), 0.66);
  EXPECT_THAT(jobs_from_yaml("log_policies: {a: b}", "job.yaml").error().message,
              HasSubstr("job.yaml:1:15: log_policies: expected a list of maps"));
  EXPECT_THAT(jobs_from_yaml("log_policies: [{patern: b}]", "job.yaml").error().message,
              HasSubstr("did you mean pattern?"));
}

// ---- the state machine ----

// Nodes n0 to n2 with 4 GPUs each.
class LogPolicyCoreTest : public JobCoreTest {
 protected:
  LogPolicyCoreTest() {
    for (int i = 0; i < 3; ++i) node(fmt::format("n{}", i), 4);
    look();
    sent_.clear();
  }
  void matches(const std::string& id, const std::string& line, int64_t known = 0, int rank = 0) {
    deliver([&, from = actor(id, rank)] { core_->on_log_matches(from, known, {{.policy = 0, .line = line}}, now_); });
  }
};

TEST_F(LogPolicyCoreTest, RanksThatRunAreWatched) {
  const std::string id = running(with_policy("NaN", "label"));
  running(core_spec());
  ASSERT_THAT(core_->watched_ranks(), SizeIs(1));
  EXPECT_EQ(core_->watched_ranks()[0].actor, actor(id));
  EXPECT_EQ(core_->watched_ranks()[0].known, 0);
  twice_ = true;
  matches(id, "loss NaN");
  EXPECT_EQ(core_->watched_ranks()[0].known, 1);
  restart();
  connect();
  tell(actor(id), protocol::ALIVE);
  EXPECT_EQ(core_->watched_ranks()[0].known, 1);
  EXPECT_THAT(job(id).labels(), ElementsAre("NaN"));
}

TEST_F(LogPolicyCoreTest, NotifyIsAnEventOfTheJob) {
  const std::string id = running(with_policy("NaN", "notify"));
  core_->on_log_matches(actor(id), 0, {{.policy = 0, .line = "loss NaN"}}, now_);
  const JobActions actions = core_->take();
  ASSERT_THAT(actions.events, SizeIs(1));
  EXPECT_EQ(actions.events[0].text, "job alert");
  const std::map<std::string, std::string> fields(actions.events[0].fields.begin(), actions.events[0].fields.end());
  EXPECT_EQ(fields.at("job"), id);
  EXPECT_EQ(fields.at("policy"), "NaN");
  EXPECT_EQ(fields.at("line"), "loss NaN");
  EXPECT_EQ(fields.at("node"), "n0");
  EXPECT_THAT(job(id).labels(), ElementsAre("NaN"));
  EXPECT_THAT(kills(), IsEmpty());
}

TEST_F(LogPolicyCoreTest, AnExcludedNodeIsAvoidedByLaterAttempts) {
  v1::JobSpec spec = with_policy("ECC", "exclude_node");
  spec.set_max_restarts(3);
  const std::string id = running(spec);
  ASSERT_EQ(job(id).ranks(0).node(), "n0");
  matches(id, "ECC error");
  EXPECT_EQ(state(id), "running");
  exits(id, 1);
  look();
  EXPECT_THAT(job(id).avoids(), ElementsAre("n0"));
  EXPECT_EQ(job(id).ranks(0).node(), "n1");
  ASSERT_THAT(spawns(), SizeIs(1));
  EXPECT_EQ(spawns()[0].spec().wishes().node(), "n1") << "the head would choose by itself";
}

TEST_F(LogPolicyCoreTest, AnExcludedNodeIsAvoidedByTheNextRunsOfATrial) {
  v1::JobSpec spec = with_policy("ECC", "exclude_node");
  spec.set_trial("57.1");
  const std::string first = running(spec);
  ASSERT_EQ(job(first).ranks(0).node(), "n0");
  matches(first, "ECC error");
  exits(first, 1);
  look();
  spec.set_trial("57.3");  // The second run was never submitted.
  EXPECT_THAT(job(submit(spec)).avoids(), ElementsAre("n0"));
  restart();
  connect();
  spec.set_trial("57.4");
  EXPECT_THAT(job(submit(spec)).avoids(), ElementsAre("n0"));
  spec.set_trial("58.1");
  EXPECT_THAT(job(submit(spec)).avoids(), IsEmpty()) << "another trial";
}

TEST_F(LogPolicyCoreTest, AGroupAvoidsTheNodeByARule) {
  v1::JobSpec spec = with_policy("ECC", "exclude_node");
  spec.set_nodes(2);
  spec.set_max_restarts(3);
  const std::string id = running(spec);
  matches(id, "ECC error", 0, 1);
  exits(id, 1, 1);
  killed_and_gone(id);
  ASSERT_THAT(sent_kinds(), testing::Contains("create_group"));
  const auto group = std::ranges::find_if(sent_, [](const auto& each) { return each.has_create_group(); });
  const protocol::GroupSpec& asked = group->create_group().spec();
  ASSERT_EQ(asked.bundle_labels_size(), 2);
  EXPECT_EQ(asked.bundle_labels(0).rules(0).key(), kNodeNameKey);
  EXPECT_EQ(asked.bundle_labels(0).rules(0).op(), protocol::LabelRule::NOT_IN);
  EXPECT_THAT(asked.bundle_labels(0).rules(0).values(), ElementsAre("n1"));
}

TEST_F(LogPolicyCoreTest, CancelledRetriesMakeTheFailureFinal) {
  v1::JobSpec spec = with_policy("CUDA out of memory", "cancel_retries");
  spec.set_max_restarts(3);
  const std::string id = running(spec);
  exits(id, 1);
  look();
  EXPECT_EQ(job(id).restarts(), 1) << "without a match it starts again";
  run(id);
  matches(id, "CUDA out of memory");
  exits(id, 1);
  EXPECT_EQ(state(id), "failed");
}

TEST_F(LogPolicyCoreTest, AMovedJobSavesAndLeavesTheNode) {
  v1::JobSpec spec = with_policy("", "move", 0.66);
  spec.set_max_resumes(2);
  const std::string id = running(spec);
  matches(id, kGuideLine);
  ASSERT_THAT(kills(), SizeIs(1));
  EXPECT_EQ(kills()[0].grace_ms(), 30'000);
  EXPECT_THAT(job(id).reason(), HasSubstr("its output on node n0 matched the log policy ratio above 0.66"));
  killed_and_gone(id);
  EXPECT_EQ(job(id).resumes(), 1);
  EXPECT_EQ(job(id).ranks(0).node(), "n1");
}

TEST_F(LogPolicyCoreTest, TeardownAndRulesReachTheRank) {
  v1::JobSpec spec = with_policy("", "notify", 0.66);
  spec.set_teardown("rm -rf /tmp/cache");
  submit(spec);
  const CommandStart start = start_of(spawns().at(0));
  EXPECT_EQ(start.teardown, "rm -rf /tmp/cache");
  ASSERT_THAT(start.log_rules, SizeIs(1));
  EXPECT_EQ(start.log_rules[0].ratio_above, 0.66);
}

}  // namespace
}  // namespace volador::jobs
