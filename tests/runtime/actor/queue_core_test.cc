#include "runtime/actor/queue_core.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>

namespace volador {
namespace {

using namespace std::chrono_literals;

// Responses to one caller.
template <class Value>
struct Told {
  struct State {
    std::optional<Value> value;
    int times = 0;
    bool cancelled = false;
  };
  std::shared_ptr<State> state = std::make_shared<State>();

  void set(Value value) const {
    state->value = std::move(value);
    ++state->times;
  }
  bool is_cancelled() const { return state->cancelled; }
  bool waits() const { return !state->value; }
  const Value& value() const { return *state->value; }
};
using Put = Told<uint64_t>;
using Got = Told<std::vector<int>>;
using Core = QueueCore<int, Put, Got>;

constexpr Core::Time kQueueStart{};

Put put(Core& core, std::vector<int> items, std::optional<Core::Time> deadline = {}, Core::Time now = kQueueStart) {
  Put answer;
  EXPECT_TRUE(core.put(now, std::move(items), deadline, answer));
  return answer;
}
Got get(Core& core, size_t max = 1, std::optional<Core::Time> deadline = {}, Core::Time now = kQueueStart) {
  Got answer;
  EXPECT_TRUE(core.get(now, max, deadline, answer));
  return answer;
}

TEST(QueueCore, ItemsComeInTheOrderInWhichTheyWerePut) {
  Core core(3);
  EXPECT_EQ(put(core, {1}).value(), 1u);
  EXPECT_EQ(put(core, {2, 3}).value(), 2u);
  EXPECT_EQ(get(core).value(), std::vector<int>({1}));
  EXPECT_EQ(get(core, 9).value(), std::vector<int>({2, 3}));
  EXPECT_EQ(core.size(), 0u);
}

TEST(QueueCore, APutWaitsForRoomAndAGetForItems) {
  Core core(1);
  put(core, {1});
  const Put second = put(core, {2}), third = put(core, {3});
  EXPECT_TRUE(second.waits());
  EXPECT_EQ(get(core).value(), std::vector<int>({1}));
  EXPECT_FALSE(second.waits());
  EXPECT_TRUE(third.waits());
  EXPECT_EQ(get(core).value(), std::vector<int>({2}));
  EXPECT_EQ(get(core).value(), std::vector<int>({3}));
  const Got first = get(core), next = get(core);
  EXPECT_TRUE(first.waits());
  put(core, {4});
  EXPECT_EQ(first.value(), std::vector<int>({4}));
  EXPECT_TRUE(next.waits());
}

TEST(QueueCore, MoreItemsThanItHoldsPassOneBehindAnother) {
  Core core(2);
  const Put many = put(core, {1, 2, 3, 4, 5});
  EXPECT_TRUE(many.waits());
  EXPECT_EQ(get(core, 2).value(), std::vector<int>({1, 2}));
  EXPECT_EQ(get(core, 2).value(), std::vector<int>({3, 4}));
  EXPECT_EQ(many.value(), 5u);
  EXPECT_EQ(get(core, 2).value(), std::vector<int>({5}));
}

TEST(QueueCore, ADeadlineEndsAWait) {
  Core core(1);
  const Got empty = get(core, 1, kQueueStart + 5ms);
  EXPECT_EQ(core.next_deadline(), kQueueStart + 5ms);
  core.expire(kQueueStart + 4ms);
  EXPECT_TRUE(empty.waits());
  core.expire(kQueueStart + 5ms);
  EXPECT_TRUE(empty.value().empty());
  const Put two = put(core, {1, 2}, kQueueStart + 9ms);
  core.expire(kQueueStart + 9ms);
  EXPECT_EQ(two.value(), 1u) << "the second one found no room";
  EXPECT_EQ(core.next_deadline(), std::nullopt);
  EXPECT_EQ(get(core, 2).value(), std::vector<int>({1}));
  EXPECT_TRUE(get(core, 1, kQueueStart, kQueueStart).value().empty()) << "a deadline that has passed does not wait";
}

TEST(QueueCore, TryPutTakesAllOrNothing) {
  Core core(2);
  Put three, two, behind;
  core.try_put(kQueueStart, {1, 2, 3}, three);
  EXPECT_EQ(three.value(), 0u);
  EXPECT_EQ(core.size(), 0u);
  core.try_put(kQueueStart, {1, 2}, two);
  EXPECT_EQ(two.value(), 2u);
  const Put waiting = put(core, {3, 4});
  get(core);
  core.try_put(kQueueStart, {5}, behind);
  EXPECT_EQ(behind.value(), 0u) << "others wait for the room";
  EXPECT_TRUE(waiting.waits());
}

TEST(QueueCore, ACallerThatIsGoneTakesNothingAndBringsNothing) {
  Core core(1);
  const Got gone = get(core), there = get(core);
  gone.state->cancelled = true;
  put(core, {1});
  EXPECT_TRUE(gone.waits());
  EXPECT_EQ(there.value(), std::vector<int>({1}));
  put(core, {2});
  const Put dropped = put(core, {3}), kept = put(core, {4});
  dropped.state->cancelled = true;
  EXPECT_EQ(get(core).value(), std::vector<int>({2}));
  EXPECT_FALSE(kept.waits());
  EXPECT_EQ(get(core).value(), std::vector<int>({4}));
}

TEST(QueueCore, CallersThatWaitHaveALimitInWhichThoseThatAreGoneDoNotCount) {
  Core core(1);
  const Got first = get(core);
  for (size_t i = 1; i < Core::kWaitingMax; ++i) get(core);
  Got refused;
  EXPECT_FALSE(core.get(kQueueStart, 1, {}, refused));
  first.state->cancelled = true;
  EXPECT_TRUE(core.get(kQueueStart, 1, {}, refused));
}

TEST(QueueCore, CloseTellsEverybodyWhoWaits) {
  Core core(1);
  get(core);
  get(core);
  int told = 0;
  core.close([&](const auto&) { ++told; });
  EXPECT_EQ(told, 2);
  EXPECT_EQ(core.next_deadline(), std::nullopt);
}

// No item is lost, duplicated or reordered, no caller gets two responses, and no caller waits while an item is
// available.
TEST(QueueCore, HoldsItsPromisesInRandomRuns) {
  for (unsigned seed = 1; seed <= 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto below = [&](unsigned limit) { return static_cast<unsigned>(random() % limit); };
    Core core(1 + below(4));
    std::vector<std::pair<Put, std::vector<int>>> puts;
    std::vector<Got> gets;
    auto now = kQueueStart;
    int next = 0;
    for (int step = 0; step < 300; ++step) {
      now += std::chrono::milliseconds(below(3));
      const auto deadline = below(2) == 0 ? std::optional<Core::Time>() : now + std::chrono::milliseconds(below(6));
      if (const unsigned what = below(5); what < 2) {
        std::vector<int> items;
        for (unsigned i = below(4) + 1; i > 0; --i) items.push_back(next++);
        puts.emplace_back(put(core, items, deadline, now), items);
      } else if (what < 4) {
        gets.push_back(get(core, 1 + below(3), deadline, now));
      } else {
        core.expire(now);
      }
      ASSERT_LE(core.size(), core.capacity());
    }
    while (true) {  // Remaining items.
      const Got rest = get(core, 4, now, now);
      if (rest.value().empty()) break;
      gets.push_back(rest);
    }
    std::vector<int> out, in;
    for (const Got& one : gets) {
      ASSERT_LE(one.state->times, 1);
      if (!one.waits()) out.insert(out.end(), one.value().begin(), one.value().end());
    }
    for (const auto& [answer, items] : puts) {
      ASSERT_FALSE(answer.waits()) << "there is room";
      ASSERT_EQ(answer.state->times, 1);
      in.insert(in.end(), items.begin(), items.begin() + static_cast<std::ptrdiff_t>(answer.value()));
    }
    ASSERT_EQ(out, in);
  }
}

}  // namespace
}  // namespace volador
