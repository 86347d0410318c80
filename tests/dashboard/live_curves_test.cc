#include "dashboard/live_curves.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

namespace volador::dashboard {
namespace {

using Json = nlohmann::json;
using testing::ElementsAre;
constexpr size_t kPlenty = 1 << 20;

TEST(LiveCurves, LinesComeWholeOnceAndThenWhatWasAdded) {
  LiveCurves curves(100, LiveCurves::AtLimit::kThin);
  curves.add("a", "", 1, 0.5, 1);
  curves.add("a", "", 2, 0.25, 2);
  LiveCurves::Cursor cursor;
  auto batch = curves.read(cursor, "", kPlenty);
  EXPECT_TRUE(batch.snapshot);
  EXPECT_THAT(batch.upserts, ElementsAre(R"({"id":"a","x":[1,2],"y":[0.5,0.25]})"));
  EXPECT_FALSE(curves.has_news(cursor));
  curves.add("a", "", 3, 0.125, 3);
  curves.add("b", "", 1, 1, 4);
  batch = curves.read(cursor, "", kPlenty);
  EXPECT_FALSE(batch.snapshot);
  EXPECT_THAT(batch.upserts, ElementsAre(R"({"id":"a","x":[3],"y":[0.125]})", R"({"id":"b","x":[1],"y":[1]})"));
}

TEST(LiveCurves, RepeatedStepsAreDropped) {
  LiveCurves curves(100, LiveCurves::AtLimit::kThin);
  EXPECT_TRUE(curves.add("a", "", 5, 1, 1));
  EXPECT_FALSE(curves.add("a", "", 5, 2, 2));
  EXPECT_FALSE(curves.add("a", "", 4, 2, 2));
  EXPECT_EQ(curves.points(), 1U);
}

TEST(LiveCurves, LongLinesAreThinnedAndKeepTheirEnds) {
  LiveCurves curves(16, LiveCurves::AtLimit::kThin);
  for (int step = 1; step <= 1000; ++step) curves.add("a", "", step, step, static_cast<uint64_t>(step));
  const auto& points = curves.lines().at("a").points;
  EXPECT_LE(points.size(), 16U);
  EXPECT_EQ(points.size(), curves.points());
  EXPECT_EQ(points.front().x(), 1);
  EXPECT_EQ(points.back().x(), 1000);
}

TEST(LiveCurves, ReadersThatWereBehindGetEveryPointThatIsKeptOnce) {
  LiveCurves curves(16, LiveCurves::AtLimit::kThin);
  LiveCurves::Cursor cursor;
  curves.read(cursor, "", kPlenty);
  uint64_t seq = 0;
  double last = 0;
  for (int step = 1; step <= 300; ++step) {
    curves.add("a", "", step, step, ++seq);
    if (step % 37 != 0) continue;
    for (const std::string& text : curves.read(cursor, "", kPlenty).upserts) {
      const Json row = Json::parse(text);
      for (const double x : row["x"]) {
        EXPECT_GT(x, last);
        last = x;
      }
    }
  }
  EXPECT_EQ(last, 296);
}

TEST(LiveCurves, SnapshotsInPartsLoseNothingThatGrowsMeanwhile) {
  LiveCurves curves(100, LiveCurves::AtLimit::kThin);
  uint64_t seq = 0;
  for (int line = 0; line < 10; ++line) curves.add("line" + std::to_string(line), "", 1, 1, ++seq);
  LiveCurves::Cursor cursor;
  std::map<std::string, std::vector<double>> seen;
  LiveCurves::Batch batch;
  do {
    batch = curves.read(cursor, "", 64);
    EXPECT_TRUE(batch.snapshot);
    for (const std::string& text : batch.upserts)
      seen[Json::parse(text)["id"]] = Json::parse(text)["x"].get<std::vector<double>>();
    if (seen.size() < 5) ++seq, curves.add("line0", "", static_cast<double>(seq), 1, seq);
  } while (batch.more);
  for (const std::string& text : curves.read(cursor, "", kPlenty).upserts) {
    const Json row = Json::parse(text);
    for (const double x : row["x"]) seen[row["id"]].push_back(x);
  }
  EXPECT_EQ(seen.size(), 10U);
  EXPECT_EQ(seen["line0"].size(), curves.lines().at("line0").points.size());
}

TEST(LiveCurves, LinesThatForgetTheirOldestKeepTheNewest) {
  LiveCurves curves(8, LiveCurves::AtLimit::kForgetOldest);
  for (int step = 1; step <= 100; ++step) curves.add("a", "", step, step, static_cast<uint64_t>(step));
  EXPECT_LE(curves.points(), 8U);
  EXPECT_EQ(curves.lines().at("a").points.back().x(), 100);
}

}  // namespace
}  // namespace volador::dashboard
