#include "runtime/base64.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace volador {
namespace {

TEST(Base64, TextsOfTheStandardAreMetInBothDirections) {
  const std::vector<std::pair<std::string, std::string>> cases = {{"", ""},
                                                                  {"f", "Zg=="},
                                                                  {"fo", "Zm8="},
                                                                  {"foo", "Zm9v"},
                                                                  {"foob", "Zm9vYg=="},
                                                                  {"foobar", "Zm9vYmFy"},
                                                                  {"\xff\xfe\xfd", "//79"},
                                                                  {std::string("\0\x10", 2), "ABA="}};
  for (const auto& [bytes, text] : cases) {
    EXPECT_EQ(base64(bytes), text);
    EXPECT_EQ(from_base64(text), bytes);
  }
}

TEST(Base64, OtherTextsAreRefused) {
  for (const char* text : {"A", "AB", "ABC", "AB=C", "A===", "====", "AB-_", "AB C", "QUJD\n"})
    EXPECT_FALSE(from_base64(text).has_value()) << text;
}

TEST(Base64, TheAlphabetForUrlsHasNoPadding) {
  EXPECT_EQ(base64url("\xfb\xff"), "-_8");
  EXPECT_EQ(base64url("a"), "YQ");
  EXPECT_EQ(from_base64url("-_8"), "\xfb\xff");
  EXPECT_EQ(from_base64url(""), "");
  for (const char* text : {"+/8", "YQ==", "YQ=", "Y", "Y Q", "Y\nQ"})
    EXPECT_EQ(from_base64url(text), std::nullopt) << text;
}

}  // namespace
}  // namespace volador
