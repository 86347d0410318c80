#include "runtime/text.h"

#include <gtest/gtest.h>

namespace volador {
namespace {

TEST(Text, LosesTheBlanksAtItsEnds) {
  EXPECT_EQ(trimmed(" \ta b\r\n"), "a b");
  EXPECT_EQ(trimmed(""), "");
  EXPECT_EQ(trimmed(" \n "), "");
  EXPECT_EQ(trimmed("\va\v"), "\va\v");
  EXPECT_EQ(trimmed("xxaxx", "x"), "a");
}

TEST(Text, ComparesLettersOfAsciiWithoutTheirCase) {
  EXPECT_EQ(lower_case("Ab-Z[\xC3\x84"), "ab-z[\xC3\x84");
  EXPECT_TRUE(equal_without_case("Host", "hOST"));
  EXPECT_FALSE(equal_without_case("host", "hosts"));
  EXPECT_FALSE(equal_without_case("[", "{"));
}

TEST(Text, ShowsBytesAsDigits) {
  EXPECT_EQ(hex_text({"\x00\x0f\xa0\xff", 4}), "000fa0ff");
  EXPECT_EQ(hex_text(""), "");
}

}  // namespace
}  // namespace volador
