#include "runtime/utf8.h"

#include <gtest/gtest.h>

namespace volador {
namespace {

TEST(PlainText, IsOneLineOfWholeCharacters) {
  EXPECT_EQ(plain_text("飞鱼 and more", 100), "飞鱼 and more");
  EXPECT_EQ(plain_text("飞鱼", 4), "飞") << "not half of a character";
  EXPECT_EQ(plain_text(std::string_view("a\nb\x1b[1m\x7f\0c", 9), 100),
            "a?b?[1m?"
            "?");
  EXPECT_EQ(plain_text("\xff\xc0\xaf\xed\xa0\x80!", 100),
            "?????"
            "?!")
      << "overlong forms and surrogates are none";
  EXPECT_EQ(plain_text("\xe9\xa3", 100), "??") << "the end of the text is no character's end";
}

}  // namespace
}  // namespace volador
