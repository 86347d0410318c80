#include "tune/execution/kept_parts.h"

#include <gtest/gtest.h>

#include "tune/execution/trial_actor.h"

namespace volador::tune {
namespace {

std::vector<AnyRef> pieces(size_t count) {
  std::vector<AnyRef> made;
  for (size_t at = 0; at < count; ++at) made.emplace_back(std::make_shared<const std::string>(std::to_string(at)));
  return made;
}
std::string texts(const std::vector<AnyRef>& refs) {
  std::string text;
  for (const AnyRef& ref : refs) text += ref.bytes()->text();
  return text;
}

TEST(KeptParts, TheOneUsedLeastLatelyGoesFirst) {
  KeptParts kept(300);
  kept.add({"a", 100}, pieces(1));
  kept.add({"b", 100}, pieces(1));
  kept.add({"c", 100}, pieces(1));
  ASSERT_NE(kept.find("a"), nullptr);
  kept.add({"d", 150}, pieces(1));
  EXPECT_NE(kept.find("a"), nullptr);
  EXPECT_EQ(kept.find("b"), nullptr);
  EXPECT_EQ(kept.find("c"), nullptr);
  EXPECT_EQ(kept.bytes(), 250);
  kept.add({"a", 100}, pieces(2));
  EXPECT_EQ(kept.bytes(), 250) << "once";
  kept.drop("a");
  kept.drop("a");
  EXPECT_EQ(kept.bytes(), 150);
  kept.clear();
  EXPECT_EQ(kept.bytes(), 0);
  EXPECT_EQ(kept.find("d"), nullptr);
}

TEST(KeptParts, OneTooLargeForAllServesWhoAddedIt) {
  KeptParts kept(100);
  const auto part = kept.add({"a", 101}, pieces(3));
  EXPECT_EQ(kept.find("a"), nullptr);
  EXPECT_EQ(texts(part->from(0, 8)), "012");
}

TEST(KeptParts, PiecesAreFoundByTheirOffsets) {
  KeptParts kept(1000);
  const auto part = kept.add({"a", 4 * kStoredPieceBytes + 1}, pieces(5));
  EXPECT_EQ(texts(part->from(0, 2)), "01");
  EXPECT_EQ(texts(part->from(2 * kStoredPieceBytes, 2)), "23");
  EXPECT_EQ(texts(part->from(4 * kStoredPieceBytes, 2)), "4");
  EXPECT_EQ(texts(part->from(5 * kStoredPieceBytes, 2)), "");
}

}  // namespace
}  // namespace volador::tune
