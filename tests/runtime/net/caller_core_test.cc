#include "runtime/net/caller_core.h"

#include <gtest/gtest.h>

#include <array>
#include <map>
#include <random>

#include "runtime/net/callee_core.h"

namespace volador::net {
namespace {

using namespace std::chrono_literals;

constexpr BootTime kStart{1000s};

std::vector<CallerCore::Finished> finished_of(CallerCore& core) {
  std::vector<CallerCore::Finished> finished;
  core.take_finished(finished);
  return finished;
}

class CallerCoreTest : public ::testing::Test {
 protected:
  void make(CallerLimits limits = {}) { core_ = std::make_unique<CallerCore>(limits, CallerId{}, "unix:/a"); }
  void greet(Window window) {
    Frame frame;
    frame.kind = FrameKind::kHello;
    frame.hello.window = window;
    ASSERT_TRUE(core_->on_frame(now_, std::move(frame)).has_value());
    settle();
  }
  void call(uint64_t id, size_t bytes = 0, std::chrono::nanoseconds timeout = {}) {
    core_->on_call(now_, {.request_id = id, .timeout = timeout, .body = std::string(bytes, 'x')},
                   [this, id](Result<std::string> result) { results_.emplace(id, std::move(result)); });
    settle();
  }
  void answer(uint64_t id, std::string body = "") {
    Frame frame;
    frame.kind = FrameKind::kReply;
    frame.request_id = id;
    frame.body = std::move(body);
    ASSERT_TRUE(core_->on_frame(now_, std::move(frame)).has_value());
    settle();
  }
  void settle() {
    for (auto& one : finished_of(*core_)) one.done(std::move(one.result));
    core_->check_invariants();
  }
  void write(size_t taken, size_t touched) { core_->outbox().consume(taken, touched); }
  void write_all() { write(core_->outbox().bytes(), core_->outbox().bytes()); }
  ErrorCode code(uint64_t id) const {
    const auto found = results_.find(id);
    return found == results_.end() || found->second ? ErrorCode{} : found->second.error().code;
  }

