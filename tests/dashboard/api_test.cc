#include "dashboard/api.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "dashboard/row_filter.h"

namespace volador::dashboard {
namespace {

using Json = nlohmann::json;

TEST(Api, EveryRouteSaysWhoMayAndIsFoundByItsOwnPattern) {
  std::set<std::string> seen;
  for (const Api::Route& route : Api::routes()) {
    EXPECT_NE(route.access, Access::kOpen) << route.pattern;
    EXPECT_TRUE(route.method == "GET" || route.access == Access::kOperator) << route.pattern;
    EXPECT_TRUE(seen.insert(std::string(route.method) + " " + std::string(route.pattern)).second) << route.pattern;
    std::string path(route.pattern);
    for (size_t at = path.find('{'); at != std::string::npos; at = path.find('{')) path.replace(at, path.find('}') - at + 1, "some name");
    const auto match = Api::match(route.method, path);
    ASSERT_NE(match.route, nullptr) << path;
    EXPECT_EQ(match.route->pattern, route.pattern);
  }
}

TEST(Api, UnknownMethodsAndPathsAreToldApart) {
  EXPECT_EQ(Api::match("PUT", "/api/v1/nodes").route, nullptr);
  EXPECT_EQ(Api::match("PUT", "/api/v1/nodes").allowed, "GET");
  EXPECT_EQ(Api::match("GET", "/api/v1/tokens").allowed, "GET, POST");
  EXPECT_NE(Api::match("HEAD", "/api/v1/nodes").route, nullptr);
  for (const char* path : {"/", "/api", "/api/v1", "/api/v1/nodes/heron", "/api/v1/nodes/:drain", "/api/v1/nodes/heron:melt", "/api/v1/nodesx", "/api/v2/nodes"}) {
    EXPECT_TRUE(Api::match("GET", path).allowed.empty()) << path;
  }
  EXPECT_EQ(Api::match("POST", "/api/v1/nodes/heron:drain").parameters.at("name"), "heron");
}

TEST(Api, OpenApiDescribesEveryRoute) {
  const Json document = Json::parse(Api::openapi());
  size_t operations = 0;
  for (const auto& [path, methods] : document["paths"].items()) operations += methods.size();
  EXPECT_EQ(operations, Api::routes().size());
  EXPECT_EQ(document["paths"]["/api/v1/nodes/{name}:drain"]["post"]["x-access"], "operator");
}

Json row() { return {{"id", "3f2a"}, {"state", "alive"}, {"metrics", {{"loss", 0.25}, {"a.b", 1}}}, {"pid", 7}, {"gone", nullptr}}; }
bool holds(std::string_view filter) {
  auto parsed = RowFilter::parse(filter);
  EXPECT_TRUE(parsed.has_value()) << filter;
  return parsed && parsed->holds(row().dump(), row());
}

TEST(RowFilter, TermsMustAllHold) {
  EXPECT_TRUE(holds(""));
  EXPECT_TRUE(holds("state=alive"));
  EXPECT_TRUE(holds("state=alive metrics.loss<0.3 pid=7 ALIVE"));
  EXPECT_TRUE(holds("metrics.a.b=1"));
  EXPECT_TRUE(holds("metrics.loss>0.2"));
  EXPECT_FALSE(holds("state=dead"));
  EXPECT_FALSE(holds("state=alive metrics.loss>0.3"));
  EXPECT_FALSE(holds("metrics.none>0"));
  EXPECT_FALSE(holds("state<3"));
  EXPECT_FALSE(holds("elsewhere"));
}

TEST(RowFilter, WrongTermsAreNamed) {
  EXPECT_EQ(RowFilter::parse("metrics.loss<low").error().code, ErrorCode::kInvalidArgument);
  std::string many;
  for (int n = 0; n < 17; ++n) many += "word ";
  EXPECT_FALSE(RowFilter::parse(many).has_value());
}

TEST(RowFilter, NumbersComeBeforeTextsAndAbsentOnesLast) {
  const Json one = 1, two = 2, text = "a", none = nullptr;
  EXPECT_TRUE(comes_before(&one, &two));
  EXPECT_FALSE(comes_before(&two, &one));
  EXPECT_TRUE(comes_before(&two, &text));
  EXPECT_TRUE(comes_before(&text, nullptr));
  EXPECT_FALSE(comes_before(nullptr, &none));
}

}  // namespace
}  // namespace volador::dashboard
