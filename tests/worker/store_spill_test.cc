// Objects spilled to disk and restored: the real store with real clients.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <filesystem>

#include "tests/worker/store_fixture.h"

namespace volador::worker {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

constexpr int64_t kMiB = int64_t{1} << 20;

std::string path_to_open(const std::string& part) {
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    const std::string target = std::filesystem::read_symlink(entry.path(), gone).string();
    if (!gone && target.find(part) != std::string::npos) return entry.path().string();
  }
  return {};
}

class StoreSpillTest : public StoreServerTest {
 protected:
  using Objects = std::vector<std::shared_ptr<const StoredObject>>;
  static Objects put_many(StoreClient& client, int count, size_t bytes) {
    Objects objects;
    for (int i = 0; i < count; ++i) objects.push_back(put(client, bytes, static_cast<uint8_t>(i)));
    return objects;
  }
  static int wrong(const Objects& objects, size_t bytes) {
    int count = 0;
    for (size_t i = 0; i < objects.size(); ++i)
      count += objects[i] == nullptr || !holds(*objects[i], bytes, static_cast<uint8_t>(i));
    return count;
  }
};

TEST_F(StoreSpillTest, MoreThanFitsIsPutAndAllOfItIsReadBack) {
  for (const size_t bytes : {size_t{40'000}, size_t{3} << 20}) {
    const auto store = start("a", 32 * kMiB, 10s, 400 * kMiB);
    const auto writer = connect("a");
    const int count = static_cast<int>(70 * kMiB / static_cast<int64_t>(bytes));
    auto objects = put_many(*writer, count, bytes);
    EXPECT_LE(store->usage().bytes, 32 * kMiB);
    EXPECT_GT(store->usage().spilled, 0);
    EXPECT_EQ(wrong(objects, bytes), 0);
    EXPECT_EQ(wrong(objects, bytes), 0) << "and once more";
    objects.clear();
    EXPECT_TRUE(eventually([&] { return store->usage().objects == 0 && store->usage().spilled == 0; }));
  }
}

TEST_F(StoreSpillTest, OtherProcessesReadWhatWasSpilledAlsoAfterItsWriterEnded) {
  const auto store = start("a", 32 * kMiB, 10s, 400 * kMiB);
  auto writer = connect("a");
  const auto reader = connect("a");
  auto objects = put_many(*writer, 30, 3 << 20);
  Objects seen;
  for (const auto& object : objects) seen.push_back(reader->acquire(object->key(), object->address(), false));
  EXPECT_EQ(wrong(seen, 3 << 20), 0);
  reader->settle();
  objects.clear();
  writer.reset();
  EXPECT_EQ(wrong(seen, 3 << 20), 0);
  seen.clear();
  EXPECT_TRUE(eventually(
      [&] { return store->usage().objects == 0 && store->usage().spilled == 0 && store->usage().bytes == 0; }));
}

TEST_F(StoreSpillTest, WhatIsBeingReadStaysWhereItIs) {
  const auto store = start("a", 32 * kMiB, 10s, 400 * kMiB);
  const auto writer = connect("a");
  const auto held = put(*writer, 6 << 20, 77);
  const auto view = held->view({});
  ASSERT_TRUE(view);
  const auto others = put_many(*writer, 20, 3 << 20);
  EXPECT_TRUE(std::all_of(view->begin(), view->end(), [](std::byte byte) { return byte == std::byte{77}; }));
  EXPECT_EQ(held->view({})->data(), view->data());
  EXPECT_EQ(wrong(others, 3 << 20), 0);
}

TEST_F(StoreSpillTest, AStoreFullOfReadersSaysSo) {
  const auto store = start("a", 16 * kMiB, 200ms, 400 * kMiB);
  const auto writer = connect("a", "driver big");
  const auto one = put(*writer, 6 << 20, 1);
  const auto two = put(*writer, 6 << 20, 2);
  const auto first = one->view({});
  auto second = two->view({});
  const auto refused = writer->create(6 << 20);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kStoreFull);
  EXPECT_THAT(refused.error().message, HasSubstr("12 MiB are being read"));
  EXPECT_THAT(refused.error().message, HasSubstr("driver big 12 MiB"));
  EXPECT_THAT(refused.error().message, HasSubstr("test at train.cc:41"));
  second = make_error(ErrorCode::kCancelled, "read");
  EXPECT_TRUE(writer->create(6 << 20)) << "the last reader has ended";
}

TEST_F(StoreSpillTest, TheLeastRecentlyUsedGoFirst) {
  const auto store = start("a", 32 * kMiB, 10s, 400 * kMiB);
  const auto writer = connect("a");
  const auto objects = put_many(*writer, 5, 5 << 20);
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(holds(*objects[0], 5 << 20, 0));  // The oldest is in use.
  const auto more = put(*writer, 5 << 20, 9);
  const auto row_of = [&](const StoredObject& object) {
    const auto rows = store->rows(10);
    return *std::find_if(rows.begin(), rows.end(), [&](const auto& row) { return row.key == object.key(); });
  };
  EXPECT_TRUE(row_of(*objects[0]).in_memory);
  EXPECT_FALSE(row_of(*objects[1]).in_memory);
  EXPECT_TRUE(row_of(*objects[1]).spilled);
  ASSERT_TRUE(holds(*objects[1], 5 << 20, 1));
  EXPECT_TRUE(row_of(*objects[1]).in_memory && row_of(*objects[1]).spilled) << "both";
}

TEST_F(StoreSpillTest, TheLimitOnDiskHoldsAndIsNamed) {
  const auto store = start("a", 16 * kMiB, 300ms, 8 * kMiB);
  const auto writer = connect("a");
  Objects objects;
  Result<std::unique_ptr<ObjectDraft>> draft = nullptr;
  while (true) {
    draft = writer->create(3 << 20);
    if (!draft) break;
    std::memset((*draft)->space().data(), static_cast<int>(objects.size()), 3 << 20);
    objects.push_back(*writer->seal(std::move(*draft), {"test", ""}));
    ASSERT_LT(objects.size(), 20u);
  }
  EXPECT_EQ(draft.error().code, ErrorCode::kStoreFull);
  EXPECT_THAT(draft.error().message, HasSubstr("of 8 MiB are spilled to disk"));
  EXPECT_LE(store->usage().spilled, 8 * kMiB);
  EXPECT_GE(objects.size(), 5u);
}

TEST_F(StoreSpillTest, AFullDiskLosesNothingAndLeavesNothing) {
  const auto store = start("a", 16 * kMiB, 300ms, 400 * kMiB);
  const auto writer = connect("a");
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto objects = put_many(*writer, 3, 3 << 20);
  const rlimit low{1 << 20, before.rlim_max};
  std::signal(SIGXFSZ, SIG_IGN);  // For this thread, which creates memfds; disk threads handle it themselves.
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &low), 0);
  const auto refused = writer->create(12 << 20);
  ::setrlimit(RLIMIT_FSIZE, &before);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kStoreFull);
  EXPECT_THAT(refused.error().message, HasSubstr("File too large"));
  EXPECT_EQ(store->usage().spilled, 0);
  EXPECT_EQ(wrong(objects, 3 << 20), 0);
  EXPECT_TRUE(eventually([&] { return writer->create(12 << 20).has_value(); })) << "the disk has room again";
  EXPECT_EQ(wrong(objects, 3 << 20), 0);
}

