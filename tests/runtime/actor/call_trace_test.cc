#include "runtime/actor/call_trace.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <thread>

namespace volador {
namespace {

using namespace std::chrono_literals;

const std::string kAdd = "Counter::add", kGet = "Counter::get";
const ActorId kOne{{1}}, kTwo{{2}};
constexpr BootTime kStart{1000s};

// A separate trace per test: rings belong to threads, so each test writes on a new one.
template <class F>
protocol::HostTimeline timeline_of(F write, const ActorId& actor = {}, size_t most = CallTrace::kLargeEvents,
                                   BootTime now = kStart) {
  protocol::HostTimeline mine;
  std::thread([&] {
    write(CallTrace::ring());
    const auto id = static_cast<int>(::syscall(SYS_gettid));
    const auto all = CallTrace::instance().snapshot(actor, most, now, 0);
    mine = all;
    mine.clear_events();
    for (const auto& event : all.events()) {
      if (all.threads(static_cast<int>(event.thread())).id() == id) *mine.add_events() = event;
    }
  }).join();
  return mine;
}

// Entries of earlier tests in this thread's ring are older than this.
void call(CallTrace::Ring& ring, const std::string& name, BootTime at, std::chrono::nanoseconds span,
          const ActorId& actor = kOne, bool failed = false) {
  ring.begin(&name, actor, at);
  ring.end(at + span, failed);
}

TEST(CallTrace, KeepsWhatAThreadRanInItsOrder) {
  const auto seen = timeline_of(
      [](CallTrace::Ring& ring) {
        call(ring, kAdd, kStart, 1ms);
        call(ring, kGet, kStart + 2ms, 3ms, kTwo, true);
      },
      {}, 2);
  ASSERT_EQ(seen.events_size(), 2);
  EXPECT_EQ(seen.names(static_cast<int>(seen.events(0).name())), "Counter::add");
  EXPECT_EQ(seen.events(0).start_us(), 1'000'000'000);
  EXPECT_EQ(seen.events(0).span_ns(), 1'000'000);
  EXPECT_FALSE(seen.events(0).failed());
  EXPECT_EQ(seen.names(static_cast<int>(seen.events(1).name())), "Counter::get");
  EXPECT_EQ(seen.actors(static_cast<int>(seen.events(1).actor())), raw(kTwo));
  EXPECT_TRUE(seen.events(1).failed());
}

TEST(CallTrace, ShortCallsOfOneMethodOneRightAfterAnotherAreOneEvent) {
  const auto seen = timeline_of(
      [](CallTrace::Ring& ring) {
        BootTime at = kStart;
        for (int n = 0; n < 1000; ++n, at += 2us) call(ring, kAdd, at, 1us);
        call(ring, kGet, at, 1us);        // Another method,
        call(ring, kAdd, at + 1ms, 1us);  // a pause,
        call(ring, kAdd, at + 2ms, 1ms);  // and a long call are not merged.
      },
      {}, 4);
  ASSERT_EQ(seen.events_size(), 4);
  EXPECT_EQ(seen.events(0).calls(), 1000u);
  EXPECT_EQ(seen.events(0).span_ns(), 999 * 2000 + 1000);
  for (int at = 1; at < 4; ++at) EXPECT_EQ(seen.events(at).calls(), 1u);
}

TEST(CallTrace, TheNewestOfMoreThanItKeepsAreThere) {
  const auto seen = timeline_of([](CallTrace::Ring& ring) {
    for (int n = 0; n < 10'000; ++n) call(ring, kAdd, kStart + n * 1ms, 100us);
  });
  ASSERT_GT(seen.events_size(), 200);
  ASSERT_LT(seen.events_size(), 4096);
  EXPECT_GE(seen.forgotten(), 10'000u - 4096u);
  EXPECT_EQ(seen.events(seen.events_size() - 1).start_us(), 1'000'000'000 + 9999 * 1000);
  for (int at = 1; at < seen.events_size(); ++at)
    ASSERT_EQ(seen.events(at).start_us() - seen.events(at - 1).start_us(), 1000);
}

TEST(CallTrace, WhatRunsNowIsThereAndEndsWithTheCall) {
  const auto id = [] { return static_cast<int>(::syscall(SYS_gettid)); };
  std::thread([&] {
    EXPECT_FALSE(CallTrace::instance().running(id(), kStart));
    CallTrace::ring().begin(&kAdd, kOne, kStart);
    const auto running = CallTrace::instance().running(id(), kStart + 7s);
    ASSERT_TRUE(running);
    EXPECT_EQ(running->name, "Counter::add");
    EXPECT_EQ(running->actor, kOne);
    EXPECT_EQ(running->span, 7s);
    const auto now = CallTrace::instance().snapshot(kOne, 1, kStart + 7s, 0);
    bool found = false;
    for (const auto& event : now.events()) found = found || (event.running() && event.span_ns() == 7'000'000'000);
    EXPECT_TRUE(found);
    CallTrace::ring().end(kStart + 8s, false);
    EXPECT_FALSE(CallTrace::instance().running(id(), kStart + 9s));
  }).join();
}

TEST(CallTrace, OnlyOneActorsWhereOneIsAskedFor) {
  const auto seen = timeline_of(
      [](CallTrace::Ring& ring) {
        call(ring, kAdd, kStart, 1ms, kOne);
        call(ring, kAdd, kStart + 2ms, 1ms, kTwo);
      },
      kTwo, 2);
  ASSERT_EQ(seen.events_size(), 1);
  EXPECT_EQ(seen.actors_size(), 1);
  EXPECT_EQ(seen.actors(0), raw(kTwo));
}

TEST(CallTrace, ReadersBesideAWriterSeeWholeEvents) {
  std::atomic<bool> ends{false};
  std::thread writer([&] {
    // Name and actor must match: a mixture would be detected.
    for (int64_t n = 0; !ends; ++n)
      call(CallTrace::ring(), n % 2 == 0 ? kAdd : kGet, kStart + std::chrono::hours(1) + n * 1ms, 100us,
           n % 2 == 0 ? kOne : kTwo);
  });
  for (int round = 0; round < 200; ++round) {
    const auto seen = CallTrace::instance().snapshot({}, CallTrace::kLargeEvents, kStart, 0);
    for (const auto& event : seen.events()) {
      if (event.start_us() < 4'600'000'000) continue;  // From other tests.
      const bool add = seen.names(static_cast<int>(event.name())) == kAdd;
      ASSERT_EQ(seen.actors(static_cast<int>(event.actor())), raw(add ? kOne : kTwo));
    }
  }
  ends = true;
  writer.join();
}

}  // namespace
}  // namespace volador
