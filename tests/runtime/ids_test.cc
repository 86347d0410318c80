#include "runtime/ids.h"

#include <gtest/gtest.h>

#include <unordered_set>

#include "runtime/random.h"

namespace volador {
namespace {

TEST(Id, TextAndRawBytesComeBackAsTheSameId) {
  SeededRandom random(1);
  for (int i = 0; i < 100; ++i) {
    const auto id = new_id<ActorId>(random);
    EXPECT_FALSE(id.is_nil());
    EXPECT_EQ(parse_id<ActorId>(to_string(id)).value(), id);
    EXPECT_EQ(id_from_raw<ActorId>(raw(id)), id);
    EXPECT_EQ(short_id(id), to_string(id).substr(0, 8));
  }
}

TEST(Id, TextThatIsNot32DigitsIsRefused) {
  for (const char* bad : {"", "12", "zz345678901234567890123456789012", "123456789012345678901234567890123",
                          "1234567890123456789012345678901 "})
    EXPECT_FALSE(parse_id<NodeId>(bad)) << bad;
}

TEST(Id, RawBytesOfAnotherLengthGiveNil) {
  EXPECT_TRUE(id_from_raw<NodeId>("").is_nil());
  EXPECT_TRUE(id_from_raw<NodeId>(std::string(15, 'x')).is_nil());
  EXPECT_TRUE(id_from_raw<NodeId>(std::string(17, 'x')).is_nil());
}

TEST(Id, DifferentIdsHashApart) {
  SeededRandom random(2);
  std::unordered_set<ActorId> ids;
  for (int i = 0; i < 1000; ++i) ids.insert(new_id<ActorId>(random));
  EXPECT_EQ(ids.size(), 1000u);
}

}  // namespace
}  // namespace volador
