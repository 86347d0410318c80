#include "runtime/outgoing/form.h"

#include <gtest/gtest.h>

namespace volador::outgoing {
namespace {

TEST(Form, OthersAreEscaped) {
  EXPECT_EQ(percent_encoded("aZ09-._~"), "aZ09-._~");
  EXPECT_EQ(percent_encoded("a b&=+/\xc3\xa9"), "a%20b%26%3D%2B%2F%C3%A9");
  EXPECT_EQ(form_text({{"a", "1"}, {"b c", "x&y"}}), "a=1&b%20c=x%26y");
  EXPECT_EQ(form_text({}), "");
}

TEST(Form, IsReadBack) {
  const auto fields = parse_form("a=1&b%20c=x%26y&a=2&d&e=f+g");
  ASSERT_TRUE(fields);
  EXPECT_EQ(fields->at("a"), "1") << "the first value counts";
  EXPECT_EQ(fields->at("b c"), "x&y");
  EXPECT_EQ(fields->at("d"), "");
  EXPECT_EQ(fields->at("e"), "f g");
  EXPECT_TRUE(parse_form("")->empty());
  for (const char* text : {"a=%", "a=%4", "a=%4g", "%zz=1"}) EXPECT_FALSE(parse_form(text)) << text;
  std::string many;
  for (int i = 0; i < 33; ++i) many += "n" + std::to_string(i) + "=&";
  EXPECT_FALSE(parse_form(many));
}

}  // namespace
}  // namespace volador::outgoing
