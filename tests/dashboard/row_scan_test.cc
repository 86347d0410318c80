#include "dashboard/row_scan.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "runtime/random.h"
#include "tests/how_many.h"

namespace volador::dashboard {
namespace {

using Json = nlohmann::json;

std::vector<std::string> read(std::string_view row, std::vector<std::string> paths) {
  std::vector<std::string_view> values;
  RowScan(std::move(paths)).read(row, values);
  return {values.begin(), values.end()};
}
std::string read_one(std::string_view row, const std::string& path) { return read(row, {path})[0]; }

TEST(RowScan, MembersAreFoundWhereverTheyStand) {
  const char* row =
      R"({"id":"3f2a","config":{"lr" : 1e-3, "deep":{"x":[1,{"y":2}]}},"metrics":{"loss":0.25,"a.b":1},"on":true,"none":null})";
  EXPECT_EQ(read(row, {"none", "id", "metrics.loss", "config.deep.x", "on", "config.lr", "config"}),
            (std::vector<std::string>{"null", "\"3f2a\"", "0.25", R"([1,{"y":2}])", "true", "1e-3",
                                      R"({"lr" : 1e-3, "deep":{"x":[1,{"y":2}]}})"}));
  EXPECT_EQ(read(row, {"lr", "metrics.a", "id.x", "config.deep.z", ""}), std::vector<std::string>(5));
}

TEST(RowScan, ANameWithADotComesBeforeWhatTheDotLeadsInto) {
  EXPECT_EQ(read_one(R"({"a":{"b":1},"a.b":2})", "a.b"), "2");
  EXPECT_EQ(read_one(R"({"a.b":2,"a":{"b":1}})", "a.b"), "2");
  EXPECT_EQ(read_one(R"({"m":{"x.y":3}})", "m.x.y"), "3");
}

TEST(RowScan, WhatStandsInTextsIsNoMember) {
  EXPECT_EQ(read_one(R"({"error":"\"},{\"id\":1","id":2})", "id"), "2");
  EXPECT_EQ(read_one(R"({"a":["]}"],"id":2})", "id"), "2");
  EXPECT_EQ(read_one(R"({"\u0069d":2})", "id"), "2");
}

TEST(RowScan, OfWhatIsNoObjectNothingIsFound) {
  for (const char* text : {"", "[1]", "3", "{", R"({"id)", R"({"id")", R"({"id":)", R"({"id":"\)", R"({"id":{"x)"})
    read(text, {"id", "id.x"});
  EXPECT_EQ(read_one("[1]", "id"), "");
  EXPECT_EQ(read_one("{}", "id"), "");
}

TEST(RowScan, FurtherPathsThanThereIsRoomForAreFoundNowhere) {
  std::vector<std::string> paths(RowScan::kPathsMax + 1, "id");
  const auto found = read(R"({"id":1})", paths);
  EXPECT_EQ(found[RowScan::kPathsMax - 1], "1");
  EXPECT_EQ(found[RowScan::kPathsMax], "");
}

// The value that a full parser finds at that path.
const Json* member_of(const Json& row, std::string_view path) {
  const auto whole = row.find(path);
  if (whole != row.end()) return &*whole;
  const size_t dot = path.find('.');
  if (dot == std::string_view::npos) return nullptr;
  const auto next = row.find(path.substr(0, dot));
  return next == row.end() || !next->is_object() ? nullptr : member_of(*next, path.substr(dot + 1));
}

class Documents {
 public:
  explicit Documents(uint64_t seed) : random_(seed) {}
  std::string name() {
    static const std::vector<std::string> kNames{"a", "b", "a.b", "b.a", "", ".", "\"", "\\", "{", "\u00e9", "a.b.a"};
    return kNames[random_.below(kNames.size())];
  }
  Json object(int depth) {
    Json out = Json::object();
    for (uint64_t n = random_.below(5); n > 0; --n) out[name()] = value(depth);
    return out;
  }
  uint64_t below(uint64_t n) { return random_.below(n); }

 private:
  Json value(int depth) {
    switch (random_.below(depth > 0 ? 7 : 5)) {
      case 0:
        return random_.below(1000);
      case 1:
        return -0.5 * static_cast<double>(random_.below(1000));
      case 2:
        return name();
      case 3:
        return nullptr;
      case 4:
        return random_.below(2) == 0;
      case 5:
        return Json::array({value(depth - 1), name(), value(depth - 1)});
      default:
        return object(depth - 1);
    }
  }
  SeededRandom random_;
};

TEST(RowScan, FindsWhatAWholeParserFinds) {
  constexpr uint64_t kSeed = 11;
  Documents documents(kSeed);
  for (int round = 0; round < how_many(20'000, 500); ++round) {
    const Json row = documents.object(3);
    std::vector<std::string> paths;
    for (int n = 0; n < 6; ++n)
      paths.push_back(documents.name() + (documents.below(2) == 0 ? "" : "." + documents.name()));
    const auto found = read(row.dump(documents.below(2) == 0 ? -1 : 1), paths);
    for (size_t n = 0; n < paths.size(); ++n) {
      const Json* expected = member_of(row, paths[n]);
      ASSERT_EQ(found[n].empty() ? Json() : Json::parse(found[n]), expected == nullptr ? Json() : *expected)
          << paths[n] << " in " << row << " (seed " << kSeed << ")";
      ASSERT_EQ(found[n].empty(), expected == nullptr) << paths[n] << " in " << row << " (seed " << kSeed << ")";
    }
  }
}

}  // namespace
}  // namespace volador::dashboard
