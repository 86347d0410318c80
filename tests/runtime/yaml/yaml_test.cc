#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/yaml/reader.h"
#include "runtime/yaml/writer.h"

namespace volador::yaml {
namespace {

using ::testing::HasSubstr;

std::string json(const std::string& text) {
  const auto document = read(text, "f.yaml");
  return document ? json_text(document->root) : document.error().text();
}

TEST(Yaml, ReadsPlainScalarsAsInYaml12) {
  EXPECT_EQ(json("[1, -2, +3, 50_000, 0x1f, 0o17, 0b101, 010]"), "[1,-2,3,50000,31,15,5,10]");
  EXPECT_EQ(json("[1.5, .5, 1e-4, -1E3, 1_0.5, 1.]"), "[1.5,0.5,0.0001,-1000.0,10.5,1.0]");
  EXPECT_EQ(json("[true, False, TRUE, null, ~, Null, '', ]"), "[true,false,true,null,null,null,\"\"]");
  EXPECT_EQ(json("[yes, on, n, 1.2.3, 1e, _1, e5, 2020-01-01, '1', \"true\", -, 1-2]"),
            R"(["yes","on","n","1.2.3","1e","_1","e5","2020-01-01","1","true","-","1-2"])");
  EXPECT_EQ(json("123456789012345678901234567890"), "1.2345678901234568e+29");
}

TEST(Yaml, ReadsJson) {
  EXPECT_EQ(json(R"({"a": [1, 2.0, "x", null, true], "b": {}})"), R"({"a":[1,2.0,"x",null,true],"b":{}})");
}

TEST(Yaml, KnowsThePlaceOfEachValueAndKey) {
  const auto document = read("a: 1\nb:\n  - x\n  - {c: 2}\n", "f.yaml");
  ASSERT_TRUE(document.has_value());
  EXPECT_EQ(document->root.find("a")->place.text(), "f.yaml:1:4");
  const Value& item = document->root.find("b")->items[1];
  EXPECT_EQ(item.entries.front().place.text(), "f.yaml:4:6");
  EXPECT_EQ(item.find("c")->place.text(), "f.yaml:4:9");
}

TEST(Yaml, CountsColumnsInCharacters) {
  const auto document = read("飞鱼: {a: 飞, b: [飞, 2]}\nc: 1\n", "f.yaml");
  ASSERT_TRUE(document.has_value());
  const Value& map = *document->root.find("飞鱼");
  EXPECT_EQ(map.place.text(), "f.yaml:1:5");
  EXPECT_EQ(map.entries[1].place.text(), "f.yaml:1:12");
  EXPECT_EQ(map.find("b")->items[1].place.text(), "f.yaml:1:19");
  EXPECT_EQ(document->root.find("c")->place.text(), "f.yaml:2:4");
  EXPECT_EQ(json("飞鱼: [飞, !x 1]"),
            "not valid YAML: the tag !x is not supported here; write the value without a tag "
            "(f.yaml:1:9)");
}

TEST(Yaml, ReadsALongLineOfManyValues) {
  std::string list = "[飞";
  for (int i = 0; i < 150'000; ++i) list += ", 1";
  const auto document = read(list + "]", "f.yaml");
  ASSERT_TRUE(document.has_value()) << document.error().text();
  EXPECT_EQ(document->root.items.back().place.column, 3 * 150'000 + 2);
}

TEST(Yaml, AppliesStandardTagsOnly) {
  EXPECT_EQ(json("[!!str 1, !!float 2, !!int 3]"), "[\"1\",2.0,3]");
  EXPECT_THAT(json("a: !!python/object:os.system {}"), HasSubstr("is not supported here"));
  EXPECT_THAT(json("a: !include x.yaml"), HasSubstr("is not supported here"));
  EXPECT_THAT(json("a: !!int x"), HasSubstr("is not supported here"));
}

TEST(Yaml, ReplacesAliasesAndMergeKeys) {
  EXPECT_EQ(json("a: &x {p: 1, q: 2}\nb: {<<: *x, q: 3}\nc: *x"),
            R"({"a":{"p":1,"q":2},"b":{"q":3,"p":1},"c":{"p":1,"q":2}})");
  EXPECT_EQ(json("a: {<<: [{p: 1}, {p: 2, q: 3}]}"), R"({"a":{"p":1,"q":3}})");
  EXPECT_EQ(json("a: {'<<': 1}"), R"({"a":{"<<":1}})") << "in quotes it is a key";
  EXPECT_THAT(json("a: {<<: 1}"), HasSubstr("expected a map or a list of maps"));
  EXPECT_THAT(json("a: &x [*x]"), HasSubstr("an alias stands inside the value that it names"));
  EXPECT_THAT(json("a: *x"), HasSubstr("not valid YAML"));
}

TEST(Yaml, ReportsKeysThatAreGivenTwice) {
  const auto document = read("a: 1\nb: 2\na: 3\n", "f.yaml");
  ASSERT_TRUE(document.has_value());
  ASSERT_EQ(document->problems.size(), 1u);
  EXPECT_EQ(document->problems.front().text(), "a: given twice, first at f.yaml:1:1; remove one of them (f.yaml:3:1)");
  EXPECT_EQ(document->root.find("a")->integer, 1);
}

TEST(Yaml, RefusesWhatJsonCannotExpress) {
  EXPECT_THAT(json("a: .inf"), HasSubstr("expected a finite number"));
  EXPECT_THAT(json("a: .NaN"), HasSubstr("expected a finite number"));
  EXPECT_EQ(json("a: 1e999"), R"({"a":"1e999"})");
  EXPECT_THAT(json("? [a]\n: 1"), HasSubstr("a key of a map is a text"));
  EXPECT_THAT(json("a: 1\n---\nb: 2"), HasSubstr("expected one document; a second one begins here (f.yaml:3"));
  EXPECT_THAT(json("a: \xff"), HasSubstr("expected UTF-8, got other bytes (f.yaml:1:4)"));
}

TEST(Yaml, LimitsWhatAnAliasStandsFor) {
  std::string bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n";
  for (int i = 1; i < 12; ++i) {
    const std::string below = "*a" + std::to_string(i - 1);
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [";
    for (int j = 0; j < 10; ++j) bomb += (j > 0 ? ", " : "") + below;
    bomb += "]\n";
  }
  EXPECT_THAT(json(bomb), HasSubstr("values, counted with what aliases stand for"));
  std::string texts = "a: &a " + std::string(100'000, 'x') + "\nb: [";
  for (int i = 0; i < 200; ++i) texts += "*a, ";
  EXPECT_THAT(json(texts + "]\n"), HasSubstr("bytes of text, counted with what aliases stand for"));
}

TEST(Yaml, LimitsDepthAndLength) {
  EXPECT_THAT(json(std::string(200, '[') + std::string(200, ']')), HasSubstr("lists and maps in each other"));
  EXPECT_THAT(json(std::string(100'000, '[')), HasSubstr("f.yaml"));
  EXPECT_THAT(json(std::string(100'000, '{')), HasSubstr("f.yaml"));
  std::string chain = "a0: &a0 " + std::string(90, '[') + std::string(90, ']') + "\n";
  chain += "a1: " + std::string(20, '[') + "*a0" + std::string(20, ']') + "\n";
  EXPECT_THAT(json(chain), HasSubstr("more than 100 lists and maps in each other"));
  EXPECT_THAT(json(std::string((1 << 20) + 1, ' ')), HasSubstr("the limit is 1048576"));
}

TEST(Yaml, WritesTextsThatReadAsTheSameTexts) {
  for (const char* text : {"",           "1",    "1.5", "true", "null", "~",  "yes", "No",    "on",  "y",   "a: b",
                           "a #b",       " a",   "a ",  "-",    "- a",  "<<", "=",   "12:30", "1e5", "0x1", ".inf",
                           "2020-01-01", "a\nb", "\t",  "*a",   "&a",   "!a", "@a",  "`a",    "%a",  "[a",  "{a",
                           "'",          "\"",   "\\",  "飞鱼", "|",    ">",  "?",   "? a",   ",",   "\x01"}) {
    Value map = Value::map();
    map.set(text, Value::of_text(text));
    const auto again = read(yaml_text(map), "again");
    ASSERT_TRUE(again.has_value()) << again.error().text() << "\n" << yaml_text(map);
    EXPECT_TRUE(again->root == map) << yaml_text(map);
  }
  EXPECT_EQ(yaml_text(Value::of_text("yes")), "\"yes\"\n");
  EXPECT_EQ(yaml_text(Value::of_number(1e-5)), "1.0e-05\n");
  EXPECT_EQ(yaml_text(Value::of_number(3)), "3.0\n");
  EXPECT_EQ(yaml_text(Value::list()), "[]\n");
}

}  // namespace
}  // namespace volador::yaml
