#include "runtime/machine.h"

#include <gtest/gtest.h>

namespace volador {
namespace {

TEST(Machine, IdIsThirtyTwoHexDigitsAndStable) {
  const auto id = machine_id();
  ASSERT_TRUE(id.has_value());
  EXPECT_EQ(id->size(), 32u);
  EXPECT_EQ(id->find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_EQ(*machine_id(), *id);
}

TEST(Machine, BootIdHasNoLineEnd) {
  const auto id = boot_id();
  ASSERT_TRUE(id.has_value());
  EXPECT_EQ(id->size(), 36u);
}

}  // namespace
}  // namespace volador
