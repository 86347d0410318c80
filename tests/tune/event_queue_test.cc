#include "tune/loop/event_queue.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tune/execution/request_inbox.h"

namespace volador::tune {
namespace {

using ::testing::ElementsAre;
using ::testing::SizeIs;

TEST(EventQueue, CountsWhatIsOfferedBeyondItsLimit) {
  EventQueue<std::string> queue;
  queue.offer("a", 40, 100);
  queue.offer("b", 60, 100);
  queue.offer("c", 1, 100);
  queue.push("d");  // Has no limit: it must not be lost.
  queue.offer("e", 1, 100);
  EXPECT_THAT(queue.take(std::nullopt), ElementsAre("a", "b", "d"));
  EXPECT_EQ(queue.take_left_out(), 2);
  EXPECT_EQ(queue.take_left_out(), 0);
  queue.offer("f", 100, 100);
  EXPECT_THAT(queue.take(std::nullopt), ElementsAre("f")) << "what was taken waits no more";
}

TEST(RequestInbox, LeavesOutLinesThatNobodyTakes) {
  EventQueue<RunnerEvent> queue;
  RequestInbox inbox(queue);
  LogLine line;
  line.text = std::string(1 << 20, 'x');
  for (int i = 0; i < 100; ++i) inbox.put(line);
  EXPECT_THAT(queue.take(std::nullopt), SizeIs(15)) << "16 MiB with what belongs to a line";
  EXPECT_EQ(queue.take_left_out(), 85);
}

TEST(RequestInbox, TakesNothingOnceItIsClosed) {
  EventQueue<RunnerEvent> queue;
  RequestInbox inbox(queue);
  inbox.put(LogLine{});
  inbox.close();
  inbox.put(LogLine{});
  inbox.put(ExperimentRequest{.act = "stop", .trial = ""});
  EXPECT_THAT(queue.take(std::nullopt), SizeIs(1));
}

}  // namespace
}  // namespace volador::tune
