#include "dashboard/api.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "dashboard/operation_json.h"
#include "dashboard/row_filter.h"
#include "dashboard/row_list.h"
#include "dashboard/row_members.h"
#include "dashboard/row_scan.h"
#include "dashboard/row_text.h"
#include "dashboard/study_text.h"
#include "runtime/protocol/volador/v1/experiments.pb.h"
#include "runtime/protocol/volador/v1/jobs.pb.h"
#include "runtime/protocol/volador/v1/katib.pb.h"
#include "runtime/protocol/volador/v1/models.pb.h"
#include "runtime/protocol/volador/v1/studies.pb.h"
#include "runtime/protocol/volador/v1/users.pb.h"

namespace volador::dashboard {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;

TEST(Api, EveryRouteSaysWhoMayAndIsFoundByItsOwnPattern) {
  std::set<std::string> seen;
  for (const Api::Route& route : Api::routes()) {
    EXPECT_NE(route.access, Access::kOpen) << route.pattern;
    EXPECT_TRUE(route.method == "GET" || route.access >= Access::kUser) << route.pattern;
    EXPECT_TRUE(seen.insert(std::string(route.method) + " " + std::string(route.pattern)).second) << route.pattern;
    std::string path(route.pattern);
    for (size_t at = path.find('{'); at != std::string::npos; at = path.find('{'))
      path.replace(at, path.find('}') - at + 1, "some name");
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

TEST(Api, MembersThatNoRowOfAListHasAreErrors) {
  const auto why = [](const char* path, const char* name, const char* value) {
    const auto known = Api::check_query(*Api::match("GET", path).route, {{name, value}});
    return known ? std::string() : std::string(to_string(known.error().code)) + " " + known.error().message;
  };
  EXPECT_EQ(why("/api/v1/drivers", "fields", "id,stat"),
            "kInvalidArgument fields: rows of this list have no member \"stat\"; did you mean state?; known: id, "
            "program, pid, state, host, owner, connected_ms");
  EXPECT_THAT(
      why("/api/v1/trials", "fields", "nope.loss"),
      HasSubstr("fields: rows of this list have no member \"nope\"; did you mean node?; known: id, experiment,"));
  EXPECT_THAT(why("/api/v1/experiments/e/trials", "order", "-stp"),
              HasSubstr("order: rows of this list have no member \"stp\"; did you mean step?"));
  EXPECT_THAT(why("/api/v1/actors", "filter", "alive status=dead"),
              HasSubstr("filter: rows of this list have no member \"status\""));
  EXPECT_EQ(why("/api/v1/actors", "filter", "status"), "");
  EXPECT_EQ(why("/api/v1/trials", "fields", "id,metrics.any/loss,,config.model.width"), "");
  EXPECT_EQ(why("/api/v1/trials", "order", "-metrics.loss"), "");
}

TEST(Api, EveryMemberOfARowIsKnown) {
  const auto unknown = [](const char* pattern, const std::string& row) {
    const auto known = row_members(pattern);
    const Json members = Json::parse(row);
    std::string names;
    for (const auto& [name, value] : members.items()) {
      if (std::find(known.begin(), known.end(), name) == known.end()) names += name + " ";
    }
    return names;
  };
  v1::Node node;
  node.add_gpus();
  node.add_file_systems();
  node.set_disk_read_bytes_per_s(1);
  node.set_disk_write_bytes_per_s(1);
  node.set_network_receive_bytes_per_s(1);
  node.set_network_send_bytes_per_s(1);
  node.set_cpu_temperature_celsius(1);
  node.set_cpu_power_watts(1);
  EXPECT_EQ(unknown("/api/v1/nodes", node_text(node, 0)), "");
  v1::Actor actor;
  v1::QueueEntry waiting;
  v1::Group group;
  v1::Trial trial;
  for (auto* why : {actor.mutable_why(), waiting.mutable_why(), group.mutable_why(), trial.mutable_why()}) *why = "[]";
  v1::Driver driver;
  driver.set_connected_for_ms(1);
  trial.set_started_ms(1);
  trial.set_ended_ms(1);
  trial.set_name("a");
  trial.add_tags("b");
  trial.set_config_json("{cut");
  EXPECT_EQ(unknown("/api/v1/actors", actor_text(actor)), "");
  EXPECT_EQ(unknown("/api/v1/queue", queue_text(waiting, 0)), "");
  EXPECT_EQ(unknown("/api/v1/groups", group_text(group)), "");
  EXPECT_EQ(unknown("/api/v1/trials", trial_text(trial)), "");
  EXPECT_EQ(unknown("/api/v1/drivers", driver_text(driver, 0)), "");
  EXPECT_EQ(unknown("/api/v1/objects", object_text({})), "");
  EXPECT_EQ(unknown("/api/v1/object_groups", object_group_text({})), "");
  EXPECT_EQ(unknown("/api/v1/object_stores", object_store_text({})), "");
  v1::Study study;
  study.set_space_json("{}");
  v1::StudyTrial tried;
  tried.set_config_json("{}");
  EXPECT_EQ(unknown("/api/v1/studies", study_text(study)), "");
  EXPECT_EQ(unknown("/api/v1/studies/{name}/trials", study_trial_text(tried)), "");
  v1::Job job;
  job.mutable_spec();
  job.mutable_start();
  job.set_why("[]");
  EXPECT_EQ(unknown("/api/v1/jobs", json_of(job).dump()), "");
  v1::ExperimentInfo experiment;
  experiment.set_config("{}");
  experiment.set_why("[]");
  experiment.set_best_metric(1);
  EXPECT_EQ(unknown("/api/v1/determined/experiments", json_of(experiment).dump()), "");
  v1::TrialInfo info;
  for (std::string* text : {info.mutable_hparams(), info.mutable_metrics(), info.mutable_training_metrics()})
    *text = "{}";
  info.set_why("[]");
  info.set_best_metric(1);
  info.set_latest_metric(1);
  EXPECT_EQ(unknown("/api/v1/determined/experiments/{id}/trials", json_of(info).dump()), "");
  v1::CheckpointInfo checkpoint;
  checkpoint.set_metadata("{}");
  checkpoint.set_metrics("{}");
  checkpoint.set_metric(1);
  EXPECT_EQ(unknown("/api/v1/determined/trials/{trial}/checkpoints", json_of(checkpoint).dump()), "");
  v1::KatibResource resource;
  resource.set_object("{}");
  EXPECT_EQ(unknown("/api/v1/katib/resources", json_of(resource).dump()), "");
  v1::Model model;
  model.set_metadata("{}");
  EXPECT_EQ(unknown("/api/v1/models", json_of(model).dump()), "");
  v1::ModelVersion version;
  version.set_metadata("{}");
  *version.mutable_checkpoint_info() = checkpoint;
  EXPECT_EQ(unknown("/api/v1/models/{model}/versions", json_of(version).dump()), "");
  EXPECT_EQ(unknown("/api/v1/users", json_of(v1::User()).dump()), "");
  EXPECT_EQ(unknown("/api/v1/user_groups", json_of(v1::UserGroup()).dump()), "");
  for (const Api::Route& route : Api::routes()) {
    const bool lists = !route.query.empty() && route.query.front().name == "filter";
    EXPECT_TRUE(!lists || !row_members(route.pattern).empty()) << route.pattern;
  }
}

TEST(Api, UnknownMethodsAndPathsAreToldApart) {
  EXPECT_EQ(Api::match("PUT", "/api/v1/nodes").route, nullptr);
  EXPECT_EQ(Api::match("PUT", "/api/v1/nodes").allowed, "GET");
  EXPECT_EQ(Api::match("GET", "/api/v1/tokens").allowed, "GET, POST");
  EXPECT_NE(Api::match("HEAD", "/api/v1/nodes").route, nullptr);
  for (const char* path : {"/", "/api", "/api/v1", "/api/v1/nodes/heron", "/api/v1/nodes/:drain",
                           "/api/v1/nodes/heron:melt", "/api/v1/nodesx", "/api/v2/nodes"}) {
    EXPECT_TRUE(Api::match("GET", path).allowed.empty()) << path;
  }
  EXPECT_EQ(Api::match("POST", "/api/v1/nodes/heron:drain").parameters.at("node"), "heron");
}

TEST(Api, OpenApiDescribesEveryRoute) {
  const Json document = Json::parse(Api::openapi());
  size_t operations = 0;
  for (const auto& [path, methods] : document["paths"].items()) operations += methods.size();
  EXPECT_EQ(operations, Api::routes().size() + 4) << "and who is signed in, signing in and out, and pages of jobs";
  EXPECT_EQ(document["paths"]["/api/v1/nodes/{node}:drain"]["post"]["x-access"], "operator");
}

TEST(Api, OpenApiNamesWhatBodiesQueriesAndAnswersHold) {
  const Json document = Json::parse(Api::openapi());
  const Json& ask = document["paths"]["/api/v1/studies/{name}:ask"]["post"];
  EXPECT_EQ(ask["requestBody"]["content"]["application/json"]["schema"]["properties"]["count"]["type"], "integer");
  EXPECT_EQ(ask["responses"]["200"]["content"]["application/json"]["schema"]["$ref"], "#/components/schemas/Asked");
  EXPECT_EQ(
      document["paths"]["/api/v1/tokens"]["post"]["requestBody"]["content"]["application/json"]["schema"]["required"],
      Json::array({"role"}));
  const Json& spec = document["paths"]["/api/v1/jobs"]["post"]["requestBody"]["content"]["application/json"]["schema"]
                             ["properties"]["spec"];
  EXPECT_EQ(spec["properties"]["nodes"]["format"], "int32");
  EXPECT_EQ(spec["properties"]["env"]["additionalProperties"]["type"], "string");
  EXPECT_FALSE(spec["additionalProperties"]);
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
          EXPECT_TRUE(ref.empty() || document["components"]["schemas"].contains(ref.substr(ref.rfind('/') + 1)))
              << path << " " << ref;
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
  EXPECT_EQ(why(R"({"nam":"a"})"),
            "body: there is no member \"nam\"; did you mean name?; known: name, count, values, on");
  EXPECT_EQ(why(R"({"count":1})"), "name: it is missing; expected a text (who)");
  EXPECT_EQ(why(R"({"name":"a","count":1.5})"), "count: expected a whole number below 2^63, got 1.5");
  EXPECT_EQ(why(R"({"name":"a","count":18446744073709551615})"),
            "count: expected a whole number below 2^63, got 18446744073709551615");
  EXPECT_EQ(why(R"({"name":"a","values":["x"]})"), "values: expected a list of numbers, null for NaN, got [\"x\"]");
  EXPECT_EQ(why("[]"), "body: expected a JSON object");
  EXPECT_EQ(why("{\"name\":"), "body: expected a JSON object");
  EXPECT_EQ(why(R"({"name":)" + std::string(60'000, '[')), "body: more than 32 levels of nesting");
  EXPECT_EQ(why(R"({"name":"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[\"[["})"), "");
  EXPECT_TRUE(std::isnan(number_of(nullptr)));
}

TEST(RowList, FieldsLeaveTheRestOut) {
  const std::string text =
      R"({"id":"a","state":"alive","metrics":{"loss":0.5,"a.b":1,"deep":{"x":1,"y":2}},"list":[1]})";
  const auto page = [&](const char* fields) {
    return Json::parse(RowList::parse({{"fields", fields}})->page({text}))["rows"][0];
  };
  EXPECT_EQ(page("id,metrics.loss"), Json::parse(R"({"id":"a","metrics":{"loss":0.5}})"));
  EXPECT_EQ(page("metrics.a.b,metrics.deep.y,list"), Json::parse(R"({"metrics":{"a.b":1,"deep":{"y":2}},"list":[1]})"));
  EXPECT_EQ(page("none,id.x,,"), Json::object());
  EXPECT_EQ(page(""), Json::parse(text));
  std::string many;
  for (int i = 0; i < 65; ++i) many += "x,";
  EXPECT_EQ(RowList::parse({{"fields", many}}).error().message, "fields: at most 64 members, got 65");
}

Json row() {
  return {{"id", "3f2a"}, {"state", "alive"}, {"metrics", {{"loss", 0.25}, {"a.b", 1}}}, {"pid", 7}, {"gone", nullptr}};
}
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
  const auto has = [](const char* filter, std::string_view list) {
    return RowFilter::parse(filter)->holds("", {list});
  };
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
  const std::vector<std::string_view> rows{R"({"id":"a","v":1})", R"({"id":"b"})", R"({"id":"c","v":2})",
                                           R"({"id":"d","v":1})", R"({"id":"e","v":null})"};
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
