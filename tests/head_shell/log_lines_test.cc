#include "head/shell/log_lines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/protocol/control.pb.h"
#include "runtime/protocol/volador/v1/cluster.pb.h"
#include "runtime/random.h"

namespace volador::head {
namespace {

using ::testing::ElementsAre;

// 2026-11-23T01:26:28Z.
constexpr int64_t kMs = 1'795'397'188'000;

std::vector<std::string> texts(const std::vector<v1::LogLine>& lines) {
  std::vector<std::string> out;
  for (const v1::LogLine& line : lines) out.push_back(line.text());
  return out;
}

class NodeLinesTest : public ::testing::Test {
 protected:
  void hear(const std::string& text, int64_t time_ms) {
    protocol::LogLines lines;
    lines.set_actor_id(raw(actor_));
    lines.set_display("trial 7");
    lines.set_node_name("heron");
    lines.add_lines(text);
    lines.add_times_ms(time_ms);
    rings_.add(lines);
  }
  protocol::LogTail& file(const std::string& source) {
    protocol::LogTail& tail = *answer_.add_tails();
    tail.set_source(source);
    return tail;
  }

  SeededRandom random_{5};
  const ActorId actor_ = new_id<ActorId>(random_);
  const std::string short_id_ = to_string(actor_).substr(0, 8);
  LogRings rings_;
  protocol::LogTails answer_;
};

TEST_F(NodeLinesTest, LinesOfTheWorkerAndItsActorsComeInTheOrderOfTime) {
  auto& worker = file("worker");
  worker.add_lines("2026-11-23T01:26:28.100Z info  worker \"a\"");
  worker.add_lines("2026-11-23T01:26:28.300Z warn  worker \"b\"");
  file(short_id_ + "-0").add_lines("epoch 1");
  file(short_id_ + "-1").add_lines("epoch 2");
  hear("epoch 1", kMs + 200);
  hear("epoch 2", kMs + 400);
  const auto lines = node_lines(answer_, "heron", rings_);
  EXPECT_THAT(texts(lines), ElementsAre(worker.lines(0), "epoch 1", worker.lines(1), "epoch 2"));
  EXPECT_EQ(lines[1].time_ms(), kMs + 200);
  EXPECT_EQ(lines[1].source(), "trial 7");
  EXPECT_EQ(lines[2].level(), "warn");
}

TEST_F(NodeLinesTest, WhatTheHeadHasNotHeardStandsFirst) {
  file("worker").add_lines("2026-11-23T01:26:28.100Z info  worker \"a\"");
  auto& actor = file(short_id_ + "-0");
  actor.add_lines("old");
  actor.add_lines("new");
  hear("new", kMs + 50);
  const auto lines = node_lines(answer_, "heron", rings_);
  EXPECT_THAT(texts(lines), ElementsAre("old", "new", answer_.tails(0).lines(0)));
  EXPECT_EQ(lines[0].time_ms(), 0);
  EXPECT_EQ(lines[0].source(), short_id_ + "-0");
  EXPECT_EQ(lines[1].time_ms(), kMs + 50);
}

TEST(LogLines, ALineKeepsTheTimeAtWhichItWasReadUnlessItSaysItsOwn) {
  const auto plain = to_api({.source = "a", .node = "n", .text = "loss nan: failed", .time_ms = 7});
  EXPECT_EQ(plain.time_ms(), 7);
  EXPECT_EQ(plain.level(), "error");
  EXPECT_EQ(to_api({.source = "a", .node = "n", .text = "2026-11-23T01:26:28.000Z info  worker \"x\"", .time_ms = 7})
                .time_ms(),
            kMs);
}

}  // namespace
}  // namespace volador::head
