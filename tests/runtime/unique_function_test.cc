#include "runtime/unique_function.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>

namespace volador {
namespace {

TEST(UniqueFunctionTest, CallsWhatItWasGivenAndTakesAndReturnsValues) {
  UniqueFunction<int(std::unique_ptr<int>)> function = [bonus = std::make_unique<int>(2)](std::unique_ptr<int> value) {
    return *value + *bonus;
  };
  ASSERT_TRUE(function);
  EXPECT_EQ(function(std::make_unique<int>(40)), 42);
  UniqueFunction<int(std::unique_ptr<int>)> other = std::move(function);
  EXPECT_FALSE(function);
  EXPECT_EQ(other(std::make_unique<int>(1)), 3);
}

TEST(UniqueFunctionTest, AFunctionOfAnySizeIsMovedAndDestroyedOnce) {
  const auto small = std::make_shared<int>(1);
  const auto large = std::make_shared<int>(2);
  {
    UniqueFunction<int()> function = [small] { return *small; };
    UniqueFunction<int()> other = [large, room = std::array<char, 100>{}] { return *large + room[0]; };
    EXPECT_EQ(function() + 10 * other(), 21);
    function = std::move(other);  // Destroys its previous target.
    EXPECT_EQ(small.use_count(), 1);
    EXPECT_EQ(large.use_count(), 2);
    EXPECT_EQ(function(), 2);
  }
  EXPECT_EQ(large.use_count(), 1);
}

TEST(UniqueFunctionTest, AnEmptyFunctionStaysEmpty) {
  EXPECT_FALSE(UniqueFunction<void()>());
  EXPECT_FALSE(UniqueFunction<void()>(nullptr));
  EXPECT_FALSE(UniqueFunction<void()>(std::function<void()>()));
}

}  // namespace
}  // namespace volador
