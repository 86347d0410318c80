#include "head/journal/journal_writer.h"

#include <gtest/gtest.h>

#include <future>
#include <mutex>

#include "head/journal/memory_journal.h"

namespace volador::head {
namespace {

using namespace std::chrono_literals;

constexpr JournalWriterOptions kFast{.retry_first = 1ms, .retry_last = 2ms};

std::vector<Mutation> put(std::string key) { return {{"t", std::move(key), "v"}}; }

// Submits an empty step and waits for it: all earlier steps are then durable.
void wait_until_durable(JournalWriter& writer) {
  std::promise<void> done;
  writer.submit({}, [&done] { done.set_value(); });
  done.get_future().wait();
}

// A journal whose commits block until released.
class GatedJournal final : public Journal {
 public:
  Result<void> load(const Visit&) override { return {}; }
  Result<void> commit(std::span<const Mutation> batch) override {
    std::lock_guard waits(gate);
    sizes.push_back(batch.size());
    return {};
  }
  uint64_t generation() const override { return 1; }
  std::string description() const override { return "gated"; }

  std::mutex gate;
  std::vector<size_t> sizes;
};

TEST(JournalWriter, SaysWhatIsDurableInOrderAndAfterStoring) {
  auto store = std::make_shared<MemoryStore>();
  MemoryJournal journal(store);
  std::vector<int> order;
  {
    JournalWriter writer(journal, kFast, [](Error) { FAIL(); });
    for (int i = 0; i < 1000; ++i) {
      auto mutations = i % 3 == 0 ? std::vector<Mutation>{} : put(std::to_string(i));
      writer.submit(std::move(mutations), [&, i] {
        if (i % 3 != 0) {
          EXPECT_TRUE(store->rows.contains({"t", std::to_string(i)}));
        }
        order.push_back(i);
      });
    }
  }
  ASSERT_EQ(order.size(), 1000u);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
}

TEST(JournalWriter, WhatWaitsTogetherIsCommittedTogether) {
  GatedJournal journal;
  JournalWriter writer(journal, {.batch_mutations_max = 64}, [](Error) {});
  {
    std::lock_guard closed(journal.gate);
    for (int i = 0; i < 200; ++i) writer.submit(put(std::to_string(i)), nullptr);
  }
  wait_until_durable(writer);
  size_t total = 0;
  for (size_t size : journal.sizes) {
    EXPECT_LE(size, 64u);
    total += size;
  }
  EXPECT_EQ(total, 200u);
  EXPECT_LE(journal.sizes.size(), 6u);
}

TEST(JournalWriter, AStepLargerThanABatchIsStoredWhole) {
  auto store = std::make_shared<MemoryStore>();
  MemoryJournal journal(store);
  JournalWriter writer(journal, {.batch_mutations_max = 2}, [](Error) {});
  std::vector<Mutation> many;
  for (int i = 0; i < 5; ++i) many.push_back({"t", std::to_string(i), "v"});
  writer.submit(many, nullptr);
  wait_until_durable(writer);
  EXPECT_EQ(store->rows.size(), 5u);
  EXPECT_EQ(store->commits, 1u);
}

TEST(JournalWriter, AFailingStoreIsTriedAgainUntilItStores) {
  for (bool after_storing : {false, true}) {
    auto store = std::make_shared<MemoryStore>();
    (after_storing ? store->fail_after_storing : store->fail_commits) = 5;
    MemoryJournal journal(store);
    JournalWriter writer(journal, kFast, [](Error) { FAIL(); });
    std::vector<std::string> durable;
    for (const char* key : {"a", "b", "c"}) writer.submit(put(key), [&durable, key] { durable.push_back(key); });
    wait_until_durable(writer);
    EXPECT_EQ(durable, (std::vector<std::string>{"a", "b", "c"}));
    EXPECT_EQ(store->rows.size(), 3u);
    EXPECT_FALSE(writer.read_only().has_value());
  }
}

TEST(JournalWriter, IsReadOnlyWhileTheStoreFailsOrTheBacklogIsLong) {
  GatedJournal journal;
  JournalWriter writer(journal, {.backlog_mutations_max = 10}, [](Error) {});
  {
    std::lock_guard closed(journal.gate);
    for (int i = 0; i < 10; ++i) writer.submit(put(std::to_string(i)), nullptr);
    EXPECT_FALSE(writer.read_only().has_value());
    EXPECT_FALSE(writer.idle());
    writer.submit(put("one more"), nullptr);
    ASSERT_TRUE(writer.read_only().has_value());
    EXPECT_EQ(writer.read_only()->code, ErrorCode::kUnavailable);
    EXPECT_TRUE(writer.full().has_value());
  }
  wait_until_durable(writer);
  EXPECT_FALSE(writer.read_only().has_value());
}

TEST(JournalWriter, AStoreTakenOverEndsTheHeadAndAcknowledgesNothing) {
  auto store = std::make_shared<MemoryStore>();
  MemoryJournal journal(store);
  MemoryJournal newer(store);
  std::promise<Error> lost;
  JournalWriter writer(journal, kFast, [&lost](Error error) { lost.set_value(std::move(error)); });
  writer.submit(put("a"), [] { FAIL(); });
  EXPECT_EQ(lost.get_future().get().code, ErrorCode::kPermissionDenied);
  EXPECT_TRUE(writer.read_only().has_value());
  EXPECT_TRUE(store->rows.empty());
}

TEST(JournalWriter, ARowThatBreaksALimitFailsItsOwnStepOnly) {
  auto store = std::make_shared<MemoryStore>();
  MemoryJournal journal(store);
  std::vector<std::string> order;
  {
    JournalWriter writer(journal, kFast, [](const Error& error) { FAIL() << error.message; });
    writer.submit(put("before"), [&order] { order.push_back("before"); });
    std::vector<Mutation> poison = put(std::string(2000, 'k'));  // Longer than the maximum key length of 1024 bytes.
    poison.push_back({"t", "of the same step", "v"});
    writer.submit(
        std::move(poison), [] { FAIL() << "it was not stored"; },
        [&order](const Error& error) {
          EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
          order.push_back("refused");
        });
    writer.submit(put("after"), [&order] { order.push_back("after"); });
    wait_until_durable(writer);
    EXPECT_FALSE(writer.read_only().has_value());
  }
  EXPECT_EQ(order, (std::vector<std::string>{"before", "refused", "after"}));
  EXPECT_EQ(store->rows.size(), 2u) << "all of a step or nothing";
}

TEST(JournalWriter, EndsThoughTheStoreFails) {
  auto store = std::make_shared<MemoryStore>();
  store->fail_commits = 1'000'000'000;
  MemoryJournal journal(store);
  JournalWriter writer(journal, {.retry_first = 10s, .retry_last = 10s}, [](Error) {});
  writer.submit(put("a"), [] { FAIL(); });
}

}  // namespace
}  // namespace volador::head