TEST_F(StoreSpillTest, ADamagedFileIsALostObjectAndNeverWrongData) {
  const auto store = start("damaged", 16 * kMiB, 10s, 400 * kMiB);
  const auto writer = connect("damaged");
  const auto objects = put_many(*writer, 8, 5 << 20);
  const int raw = ::open(path_to_open("damaged-spill").c_str(), O_RDWR);
  ASSERT_GE(raw, 0);
  for (int64_t at = 100; at < 64 * kMiB; at += kMiB) ASSERT_EQ(::pwrite(raw, "damage", 6, at), 6);
  ::close(raw);
  int lost = 0;
  for (size_t i = 0; i < objects.size(); ++i) {
    const auto view = objects[i]->view(20s);
    if (view) {
      EXPECT_TRUE(
          std::all_of(view->begin(), view->end(), [i](std::byte byte) { return byte == static_cast<std::byte>(i); }));
    } else {
      ++lost;
      EXPECT_EQ(view.error().code, ErrorCode::kObjectLost);
      EXPECT_THAT(view.error().message, HasSubstr("damaged"));
    }
  }
  EXPECT_GE(lost, 4);
  EXPECT_NE(put(*writer, 5 << 20, 1), nullptr) << "the store goes on";
}

TEST_F(StoreSpillTest, ManyThreadsPutReadAndDropUnderPressure) {
  const auto store = start("a", 24 * kMiB, 30s, 400 * kMiB);
  const auto writer = connect("a");
  const auto reader = connect("a");
  std::atomic<int> bad{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      Objects mine;
      Objects seen;
      for (int i = 0; i < 60; ++i) {
        const size_t bytes = 100'000 + static_cast<size_t>((i * 79190 + t) % 900'000);
        mine.push_back(put(*(i % 2 == 0 ? writer : reader), bytes, static_cast<uint8_t>(t * 60 + i)));
        if (mine.back() == nullptr) {
          ++bad;
          return;
        }
        seen.push_back(reader->acquire(mine.back()->key(), mine.back()->address(), false));
        const int earlier = (i * 31) % (i + 1);
        const size_t its_bytes = 100'000 + static_cast<size_t>((earlier * 79190 + t) % 900'000);
        if (seen[static_cast<size_t>(earlier)] != nullptr &&
            !holds(*seen[static_cast<size_t>(earlier)], its_bytes, static_cast<uint8_t>(t * 60 + earlier)))
          ++bad;
        if (i % 5 == 4) mine[static_cast<size_t>(i) - 2].reset();
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(bad, 0);
  EXPECT_TRUE(eventually([&] { return store->usage().objects == 0 && store->usage().spilled == 0; }));
}

TEST_F(StoreSpillTest, AnObjectGivenUpIsGoneForAllAndThoseWhoReadItReadOn) {
  const auto store = start("a", 32 * kMiB, 10s, 400 * kMiB);
  const auto writer = connect("a");
  const auto reader = connect("a");
  const auto object = put(*writer, 5 << 20, 5);
  const auto seen = reader->acquire(object->key(), object->address(), false);
  auto view = seen->view(20s);
  ASSERT_TRUE(view);
  writer->free(*object);
  EXPECT_TRUE(eventually([&] { return !object->view(1s); }));
  EXPECT_EQ(object->view(1s).error().code, ErrorCode::kObjectLost);
  EXPECT_THAT(object->view(1s).error().message, HasSubstr("volador::free"));
  EXPECT_TRUE(eventually([&] { return !seen->view(1s); }));
  EXPECT_TRUE(std::all_of(view->begin(), view->end(), [](std::byte byte) { return byte == std::byte{5}; }));
  const auto late = reader->acquire(object->key(), object->address(), true);
  EXPECT_EQ(late->view(20s).error().code, ErrorCode::kObjectLost);
  EXPECT_EQ(store->rows(1).at(0).in_memory, true) << "it is being read";
  view = make_error(ErrorCode::kCancelled, "read");
  EXPECT_TRUE(eventually([&] { return !store->rows(1).at(0).in_memory; }));
}

}  // namespace
}  // namespace volador::worker
