#include "dashboard/api.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "dashboard/row_filter.h"
#include "dashboard/row_list.h"
#include "dashboard/row_scan.h"

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

TEST(Api, MembersOfAQueryThatDoNotExistAreErrors) {
  const Api::Route& nodes = *Api::match("GET", "/api/v1/nodes").route;
  EXPECT_TRUE(Api::check_query(nodes, {}));
  EXPECT_TRUE(Api::check_query(nodes, {{"filter", "state=alive"}, {"page_size", "7"}}));
  const auto misspelt = Api::check_query(nodes, {{"fliter", "state=alive"}});
  ASSERT_FALSE(misspelt);
  EXPECT_EQ(misspelt.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(misspelt.error().message,
            "query: there is no member \"fliter\"; did you mean filter?; known: filter, order, fields, page_size, "
            "page_token");
  EXPECT_FALSE(Api::check_query(*Api::match("GET", "/api/v1/tokens").route, {{"filter", ""}}))
      << "a route without members";
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
  EXPECT_EQ(operations, Api::routes().size() + 3) << "and who is signed in, signing in and out";
  EXPECT_EQ(document["paths"]["/api/v1/nodes/{name}:drain"]["post"]["x-access"], "operator");
}

TEST(Api, OpenApiNamesWhatBodiesQueriesAndAnswersHold) {
  const Json document = Json::parse(Api::openapi());
  const Json& ask = document["paths"]["/api/v1/studies/{name}:ask"]["post"];
  EXPECT_EQ(ask["requestBody"]["content"]["application/json"]["schema"]["properties"]["count"]["type"], "integer");
  EXPECT_EQ(ask["responses"]["200"]["content"]["application/json"]["schema"]["$ref"], "#/components/schemas/Asked");
  EXPECT_EQ(document["paths"]["/api/v1/tokens"]["post"]["requestBody"]["content"]["application/json"]["schema"]["required"], Json::array({"role"}));
  const Json& nodes = document["paths"]["/api/v1/nodes"]["get"];
  EXPECT_EQ(nodes["responses"]["200"]["content"]["application/json"]["schema"]["$ref"], "#/components/schemas/Rows");
  for (const Json& one : nodes["parameters"]) {
    if (one["name"] == "page_size") {
      EXPECT_EQ(one["schema"]["maximum"], 20'000);
    }
  }
  for (const auto& [path, methods] : document["paths"].items()) {
    for (const auto& [method, operation] : methods.items()) {
      for (const auto& [status, response] : operation["responses"].items()) {
        for (const auto& [type, content] : response["content"].items()) {
          const std::string ref = content["schema"].value("$ref", "");
          EXPECT_TRUE(ref.empty() || document["components"]["schemas"].contains(ref.substr(ref.rfind('/') + 1))) << path << " " << ref;
        }
      }
    }
  }
}

TEST(RequestBody, IsWhatItsRouteSays) {
  const std::vector<BodyField> fields{{"name", BodyField::Type::kText, "who", true},
                                      {"count", BodyField::Type::kInteger, ""},
                                      {"values", BodyField::Type::kNumbers, ""},
                                      {"on", BodyField::Type::kBoolean, ""}};
  const auto why = [&](const std::string& text) {
    const auto body = parse_body(text, fields);
    return body ? "" : body.error().message;
  };
  EXPECT_EQ(why(R"({"name":"a","count":-3,"values":[1,2.5,null],"on":true})"), "");
  EXPECT_EQ(why(R"({"nam":"a"})"), "body: there is no member \"nam\"; did you mean name?; known: name, count, values, on");
  EXPECT_EQ(why(R"({"count":1})"), "name: it is missing; expected a text (who)");
  EXPECT_EQ(why(R"({"name":"a","count":1.5})"), "count: expected a whole number below 2^63, got 1.5");
  EXPECT_EQ(why(R"({"name":"a","count":18446744073709551615})"), "count: expected a whole number below 2^63, got 18446744073709551615");
  EXPECT_EQ(why(R"({"name":"a","values":["x"]})"), "values: expected a list of numbers, null for NaN, got [\"x\"]");
  EXPECT_EQ(why("[]"), "body: expected a JSON object");
  EXPECT_EQ(why("{\"name\":"), "body: expected a JSON object");
  EXPECT_EQ(why(R"({"name":)" + std::string(60'000, '[')), "body: more than 32 levels of nesting");
  EXPECT_EQ(why(R"({"name":"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\"[["})"), "");
  EXPECT_TRUE(std::isnan(number_of(nullptr)));
}

TEST(RowList, FieldsLeaveTheRestOut) {
  const std::string text = R"({"id":"a","state":"alive","metrics":{"loss":0.5,"a.b":1,"deep":{"x":1,"y":2}},"list":[1]})";
  const auto page = [&](const char* fields) { return Json::parse(RowList::parse({{"fields", fields}})->page({text}))["rows"][0]; };
  EXPECT_EQ(page("id,metrics.loss"), Json::parse(R"({"id":"a","metrics":{"loss":0.5}})"));
  EXPECT_EQ(page("metrics.a.b,metrics.deep.y,list"), Json::parse(R"({"metrics":{"a.b":1,"deep":{"y":2}},"list":[1]})"));
  EXPECT_EQ(page("none,id.x,,"), Json::object());
  EXPECT_EQ(page(""), Json::parse(text));
  std::string many;
  for (int i = 0; i < 65; ++i) many += "x,";
  EXPECT_EQ(RowList::parse({{"fields", many}}).error().message, "fields: at most 64 members, got 65");
}

Json row() { return {{"id", "3f2a"}, {"state", "alive"}, {"metrics", {{"loss", 0.25}, {"a.b", 1}}}, {"pid", 7}, {"gone", nullptr}}; }
bool holds(std::string_view filter) {
  auto parsed = RowFilter::parse(filter);
  EXPECT_TRUE(parsed.has_value()) << filter;
  if (!parsed) return false;
  const std::string text = row().dump();
  std::vector<std::string_view> values;
  RowScan(parsed->members()).read(text, values);
  return parsed->holds(text, values);
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

TEST(RowFilter, NumbersAreTheSameHoweverTheyAreWritten) {
  EXPECT_TRUE(holds("metrics.loss=0.250"));
  EXPECT_TRUE(holds("metrics.loss=2.5e-1"));
  EXPECT_TRUE(holds("gone=null"));
  EXPECT_FALSE(holds("pid=70"));
  EXPECT_FALSE(holds("id=7"));
}

TEST(RowFilter, OneOfAListSuffices) {
  const auto has = [](const char* filter, std::string_view list) { return RowFilter::parse(filter)->holds("", {list}); };
  EXPECT_TRUE(has("tags=b", R"(["a", "b"])"));
  EXPECT_TRUE(has("tags=2", "[1,2.0]"));
  EXPECT_FALSE(has("tags=c", R"(["a","b"])"));
  EXPECT_FALSE(has("tags=", "[]"));
}

TEST(RowFilter, NumbersComeBeforeTextsAndAbsentOnesLast) {
  const auto before = [](std::string_view a, std::string_view b) { return SortKey::of(a) < SortKey::of(b); };
  EXPECT_TRUE(before("1", "2"));
  EXPECT_TRUE(before("-1e3", "2"));
  EXPECT_FALSE(before("2", "1"));
  EXPECT_TRUE(before("2", "\"a\""));
  EXPECT_TRUE(before("\"a\"", "\"b\""));
  EXPECT_TRUE(before("\"a\"", ""));
  EXPECT_FALSE(before("", "null"));
}

TEST(RowList, RowsOfOneValueStayAsTheyCameAndThoseWithoutItComeLast) {
  const std::vector<std::string_view> rows{R"({"id":"a","v":1})", R"({"id":"b"})", R"({"id":"c","v":2})", R"({"id":"d","v":1})", R"({"id":"e","v":null})"};
  const auto order = [&](Query query) {
    std::string ids;
    const Json page = Json::parse(RowList::parse(query)->page(rows));
    for (const auto& one : page["rows"]) ids += one["id"];
    return ids;
  };
  EXPECT_EQ(order({{"order", "v"}}), "adcbe");
  EXPECT_EQ(order({{"order", "-v"}}), "cadbe");
  EXPECT_EQ(order({{"order", "v"}, {"page_size", "2"}, {"page_token", "1"}}), "dc");
  EXPECT_EQ(order({{"order", "v"}, {"page_size", "2"}, {"page_token", "9"}}), "");
}

}  // namespace
}  // namespace volador::dashboard
