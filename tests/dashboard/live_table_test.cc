#include "dashboard/live_table.h"

#include <gmock/gmock.h>

namespace volador::dashboard {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr size_t kTablePlenty = 1 << 20;

TEST(LiveTable, FirstReadIsASnapshotAndLaterOnesHoldWhatChanged) {
  LiveTable table;
  table.upsert("a", "", "A1", 1);
  table.upsert("b", "", "B1", 2);
  LiveTable::Cursor cursor;
  auto batch = table.read(cursor, nullptr, kTablePlenty);
  EXPECT_TRUE(batch.snapshot);
  EXPECT_THAT(batch.upserts, ElementsAre("A1", "B1"));
  EXPECT_FALSE(table.has_news(cursor));

  table.upsert("a", "", "A2", 3);
  EXPECT_TRUE(table.has_news(cursor));
  batch = table.read(cursor, nullptr, kTablePlenty);
  EXPECT_FALSE(batch.snapshot);
  EXPECT_THAT(batch.upserts, ElementsAre("A2"));
}

TEST(LiveTable, RowsThatChangeOftenComeOnceInTheirNewestForm) {
  LiveTable table;
  LiveTable::Cursor cursor;
  table.read(cursor, nullptr, kTablePlenty);
  for (uint64_t seq = 1; seq <= 100; ++seq) table.upsert("a", "", std::to_string(seq), seq);
  EXPECT_THAT(table.read(cursor, nullptr, kTablePlenty).upserts, ElementsAre("100"));
}

TEST(LiveTable, AReaderGoesOnAfterAChangeThatItHasSeen) {
  LiveTable table;
  table.upsert("a", "", "A1", 1);
  table.upsert("b", "", "B1", 2);
  table.upsert("a", "", "A2", 3);
  table.erase("b", 4);
  auto cursor = table.after(2);
  ASSERT_TRUE(cursor.has_value());
  auto batch = table.read(*cursor, nullptr, kTablePlenty);
  EXPECT_FALSE(batch.snapshot);
  EXPECT_THAT(batch.upserts, ElementsAre("A2"));
  EXPECT_THAT(batch.deletes, ElementsAre("b"));
  cursor = table.after(4);
  EXPECT_FALSE(table.has_news(*cursor));
  for (uint64_t n = 0; n <= LiveTable::kDeletesKept; ++n) {
    table.upsert("c", "", "C", 5 + 2 * n);
    table.erase("c", 6 + 2 * n);
  }
  EXPECT_FALSE(table.after(2).has_value()) << "deletes of then are forgotten";
}

TEST(LiveTable, TheSameTextIsNoChange) {
  LiveTable table;
  EXPECT_TRUE(table.upsert("a", "", "A", 1));
  EXPECT_FALSE(table.upsert("a", "", "A", 2));
}

TEST(LiveTable, DeletesAreSaidOnceAndNotOfRowsThatCameBack) {
  LiveTable table;
  table.upsert("a", "", "A", 1);
  table.upsert("b", "", "B", 2);
  LiveTable::Cursor cursor;
  table.read(cursor, nullptr, kTablePlenty);
  table.erase("a", 3);
  table.erase("b", 4);
  table.upsert("b", "", "B2", 5);
  auto batch = table.read(cursor, nullptr, kTablePlenty);
  EXPECT_THAT(batch.deletes, ElementsAre("a"));
  EXPECT_THAT(batch.upserts, ElementsAre("B2"));
  EXPECT_TRUE(table.read(cursor, nullptr, kTablePlenty).empty());
}

TEST(LiveTable, ReadersThatMissedTooManyDeletesBeginAnew) {
  LiveTable table;
  LiveTable::Cursor cursor;
  table.read(cursor, nullptr, kTablePlenty);
  uint64_t seq = 0;
  for (size_t n = 0; n <= LiveTable::kDeletesKept; ++n) {
    table.upsert("x", "", "X", ++seq);
    table.erase("x", ++seq);
  }
  table.upsert("y", "", "Y", ++seq);
  const auto batch = table.read(cursor, nullptr, kTablePlenty);
  EXPECT_TRUE(batch.snapshot);
  EXPECT_THAT(batch.upserts, ElementsAre("Y"));
}

TEST(LiveTable, LongSnapshotsComeInPartsAndDeletesMeanwhileAfterThem) {
  LiveTable table;
  for (uint64_t seq = 1; seq <= 10; ++seq) table.upsert("r" + std::to_string(seq), "", "1234567890", seq);
  LiveTable::Cursor cursor;
  auto batch = table.read(cursor, nullptr, 40);
  EXPECT_TRUE(batch.snapshot);
  EXPECT_TRUE(batch.more);
  EXPECT_EQ(batch.upserts.size(), 4U);
  table.erase("r1", 11);
  size_t rows = batch.upserts.size();
  while (batch.more) {
    batch = table.read(cursor, nullptr, 40);
    EXPECT_TRUE(batch.snapshot);
    EXPECT_THAT(batch.deletes, IsEmpty());
    rows += batch.upserts.size();
  }
  EXPECT_EQ(rows, 10U);
  batch = table.read(cursor, nullptr, 40);
  EXPECT_FALSE(batch.snapshot);
  EXPECT_THAT(batch.deletes, ElementsAre("r1"));
}

TEST(LiveTable, ReadersGetTheGroupsTheyWant) {
  LiveTable table;
  table.upsert("a", "one", "A", 1);
  table.upsert("b", "two", "B", 2);
  const auto one = [](std::string_view group) { return group == "one"; };
  LiveTable::Cursor cursor;
  EXPECT_THAT(table.read(cursor, one, kTablePlenty).upserts, ElementsAre("A"));
  table.erase("b", 3);
  EXPECT_THAT(table.read(cursor, one, kTablePlenty).deletes, IsEmpty());
  table.erase_group("one", 4);
  EXPECT_THAT(table.read(cursor, one, kTablePlenty).deletes, ElementsAre("a"));
}

TEST(LiveTable, RowsThatMadeRoomAreNotDeleted) {
  LiveTable table;
  LiveTable::Cursor cursor;
  table.upsert("1", "", "one", 1);
  table.read(cursor, nullptr, kTablePlenty);
  table.forget("1");
  EXPECT_FALSE(table.has_news(cursor));
  EXPECT_TRUE(table.rows().empty());
}

}  // namespace
}  // namespace volador::dashboard
