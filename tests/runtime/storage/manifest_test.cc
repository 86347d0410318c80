#include "runtime/storage/manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace volador::storage {
namespace {

using ::testing::HasSubstr;

const std::string kSum(64, 'a');

TEST(Manifest, IsReadBack) {
  const Manifest manifest{{{"a/b", 12, kSum, 0640}, {"名字", 0, kSum, 0600}}, {"empty"}};
  EXPECT_EQ(manifest.bytes(), 12);
  EXPECT_EQ(parse_manifest("x", manifest.to_json()).value(), manifest);
}

TEST(Manifest, WhatIsDamagedIsRefused) {
  const auto refusal = [](const std::string& text) {
    const auto manifest = parse_manifest("s3://models/x", text);
    return manifest ? std::string() : manifest.error().message;
  };
  const auto with = [](const std::string& file) {
    return "{\"version\":1,\"directories\":[],\"files\":[" + file + "]}";
  };
  const std::string good = R"({"path":"a","bytes":1,"mode":384,"sha256":")" + kSum + "\"}";
  EXPECT_EQ(refusal(with(good)), "");
  EXPECT_THAT(refusal(with(good).substr(0, 40)), HasSubstr("not a JSON object"));
  EXPECT_THAT(refusal(with(good + "," + good)), HasSubstr("is in it twice"));
  EXPECT_THAT(refusal(with(R"({"path":"../a","bytes":1,"mode":384,"sha256":")" + kSum + "\"}")), HasSubstr("\"..\""));
  EXPECT_THAT(refusal(with(R"({"path":"a","bytes":-1,"mode":384,"sha256":")" + kSum + "\"}")), HasSubstr("damaged"));
  EXPECT_THAT(refusal(with(R"({"path":"a","bytes":1,"mode":384,"sha256":"abc"})")), HasSubstr("checksum"));
  EXPECT_THAT(refusal(R"({"version":2,"files":[],"directories":[]})"), HasSubstr("use a newer one"));
  for (const char* text :
       {"", "[]", "{}", R"({"version":1})", R"({"version":1,"files":{},"directories":[]})",
        R"({"version":1,"files":[1],"directories":[]})", R"({"version":1,"files":[],"directories":[1]})"})
    EXPECT_FALSE(parse_manifest("x", text)) << text;
}

TEST(Selectors, ChooseFilesFoldersAndPatterns) {
  EXPECT_TRUE(is_selected({}, "a/b"));
  EXPECT_TRUE(is_selected({"a"}, "a/b"));
  EXPECT_TRUE(is_selected({"a/"}, "a/b"));
  EXPECT_TRUE(is_selected({"x", "a/b"}, "a/b"));
  EXPECT_FALSE(is_selected({"a"}, "ab"));
  EXPECT_TRUE(is_selected({"*.pt"}, "inner/model.pt"));
  EXPECT_TRUE(is_selected({"model-?.pt"}, "model-1.pt"));
  EXPECT_FALSE(is_selected({"model-?.pt"}, "model-12.pt"));
  EXPECT_TRUE(is_selected({"*a*b*c"}, "xxaxxbxxbc"));
  EXPECT_FALSE(is_selected({"*a*b*c"}, "xxaxxbxxb"));
}

}  // namespace
}  // namespace volador::storage