  BootTime now_ = kStart;
  std::unique_ptr<CallerCore> core_;
  std::map<uint64_t, Result<std::string>> results_;
};

TEST_F(CallerCoreTest, CallsWaitForTheHelloAndForRoomInTheWindow) {
  make();
  call(1);
  call(2);
  call(3);
  EXPECT_EQ(core_->sent_calls(), 0U);
  greet({.calls = 2, .bytes = 10'000});
  EXPECT_EQ(core_->sent_calls(), 2U);
  EXPECT_EQ(core_->waiting_calls(), 1U);
  answer(1, "one");
  EXPECT_EQ(results_.at(1), "one");
  EXPECT_EQ(core_->waiting_calls(), 0U);
}

TEST_F(CallerCoreTest, ACallLargerThanTheWindowGoesAlone) {
  make();
  greet({.calls = 10, .bytes = 1000});
  call(1, 10);
  call(2, 5000);
  call(3, 10);
  EXPECT_EQ(core_->sent_calls(), 1U);
  answer(1);
  EXPECT_EQ(core_->sent_calls(), 1U);  // The large one; the third stays queued behind it.
  answer(2);
  EXPECT_EQ(core_->sent_calls(), 1U);
  answer(3);
  EXPECT_EQ(results_.size(), 3U);
}

TEST_F(CallerCoreTest, CreditChangesTheWindow) {
  make();
  greet({.calls = 1, .bytes = 1000});
  for (uint64_t id = 1; id <= 5; ++id) call(id);
  Frame frame;
  frame.kind = FrameKind::kCredit;
  frame.window = {.calls = 4, .bytes = 1000};
  ASSERT_TRUE(core_->on_frame(now_, std::move(frame)).has_value());
  settle();
  EXPECT_EQ(core_->sent_calls(), 4U);
}

TEST_F(CallerCoreTest, BeyondTheLimitsOfTheQueueCallsAreUnavailableAndSaySo) {
  make({.waiting_calls_max = 3, .waiting_bytes_max = 1000});
  for (uint64_t id = 1; id <= 4; ++id) call(id);
  EXPECT_EQ(code(3), ErrorCode{});
  EXPECT_EQ(code(4), ErrorCode::kUnavailable);
  EXPECT_NE(results_.at(4).error().message.find("limit 3 calls"), std::string::npos);
  make({.waiting_calls_max = 100, .waiting_bytes_max = 1000});
  call(5, 2000);  // A call above the limit may be queued alone.
  call(6, 1);
  EXPECT_EQ(code(5), ErrorCode{});
  EXPECT_EQ(code(6), ErrorCode::kUnavailable);
}

TEST_F(CallerCoreTest, ARequestIdInUseIsRefusedAndFreeAfterItsAnswer) {
  make();
  greet({.calls = 10, .bytes = 1000});
  call(1);
  core_->on_call(now_, {.request_id = 1}, [](const Result<std::string>& result) {
    EXPECT_EQ(result.error().code, ErrorCode::kInvalidArgument);
  });
  settle();
  answer(1, "first");
  results_.clear();
  call(1);
  answer(1, "second");
  EXPECT_EQ(results_.at(1), "second");
  answer(1, "third");  // No such call.
  EXPECT_EQ(results_.at(1), "second");
}

TEST_F(CallerCoreTest, TimeoutsEndWaitingAndSentCallsAndKeepTheRoomOfSentOnes) {
  make();
  greet({.calls = 1, .bytes = 1000});
  call(1, 0, 10ms);
  call(2, 0, 5ms);
  call(3);
  EXPECT_EQ(core_->next_deadline(), now_ + 5ms);
  now_ += 5ms;
  core_->on_tick(now_);
  settle();
  EXPECT_EQ(code(2), ErrorCode::kTimeout);
  EXPECT_EQ(code(1), ErrorCode{});
  now_ += 5ms;
  core_->on_tick(now_);
  settle();
  EXPECT_EQ(code(1), ErrorCode::kTimeout);
  EXPECT_EQ(core_->waiting_calls(), 1U);  // The third: the host has not released the first.
  answer(1, "late");
  EXPECT_EQ(code(1), ErrorCode::kTimeout);
  EXPECT_EQ(core_->waiting_calls(), 0U);
  answer(3, "three");
  EXPECT_EQ(results_.at(3), "three");
}

TEST_F(CallerCoreTest, DeadlinesOfFinishedCallsDoNotPileUp) {
  make();
  greet({.calls = 10, .bytes = 1000});
  for (uint64_t id = 1; id <= 10'000; ++id) {
    core_->on_call(now_, {.request_id = id, .timeout = 1h}, [](const Result<std::string>&) {});
    Frame frame;
    frame.kind = FrameKind::kReply;
    frame.request_id = id;
    ASSERT_TRUE(core_->on_frame(now_, std::move(frame)).has_value());
    finished_of(*core_);
    write_all();
  }
  size_t deadlines = 0;
  while (core_->next_deadline()) {
    core_->on_tick(now_ + 2h);
    ++deadlines;
  }
  EXPECT_EQ(deadlines, 1U);  // One tick handles all of them; no call ends twice.
  EXPECT_TRUE(finished_of(*core_).empty());
}

TEST_F(CallerCoreTest, ALossTellsSentFromUnsentCalls) {
  make();
  greet({.calls = 3, .bytes = 100'000});
  write_all();
  call(1, 100);
  write_all();
  call(2, 100);
  write(10, 10);  // Part of the second.
  call(3, 100);
  call(4, 100);  // Waits.
  core_->on_lost("reset by peer");
  settle();
  EXPECT_EQ(code(1), ErrorCode::kUnknownOutcome);
  EXPECT_EQ(code(2), ErrorCode::kUnknownOutcome);
  EXPECT_EQ(code(3), ErrorCode::kUnavailable);
  EXPECT_EQ(code(4), ErrorCode::kUnavailable);
  call(5);
  EXPECT_EQ(code(5), ErrorCode::kUnavailable);
}

TEST_F(CallerCoreTest, TheRoomForAnAnswerIsThereWhileItsCallerWaits) {
  make();
  greet({.calls = 10, .bytes = 1 << 20});
  std::string memory(100, '.');
  std::array<std::shared_ptr<ReplyRoom>, 4> rooms;
  for (size_t i = 1; i < rooms.size(); ++i) {
    rooms[i] = std::make_shared<ReplyRoom>();
    rooms[i]->bytes = memory;
    core_->on_call(
        now_, {.request_id = i, .timeout = i == 3 ? 1s : 0s}, [](const Result<std::string>&) {}, rooms[i]);
  }
  EXPECT_EQ(core_->room(1, 104).data(), memory.data());
  EXPECT_TRUE(core_->room(1, 99).empty()) << "the answer is smaller";
  EXPECT_TRUE(core_->room(9, 104).empty());
  Frame frame;
  frame.kind = FrameKind::kReply;
  frame.request_id = 1;
  frame.in_room = 100;
  ASSERT_TRUE(core_->on_frame(now_, std::move(frame)));
  EXPECT_TRUE(rooms[1]->filled);
  EXPECT_TRUE(core_->room(1, 104).empty());
  core_->on_cancel(now_, 2);
  EXPECT_TRUE(core_->room(2, 104).empty());
  core_->on_tick(now_ + 2s);
  EXPECT_TRUE(core_->room(3, 104).empty());
  settle();
  answer(2);
  answer(3);
  EXPECT_FALSE(rooms[2]->filled || rooms[3]->filled);
}

TEST_F(CallerCoreTest, WhatIsWantedBackEndsHereUnlessItWasSent) {
  make();
  greet({.calls = 2, .bytes = 100'000});
  for (uint64_t id = 1; id <= 4; ++id) call(id);
  write_all();
  core_->on_give_back();
  const auto ended = finished_of(*core_);
  ASSERT_EQ(ended.size(), 2u);
  for (const auto& one : ended) EXPECT_EQ(one.result.error().code, ErrorCode::kCancelled);
  core_->check_invariants();
  EXPECT_EQ(core_->waiting_calls(), 0u);
  EXPECT_EQ(core_->outbox().bytes(), kFrameHeaderBytes) << "the host is asked for the others";
  answer(1, "one");
  answer(2, "two");
  EXPECT_EQ(results_.at(2), "two");
  write_all();
  core_->on_give_back();
  EXPECT_TRUE(core_->outbox().empty()) << "there is nothing to ask for";
}

TEST_F(CallerCoreTest, BytesThatTlsMayHaveSentCountAsSent) {
  make();
  greet({.calls = 3, .bytes = 100'000});
  write_all();
  call(1, 100);
  write(0, 50);
  core_->on_lost("reset by peer");
  settle();
  EXPECT_EQ(code(1), ErrorCode::kUnknownOutcome);
}

TEST_F(CallerCoreTest, FramesThatOnlyCallersSendAndGoodbyesEndTheConnection) {
  make();
  greet({.calls = 3, .bytes = 1000});
  Frame frame;
  frame.kind = FrameKind::kCall;
  EXPECT_EQ(core_->on_frame(now_, std::move(frame)).error().code, ErrorCode::kInvalidArgument);
  frame.kind = FrameKind::kGoodbye;
  EXPECT_EQ(core_->on_frame(now_, std::move(frame)).error().code, ErrorCode::kUnavailable);
}

// Both cores, connected by the codec: random calls, cancels, ticks, responses and split writes; every call ends once,
// the host's limit is never exceeded, and neither side reports a protocol violation.
TEST(CallChannelCores, RandomHistoriesKeepTheInvariants) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    const auto below = [&](uint64_t n) { return random() % n; };
    const CalleeLimits limits{
        .calls_max = 1 + below(100), .bytes_max = 1000 + below(5000), .later_max = 20, .replies_bytes_aim = 20'000};
    CallerCore caller({.waiting_calls_max = 50, .waiting_bytes_max = 20'000}, CallerId{}, "peer");
    CalleeCore callee(limits);
    FrameDecoder to_callee;
    FrameDecoder to_caller;
    std::vector<uint64_t> running;
    std::map<uint64_t, int> ends;
    uint64_t next_id = 0;
    BootTime now = kStart;
    const auto move_bytes = [&](Outbox& from, FrameDecoder& decoder, auto&& take) {
      std::array<iovec, 4> parts;
      const size_t count = from.gather(parts);
      std::string bytes;
      for (size_t i = 0; i < count; ++i) bytes.append(static_cast<const char*>(parts[i].iov_base), parts[i].iov_len);
      bytes.resize(bytes.empty() ? 0 : 1 + below(bytes.size()));
      from.consume(bytes.size(), bytes.size());
      decoder.feed(bytes);
      Frame frame;
      while (true) {
        const auto got = decoder.next(frame);
        ASSERT_TRUE(got.has_value()) << got.error().message;
        if (!*got) return;
        take(std::move(frame));
        frame = Frame{};
      }
    };
    const auto step = [&](uint64_t what) {
      if (what < 4 && next_id < 400) {
        const uint64_t id = ++next_id;
        ends[id] = 0;
        caller.on_call(now,
                       {.request_id = id,
                        .timeout = std::chrono::milliseconds(below(3) * 20),
                        .body = std::string(below(40) == 0 ? 9000 : below(300), 'x')},
                       [&ends, id](const Result<std::string>&) { ++ends[id]; });
      } else if (what == 4 && next_id > 0) {
        if (below(8) == 0) caller.on_give_back();
        caller.on_cancel(now, 1 + below(next_id));
      } else if (what == 5) {
        now += std::chrono::milliseconds(below(10));
        caller.on_tick(now);
      } else if (what <= 7) {
        move_bytes(caller.outbox(), to_callee, [&](Frame&& frame) {
          const auto event = callee.on_frame(frame);
          ASSERT_TRUE(event.has_value()) << event.error().message;
          if (event->call) running.push_back(frame.request_id);
        });
      } else if (what <= 9) {
        move_bytes(callee.outbox(), to_caller,
                   [&](Frame&& frame) { ASSERT_TRUE(caller.on_frame(now, std::move(frame)).has_value()); });
      } else if (what == 10 && !running.empty()) {
        callee.on_answer_later(running[below(running.size())]);
      } else if (!running.empty()) {
        const size_t at = below(running.size());
        callee.on_reply(running[at], std::string(below(30) == 0 ? 5000 : below(50), 'y'));
        running.erase(running.begin() + static_cast<ptrdiff_t>(at));
      }
      for (auto& one : finished_of(caller)) one.done(std::move(one.result));
      caller.check_invariants();
      ASSERT_EQ(callee.running(), running.size());
      ASSERT_LE(callee.running(), limits.calls_max + limits.later_max);
    };
    for (int i = 0; i < 4000 && !HasFatalFailure(); ++i) step(below(13));
    if (seed % 2 == 0) {
      caller.on_lost("the end");
      for (auto& one : finished_of(caller)) one.done(std::move(one.result));
    } else {
      for (int i = 0; i < 20'000 && !HasFatalFailure(); ++i) step(6 + below(7));
    }
    for (const auto& [id, count] : ends) EXPECT_EQ(count, 1) << "call " << id;
  }
}

TEST(CalleeCore, ACallerThatSendsMoreThanAnnouncedOrAnIdTwiceIsRefused) {
  const auto call = [](uint64_t id, size_t bytes) {
    Frame frame;
    frame.kind = FrameKind::kCall;
    frame.request_id = frame.call.request_id = id;
    frame.wire_bytes = bytes;
    return frame;
  };
  CalleeCore calls({.calls_max = 2});
  ASSERT_TRUE(calls.on_frame(call(1, 60)).has_value());
  EXPECT_FALSE(calls.on_frame(call(1, 60)).has_value());
  ASSERT_TRUE(calls.on_frame(call(2, 60)).has_value());
  EXPECT_FALSE(calls.on_frame(call(3, 60)).has_value());
  CalleeCore bytes({.bytes_max = 1000});
  ASSERT_TRUE(bytes.on_frame(call(1, 5000)).has_value());
  EXPECT_FALSE(bytes.on_frame(call(2, 60)).has_value());
}

TEST(CalleeCore, CallsThatAreAnsweredLaterTakeNoRoom) {
  CalleeCore core({.calls_max = 8, .calls_first = 8, .bytes_max = 1000, .later_max = 20});
  const auto take = [&](uint64_t id) {
    Frame frame;
    frame.kind = FrameKind::kCall;
    frame.request_id = frame.call.request_id = id;
    frame.wire_bytes = 100;
    return core.on_frame(frame).has_value();
  };
  for (uint64_t id = 1; id <= 20; ++id) {
    ASSERT_GT(core.window().calls, core.running()) << "there is room for another one";
    ASSERT_GE(core.window().bytes, 100 * core.running() + 100);
    ASSERT_TRUE(take(id));
    core.on_answer_later(id);
    core.on_answer_later(id);
  }
  for (uint64_t id = 21; id <= 28; ++id) {
    ASSERT_TRUE(take(id));
    core.on_answer_later(id);  // Beyond later_max it counts like any other.
  }
  EXPECT_EQ(core.window().calls, core.running());
  EXPECT_FALSE(take(29));
  for (uint64_t id = 1; id <= 28; ++id) core.on_reply(id, "done");
  EXPECT_LT(core.window().calls, 2 * 8U) << "the room shrinks with them, but not with a frame for each";
}

TEST(CalleeCore, RepliesBeyondTheirLimitBecomeUnknownOutcomesAndNothingMoreIsRead) {
  CalleeCore core({.calls_max = 100, .replies_bytes_aim = 1000, .replies_bytes_max = 5000});
  core.outbox().consume(core.outbox().bytes(), core.outbox().bytes());
  for (uint64_t id = 1; id <= 50; ++id) {
    Frame frame;
    frame.kind = FrameKind::kCall;
    frame.request_id = frame.call.request_id = id;
    ASSERT_TRUE(core.on_frame(std::move(frame)).has_value());
  }
  EXPECT_TRUE(core.wants_input());
  for (uint64_t id = 1; id <= 50; ++id) core.on_reply(id, std::string(1000, 'x'));
  EXPECT_FALSE(core.wants_input());
  EXPECT_LT(core.outbox().bytes(), 5000U + 50 * 300U);
  EXPECT_EQ(core.window().calls, 1U);
}

TEST(CalleeCore, NoFewerCallsThanTheLeastAreTakenHoweverLargeTheReplies) {
  CalleeCore core(
      {.calls_max = 100, .calls_first = 30, .calls_least = 20, .replies_bytes_aim = 1000, .replies_bytes_max = 50'000});
  EXPECT_EQ(core.window().calls, 30U);
  for (uint64_t id = 1; id <= 10; ++id) {
    Frame frame;
    frame.kind = FrameKind::kCall;
    frame.request_id = frame.call.request_id = id;
    ASSERT_TRUE(core.on_frame(std::move(frame)).has_value());
  }
  for (uint64_t id = 1; id <= 10; ++id) core.on_reply(id, std::string(1000, 'x'));
  EXPECT_GE(core.window().calls, 20U);
}

}  // namespace
}  // namespace volador::net
