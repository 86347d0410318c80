#include "runtime/actor/reply_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "runtime/random.h"

namespace volador {
namespace {

using namespace std::chrono_literals;
using Verdict = ReplyCache::Verdict;

class Answers final : public net::Responder {
 public:
  void reply(Result<std::string>&&) override {}
  bool cancelled() const override { return gone; }
  bool lost() const override { return gone; }
  void on_cancel(std::function<void()>) override {}
  const net::Peer& peer() const override { return peer_; }

  bool gone = false;

 private:
  net::Peer peer_;
};

class ReplyCacheTest : public testing::Test {
 protected:
  net::CallerId caller() { return new_id<net::CallerId>(random_); }
  static std::shared_ptr<net::Responder> responder() { return std::make_shared<Answers>(); }

  SeededRandom random_{5};
  BootTime now_ = BootTime{} + 1h;
  const net::CallerId alice_ = caller();
};

TEST_F(ReplyCacheTest, ACallThatComesTwiceRunsOnce) {
  ReplyCache cache({});
  EXPECT_EQ(cache.begin(now_, alice_, 7, 0, responder()).verdict, Verdict::kRun);
  const auto second = responder();
  EXPECT_EQ(cache.begin(now_, alice_, 7, 0, second).verdict, Verdict::kRunsAlready);
  EXPECT_EQ(cache.finish(now_, alice_, 7, std::string("seven")), second);
  const auto again = cache.begin(now_, alice_, 7, 7, responder());
  EXPECT_EQ(again.verdict, Verdict::kAnswered);
  EXPECT_EQ(again.answer, Result<std::string>("seven"));
  EXPECT_EQ(cache.begin(now_, caller(), 7, 0, responder()).verdict, Verdict::kRun) << "another caller's call";
}

TEST_F(ReplyCacheTest, WhatIsAcknowledgedGoes) {
  ReplyCache cache({});
  for (uint64_t request = 1; request <= 3; ++request) {
    cache.begin(now_, alice_, request, 0, responder());
    if (request != 2) cache.finish(now_, alice_, request, std::string(10, 'x'));
  }
  EXPECT_EQ(cache.bytes(), 20u);
  cache.begin(now_, alice_, 4, 4, responder());
  EXPECT_EQ(cache.calls(), 2u) << "4, and 2, which still runs";
  EXPECT_EQ(cache.bytes(), 0u);
  EXPECT_NE(cache.finish(now_, alice_, 2, std::string("late")), nullptr);
}

TEST_F(ReplyCacheTest, ADroppedCallIsNewWhenItComesAgain) {
  ReplyCache cache({});
  cache.begin(now_, alice_, 1, 0, responder());
  cache.drop(alice_, 1);
  EXPECT_EQ(cache.calls(), 0u);
  EXPECT_EQ(cache.begin(now_, alice_, 1, 0, responder()).verdict, Verdict::kRun);
}

TEST_F(ReplyCacheTest, ACallIsAwaitedByWhoeverAskedLast) {
  ReplyCache cache({});
  const auto first = std::make_shared<Answers>();
  cache.begin(now_, alice_, 1, 0, first);
  EXPECT_TRUE(cache.is_awaited(alice_, 1));
  first->gone = true;
  EXPECT_FALSE(cache.is_awaited(alice_, 1));
  cache.begin(now_, alice_, 1, 0, responder());
  EXPECT_TRUE(cache.is_awaited(alice_, 1));
  EXPECT_FALSE(cache.is_awaited(alice_, 2));
}

TEST_F(ReplyCacheTest, AfterItsTimeAnAnswerIsGivenUpAndTheCallNeverRunsAgain) {
  ReplyCache cache({.keep = 10min});
  cache.begin(now_, alice_, 5, 0, responder());
  cache.finish(now_, alice_, 5, std::string("five"));
  const auto late = cache.begin(now_ + 10min, alice_, 5, 0, responder());
  EXPECT_EQ(late.verdict, Verdict::kAnswered);
  ASSERT_FALSE(late.answer);
  EXPECT_EQ(late.answer.error().code, ErrorCode::kTimeout);
  EXPECT_EQ(cache.begin(now_ + 10min, alice_, 6, 0, responder()).verdict, Verdict::kRun);
}

TEST_F(ReplyCacheTest, AFullCacheRefusesNewCallsAndKeepsTheOthers) {
  ReplyCache cache({.calls_max = 2, .bytes_max = 100});
  cache.begin(now_, alice_, 1, 0, responder());
  cache.begin(now_, alice_, 2, 0, responder());
  const auto third = cache.begin(now_, alice_, 3, 0, responder());
  EXPECT_EQ(third.verdict, Verdict::kAnswered);
  EXPECT_EQ(third.answer.error().code, ErrorCode::kUnavailable);
  cache.finish(now_, alice_, 1, std::string(200, 'x'));
  EXPECT_EQ(cache.begin(now_, alice_, 1, 0, responder()).answer->size(), 200u);
  EXPECT_EQ(cache.begin(now_, alice_, 3, 2, responder()).verdict, Verdict::kRun) << "1 was acknowledged with it";
}

// Model test: unacknowledged replies are repeated identically, and nothing runs twice.
TEST_F(ReplyCacheTest, AgainstAModel) {
  for (uint64_t seed = 1; seed <= 50; ++seed) {
    SCOPED_TRACE(seed);
    SeededRandom random(seed);
    const auto pick = [&](uint64_t below) { return random.next() % below; };
    ReplyCache cache({});
    std::map<uint64_t, std::string> answered;
    std::set<uint64_t> running;
    std::set<uint64_t> ran;
    uint64_t next = 1;
    uint64_t acknowledged = 0;
    for (int step = 0; step < 3000; ++step) {
      if (pick(2) == 0 || next == 1) {
        const uint64_t request =
            pick(3) == 0 && next > acknowledged + 1 ? acknowledged + 1 + pick(next - acknowledged - 1) : next++;
        if (acknowledged > 0 && request < acknowledged) continue;
        const auto decision = cache.begin(now_, alice_, request, acknowledged, responder());
        if (answered.contains(request)) {
          ASSERT_EQ(decision.verdict, Verdict::kAnswered);
          ASSERT_EQ(decision.answer.value(), answered[request]);
        } else if (running.contains(request)) {
          ASSERT_EQ(decision.verdict, Verdict::kRunsAlready);
        } else {
          ASSERT_EQ(decision.verdict, Verdict::kRun);
          ASSERT_TRUE(ran.insert(request).second);
          running.insert(request);
        }
      } else if (pick(2) == 0 && !running.empty()) {
        const uint64_t request = *std::next(running.begin(), static_cast<std::ptrdiff_t>(pick(running.size())));
        running.erase(request);
        answered[request] = std::string(pick(20), static_cast<char>('a' + pick(26)));
        ASSERT_NE(cache.finish(now_, alice_, request, answered[request]), nullptr);
      } else if (!answered.empty()) {
        // Acknowledges everything below the first call without a reply.
        uint64_t below = acknowledged;
        while (answered.contains(below + 1)) ++below;
        acknowledged = below;
        answered.erase(answered.begin(), answered.lower_bound(acknowledged));
      }
    }
    ASSERT_GE(cache.calls(), running.size());
  }
}

}  // namespace
}  // namespace volador
