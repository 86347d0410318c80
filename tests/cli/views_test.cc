#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "cli/render/cluster_view.h"
#include "cli/render/json_view.h"
#include "cli/render/row_view.h"
#include "cli/render/study_view.h"
#include "cli/render/tune_view.h"
#include "runtime/language/reason.h"
#include "runtime/protocol/volador/v1/cluster.pb.h"
#include "runtime/protocol/volador/v1/studies.pb.h"
#include "tune/results/trial_story.h"

namespace volador::cli {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const Terminal kPlain{{}};

v1::Node node() {
  v1::Node node;
  node.set_name("heron");
  node.set_state("alive");
  node.set_address("127.0.0.1:4000");
  (*node.mutable_total())["cpus"] = 160'000;
  (*node.mutable_total())["gpus"] = 20'000;
  (*node.mutable_total())["memory"] = int64_t{62} << 30;
  (*node.mutable_used())["cpus"] = 5'000;
  node.set_gpu_model("NVIDIA L4");
  return node;
}

TEST(CapacityText, ReadsAsInTheStartReport) {
  EXPECT_EQ(capacity_text(node()), "16 CPUs · 62 GiB · 2 GPUs (NVIDIA L4)");
  v1::Node small;
  (*small.mutable_total())["cpus"] = 10'000;
  (*small.mutable_total())["memory"] = int64_t{1} << 30;
  EXPECT_EQ(capacity_text(small), "1 CPU · 1 GiB");
}

TEST(StatusText, NamesClusterNodesAndWhatIsInUse) {
  v1::StatusReply status;
  status.set_cluster_name("heron");
  status.set_address("127.0.0.1:6380");
  status.set_version("0.1.0");
  status.set_uptime_ms(200'000);
  *status.add_nodes() = node();
  (*status.mutable_total())["cpus"] = 160'000;
  (*status.mutable_used())["cpus"] = 5'000;
  (*status.mutable_actors_by_state())["alive"] = 3;
  const std::string text = status_text(status, kPlain);
  EXPECT_THAT(text, HasSubstr("cluster heron · 127.0.0.1:6380 · volador 0.1.0 · up 3 min 20 s\n"));
  EXPECT_THAT(text, HasSubstr("cpus 0.5 of 16"));
  EXPECT_THAT(text, HasSubstr("3 alive"));
  EXPECT_THAT(text, Not(HasSubstr("\x1b"))) << "no colour where none is wanted";
  EXPECT_THAT(status_text(status, Terminal({.colour_out = true})), HasSubstr("\x1b[32malive\x1b[0m"));
}

TEST(TrialsText, ShowsMetricsAndConfigurationAsColumns) {
  v1::ListTrialsReply reply;
  v1::Trial& trial = *reply.add_trials();
  trial.set_id("3f2a");
  trial.set_status("running");
  trial.set_step(9);
  (*trial.mutable_metrics())["accuracy"] = 0.98312;
  (*trial.mutable_metrics())["time_total_s"] = 3;
  trial.set_config_json(R"({"lr": 0.0119, "model": {"width": 48}})");
  reply.set_total(20);
  const std::string text = trials_text(reply, kPlain);
  EXPECT_THAT(text, HasSubstr("accuracy"));
  EXPECT_THAT(text, HasSubstr("0.9831"));
  EXPECT_THAT(text, HasSubstr("model.width"));
  EXPECT_THAT(text, HasSubstr("48"));
  EXPECT_THAT(text, Not(HasSubstr("time_total_s")));
  EXPECT_THAT(text, HasSubstr("… 19 more: --limit=20"));
}

TEST(TrialsText, NamesAndTagsHaveColumnsWhereThereAreSome) {
  v1::ListTrialsReply reply;
  v1::Trial& trial = *reply.add_trials();
  trial.set_id("3f2a90c1");
  EXPECT_THAT(trials_text(reply, kPlain), AllOf(Not(HasSubstr("name")), Not(HasSubstr("tags"))));
  v1::Trial& named = *reply.add_trials();
  named.set_id("8be10000");
  named.set_name("7_lr=0.1");
  named.add_tags("wide");
  named.add_tags("keep");
  const std::string text = trials_text(reply, kPlain);
  EXPECT_THAT(text, AllOf(HasSubstr("name"), HasSubstr("7_lr=0.1"), HasSubstr("8be10000"), HasSubstr("wide, keep")));
  const auto json = nlohmann::json::parse(trials_json(reply));
  EXPECT_EQ(json["trials"][0]["name"], "3f2a90c1");
  EXPECT_EQ(json["trials"][1]["name"], "7_lr=0.1");
  EXPECT_EQ(json["trials"][1]["tags"], (nlohmann::json{"wide", "keep"}));
}

TEST(TrialsText, DamagedConfigurationsAndHostileNamesDoNoHarm) {
  v1::ListTrialsReply reply;
  v1::Trial& trial = *reply.add_trials();
  trial.set_id("a\x1b[2J");
  trial.set_config_json("{\"lr\": ");
  trial.set_error(std::string(500, 'x'));
  EXPECT_THAT(trials_text(reply, kPlain), Not(HasSubstr("\x1b")));
}

TEST(GroupsText, ShowsWhatAGroupAsksAndWhereItIs) {
  v1::ListGroupsReply reply;
  EXPECT_EQ(groups_text(reply, kPlain), "no placement groups\n");
  v1::Group& group = *reply.add_groups();
  group.set_id("a1b2c3d4e5f60708");
  group.set_name("trainers");
  group.set_strategy("strict_spread");
  group.set_state("ready");
  for (const char* node : {"gpu-1", "gpu-2"}) {
    v1::Bundle& bundle = *group.add_bundles();
    bundle.set_node(node);
    (*bundle.mutable_total())["gpus"] = 10'000;
    (*bundle.mutable_used())["gpus"] = 5'000;
    bundle.add_gpus(3);
    bundle.set_actors(1);
  }
  reply.set_total(2);
  const std::string text = groups_text(reply, kPlain);
  EXPECT_THAT(text, HasSubstr("trainers  a1b2c3d4  strict_spread  ready"));
  EXPECT_THAT(text, HasSubstr("gpu-1,gpu-2"));
  EXPECT_THAT(text, HasSubstr("1 more: --limit=2"));
  const auto json = nlohmann::json::parse(groups_json(reply));
  EXPECT_EQ(json["groups"][0]["bundles"][1]["used"]["gpus"], 0.5);
  EXPECT_EQ(json["groups"][0]["bundles"][1]["gpus"], std::vector<int>{3});
}

TEST(TokensText, SaysWhatATokenIsStillGoodFor) {
  v1::ListTokensReply reply;
  reply.add_tokens()->set_id("valid1");
  v1::Token& expired = *reply.add_tokens();
  expired.set_id("expired1");
  expired.set_expires_wall_ns(5);
  v1::Token& revoked = *reply.add_tokens();
  revoked.set_id("revoked1");
  revoked.set_revoked(true);
  const std::string text = tokens_text(reply, kPlain, 10);
  EXPECT_THAT(text, HasSubstr("never"));
  EXPECT_THAT(text, HasSubstr("expired  "));
  EXPECT_THAT(text, HasSubstr("revoked  "));
}

TEST(Json, AmountsAreNumbersInWholeUnits) {
  v1::ListNodesReply reply;
  *reply.add_nodes() = node();
  const auto json = nlohmann::json::parse(nodes_json(reply));
  EXPECT_EQ(json["api_version"], "v1");
  EXPECT_EQ(json["nodes"][0]["total"]["cpus"], 16);
  EXPECT_EQ(json["nodes"][0]["used"]["cpus"], 0.5);
  EXPECT_EQ(json["nodes"][0]["total"]["memory"], int64_t{62} << 30);
}

TEST(Json, MetricsThatJsonCannotSayAreNull) {
  v1::ListTrialsReply reply;
  (*reply.add_trials()->mutable_metrics())["loss"] = std::numeric_limits<double>::quiet_NaN();
  reply.mutable_trials(0)->set_config_json("no json");
  const auto json = nlohmann::json::parse(trials_json(reply));
  EXPECT_TRUE(json["trials"][0]["metrics"]["loss"].is_null());
  EXPECT_TRUE(json["trials"][0]["config"].is_null());
}

TEST(Json, TextThatIsNoUtf8IsReplacedNotRefused) {
  v1::LogLine line;
  line.set_text("\xff");
  EXPECT_EQ(nlohmann::json::parse(log_line_json(line))["text"], "\xef\xbf\xbd");
}

TEST(Terminal, ColoursNeedATerminalThatTakesThem) {
  EXPECT_FALSE(wants_colour(-1, "", "xterm"));
  EXPECT_FALSE(wants_colour(1, "1", "xterm"));
  EXPECT_FALSE(wants_colour(1, "", "dumb"));
}

TEST(ReasonsOfRows, AreSaidInTheLanguageOfTheUser) {
  v1::ListActorsReply reply;
  v1::Actor& actor = *reply.add_actors();
  actor.set_id("3f2a000000000000");
  actor.set_state("pending");
  ResourceSet asked;
  asked.set("gpus", 2 * kUnit);
  set_reason(actor, reason("waits.in_use_only", asked, "8", "8"));
  EXPECT_THAT(actors_text(reply, Terminal({})), HasSubstr("waits for gpus 2: 8 of 8 in use on the only node"));
  EXPECT_THAT(actors_text(reply, Terminal({.language = Language::kChinese})),
              HasSubstr("等待 2 GPU：唯一的节点已用 8，共 8"));
  EXPECT_EQ(nlohmann::json::parse(actors_json(reply))["actors"][0]["why"][0], "waits.in_use_only");
  actor.set_why(R"(["of.a.newer.head"])");
  EXPECT_THAT(actors_text(reply, Terminal({.language = Language::kChinese})), HasSubstr("8 of 8 in use"));
  const auto row = nlohmann::json::parse(
      R"({"rows": [{"id": "3f2a", "kind": "actor", "reason": "no node has joined yet", "why": ["waits.no_node"]}], "total": 1})");
  EXPECT_THAT(queue_text(row, Terminal({.language = Language::kChinese}), 0), HasSubstr("还没有节点加入"));
  const auto event = nlohmann::json::parse(
      R"({"rows": [{"text": "node is gone", "fields": {"node": "a", "why": "it was stopped"}, "why": ["cause.stopped"]}], "total": 1})");
  EXPECT_THAT(events_text(event, Terminal({.language = Language::kChinese})), HasSubstr("node=a why=已停止"));
}

TEST(TrialsText, SaysWhyInTheLanguageOfTheUser) {
  v1::ListTrialsReply reply;
  v1::Trial& stopped = *reply.add_trials();
  stopped.set_id("3f2a90c1");
  set_reason(stopped, reason("trial.others_better", reason("decision.others_better", 3)));
  v1::Trial& failed = *reply.add_trials();
  failed.set_id("8be10000");
  failed.set_error("its process exited with code 3");
  failed.set_error_why(reason("died.exited", 3).to_json());
  const Terminal chinese({.language = Language::kChinese});
  EXPECT_THAT(trials_text(reply, kPlain), AllOf(HasSubstr("others do better: others do better at step 3"),
                                                HasSubstr("its process exited with code 3")));
  EXPECT_THAT(trials_text(reply, chinese),
              AllOf(HasSubstr("表现靠后：第 3 步表现靠后"), HasSubstr("其进程以退出码 3 结束")));
}

TEST(StudyText, IsSaidInTheLanguageOfTheUser) {
  v1::Study study;
  study.set_name("digits");
  study.set_trials_total(2);
  (*study.mutable_trials_by_state())["pruned"] = 1;
  v1::ListStudyTrialsReply trials;
  v1::StudyTrial& pruned = *trials.add_trials();
  pruned.set_state("pruned");
  set_reason(pruned, reason("decision.by", reason("decision.others_better", 3), "ASHA"));
  trials.set_total(4);
  const std::string english = study_text(study, trials, kPlain);
  EXPECT_THAT(english,
              AllOf(HasSubstr("2 trials: 0 running, 0 waiting, 0 complete, 1 pruned, 0 failed"),
                    HasSubstr("others do better at step 3 (ASHA)"), HasSubstr("… 3 more; --limit shows them")));
  const std::string chinese = study_text(study, trials, Terminal({.language = Language::kChinese}));
  EXPECT_THAT(chinese, AllOf(HasSubstr("2 个试验: 0 运行中"), HasSubstr("1 提前停止"),
                             HasSubstr("第 3 步表现靠后（ASHA）"), HasSubstr("… 还有 3 个；--limit 可显示")));
}

TEST(EventsText, NamesEventsInTheLanguageOfTheUser) {
  const auto page = nlohmann::json::parse(
      R"({"rows": [{"text": "node joined", "level": "info"}, {"text": "of a newer head", "level": "info"}], "total": 2})");
  EXPECT_THAT(events_text(page, kPlain), HasSubstr("node joined"));
  EXPECT_THAT(events_text(page, Terminal({.language = Language::kChinese})),
              AllOf(HasSubstr("节点已加入"), HasSubstr("of a newer head")));
}

TEST(StoryText, IsToldInTheLanguageOfTheUser) {
  tune::TrialStory story{.trial = tune::TrialId(7), .scheduler = "ASHA", .step = 3};
  tune::DecisionRecord other{.trial = tune::TrialId(8), .act = tune::Act::kPassed, .value = 0.5};
  story.moments.push_back({.text = reason("story.stopped", 3, reason("decision.others_better", 3)),
                           .others = {other},
                           .others_left_out = 2});
  EXPECT_THAT(story_text(story, kPlain), AllOf(HasSubstr("trial 00000007 · ASHA"), HasSubstr("  last report step 3\n"),
                                               HasSubstr("stopped after step 3: others do better at step 3"),
                                               HasSubstr("passed"), HasSubstr("… 2 more")));
  EXPECT_THAT(story_text(story, Terminal({.language = Language::kChinese})),
              AllOf(HasSubstr("试验 00000007 · ASHA"), HasSubstr("最近报告"),
                    HasSubstr("第 3 步之后停止：第 3 步表现靠后"), HasSubstr("晋级"), HasSubstr("… 还有 2 个")));
}

TEST(ReasonsOfRows, ExplanationsKeepTheirLinesInEachLanguage) {
  v1::ExplainReply reply;
  const auto add = [&](const std::string& indent, const Reason& line) {
    reply.mutable_text()->append(indent + line.text() + "\n");
    reply.add_why(line.to_json());
  };
  add("", reason("explain.actor", "3f2a", "Trainer", reason("explain.state", cluster_word("dead"))));
  add("  ", because(reason("ended.threw"), Reason::said("no such\nfile")));
  add("  ", reason("explain.stderr"));
  add("", Reason::said("  as it was written"));
  EXPECT_EQ(Terminal({}).explanation(reply), reply.text());
  EXPECT_EQ(Terminal({.language = Language::kChinese}).explanation(reply),
            "Actor 3f2a（Trainer）：已结束\n  构造函数抛出异常：no such\nfile\n  标准错误的最后几行：\n  as it was "
            "written\n");
  reply.set_why(0, R"(["of.a.newer.head"])");
  EXPECT_EQ(Terminal({.language = Language::kChinese}).explanation(reply), reply.text());
}

}  // namespace
}  // namespace volador::cli
