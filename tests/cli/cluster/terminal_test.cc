// Terminal output of the real binary: lines that fit, confirmation before destructive actions, the user's language.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "cli/render/table.h"
#include "tests/cli/cluster/run_volador.h"

namespace volador::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const std::string kLongNode = "heron-with-a-name-that-is-much-longer-than-it-needs-to-be-01";

class InATerminal : public ::testing::Test {
 protected:
  void SetUp() override {
    const Finished run = user_.run({"start", "--head", "--port=0", "--cluster=heron", "--name=" + kLongNode,
                                    "--num-cpus=2", "--labels=zone=a,rack=17,disk=nvme"});
    ASSERT_EQ(run.code, 0) << run.error;
  }
  // Lines as displayed: without cursor escape sequences.
  static std::vector<std::string> lines_of(const std::string& out) {
    std::string plain;
    for (size_t at = 0; at < out.size(); ++at) {
      if (out[at] == '\r') continue;
      if (out.compare(at, 2, "\x1b[") == 0) {
        at = std::min(out.find_first_not_of("0123456789;?", at + 2), out.size() - 1);
        continue;
      }
      plain += out[at];
    }
    std::vector<std::string> lines;
    std::istringstream stream(plain);
    for (std::string line; std::getline(stream, line);) lines.push_back(line);
    return lines;
  }
  VoladorUser user_;
};

TEST_F(InATerminal, NoLineOfAnyListIsWiderThanTheTerminal) {
  const std::vector<std::vector<std::string>> commands{
      {"status"},           {"list", "nodes"},   {"list", "actors"}, {"list", "groups"},      {"list", "trials"},
      {"list", "queue"},    {"list", "events"},  {"list", "audit"},  {"list", "experiments"}, {"list", "tasks"},
      {"list", "studies"},  {"list", "objects"}, {"tune", "list"},   {"token", "list"},       {"memory"},
      {"top", "--frames=1"}};
  std::filesystem::create_directory(user_.home() / "volador_results");
  for (const std::vector<std::string>& command : commands) {
    for (const char* locale : {"C", "zh_CN.UTF-8"}) {
      const Finished run = user_.run_in_terminal(command, 80, {{"LC_ALL", locale}});
      EXPECT_EQ(run.code, 0) << fmt::format("{} {}", command[0], command.back()) << "\n" << run.out;
      for (const std::string& line : lines_of(run.out)) EXPECT_LE(cli::display_width(line), 80u) << line;
    }
  }
}

TEST_F(InATerminal, TopShowsTheUseOfANodeWithALongNameAt80Columns) {
  const Finished run = user_.run_in_terminal({"top", "--frames=1"}, 80);
  ASSERT_EQ(run.code, 0);
  std::string row;
  for (const std::string& line : lines_of(run.out)) {
    if (line.starts_with("heron-with")) row = line;
  }
  EXPECT_THAT(row, HasSubstr("…"));
  EXPECT_THAT(row, HasSubstr("-01")) << "both ends of the name stay";
  EXPECT_THAT(row, HasSubstr("0/2")) << "CPUs in use";
  EXPECT_THAT(row, HasSubstr("GiB")) << "memory";
}

TEST_F(InATerminal, NothingIsCutInAPipeOrWithWide) {
  EXPECT_THAT(user_.run({"list", "nodes"}).out, HasSubstr(kLongNode));
  EXPECT_THAT(user_.run({"list", "nodes"}).out, HasSubstr("rack=17"));
  EXPECT_THAT(user_.run({"list", "nodes"}, {{"COLUMNS", "80"}}).out, Not(HasSubstr("rack=17")));
  EXPECT_THAT(user_.run_in_terminal({"list", "nodes"}, 80).out, Not(HasSubstr("rack=17")));
  EXPECT_THAT(user_.run_in_terminal({"list", "nodes", "--wide"}, 80).out, HasSubstr("rack=17"));
}

TEST_F(InATerminal, AsksBeforeItStopsACluster) {
  const Finished refused = user_.run_in_terminal({"stop"}, 80, {}, "n\n");
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.out, HasSubstr("Stop cluster heron on this machine"));
  EXPECT_THAT(refused.out, HasSubstr("[kCancelled]"));
  EXPECT_EQ(user_.run({"status"}).code, 0) << "it still runs";
  const Finished agreed = user_.run_in_terminal({"stop"}, 80, {}, "y\n");
  EXPECT_EQ(agreed.code, 0) << agreed.out;
  EXPECT_EQ(user_.run({"status"}).code, 4);
}

TEST_F(InATerminal, YesSkipsTheQuestion) {
  const Finished run = user_.run_in_terminal({"stop", "--yes"}, 80);
  EXPECT_EQ(run.code, 0) << run.out;
  EXPECT_THAT(run.out, Not(HasSubstr("[y/N]")));
}

TEST_F(InATerminal, SpeaksTheLanguageOfTheLocale) {
  const std::map<std::string, std::string> chinese{{"LANG", "zh_CN.UTF-8"}};
  EXPECT_THAT(user_.run({"status"}, chinese).out, HasSubstr("集群 heron"));
  EXPECT_THAT(user_.run({"list", "nodes"}, chinese).out, HasSubstr("在线"));
  EXPECT_THAT(user_.run({"status"}, {{"LANG", "zh_CN.UTF-8"}, {"VOLADOR_LANG", "en"}}).out, HasSubstr("cluster heron"));
  EXPECT_THAT(user_.run({"list", "nothing"}, chinese).error, HasSubstr("错误："));
  EXPECT_EQ(user_.run({"status", "--json"}, chinese).json()["nodes"][0]["state"], "alive")
      << "JSON is the same in every language";
}

TEST_F(InATerminal, AWrongStateIsRefusedWithThoseThereAre) {
  const Finished run = user_.run({"list", "nodes", "--state=alve"});
  EXPECT_EQ(run.code, 2);
  EXPECT_THAT(run.error,
              HasSubstr("expected alive, suspect, draining, stopping, awaited, dead for nodes, got \"alve\""));
  EXPECT_EQ(user_.run({"list", "events", "--state=alive"}).code, 2);
  EXPECT_EQ(user_.run({"list", "experiments", "--state=crashed"}).code, 0);
  EXPECT_EQ(user_.run({"list", "nodes", "--state=dead", "--json"}).json()["nodes"].size(), 0u);
  EXPECT_EQ(user_.run({"list", "nodes", "--state=alive", "--json"}).json()["nodes"].size(), 1u);
}

}  // namespace
}  // namespace volador::testing
