#include "dashboard/operation_json.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "runtime/protocol/volador/v1/cluster.pb.h"
#include "runtime/protocol/volador/v1/studies.pb.h"

namespace volador::dashboard {
namespace {

const v1::HttpRoute& route_of(const operations::Entry& entry, std::string_view path) {
  for (const v1::HttpRoute& route : entry.rule->http()) {
    if (route.path() == path) return route;
  }
  static const v1::HttpRoute kNone;
  return kNone;
}

TEST(OperationJson, BodyFieldsAreThoseOfTheRequestThatThePathDoesNotHave) {
  const operations::Entry& drain = *operations::find("Cluster/Drain");
  const auto fields = body_fields_of(drain, route_of(drain, "/api/v1/nodes/{node}:drain"));
  ASSERT_EQ(fields.size(), 2u);
  EXPECT_EQ(fields[0].name, "undo");
  EXPECT_EQ(fields[0].type, BodyField::Type::kBoolean);
  EXPECT_EQ(fields[1].name, "request_id");
}

TEST(OperationJson, RequestHasPathFixedFieldsAndBody) {
  const operations::Entry& control = *operations::find("Cluster/ControlExperiment");
  const v1::HttpRoute& route = route_of(control, "/api/v1/experiments/{experiment}:add");
  const auto fields = body_fields_of(control, route);
  const auto body = parse_body(R"({"config":{"lr":0.5},"trial":"3f"})", fields);
  ASSERT_TRUE(body.has_value()) << body.error().message;
  const auto request = request_of(control, route, {{"experiment", "digits"}}, *body);
  const auto& made = static_cast<const v1::ControlExperimentRequest&>(*request);
  EXPECT_EQ(made.experiment(), "digits");
  EXPECT_EQ(made.act(), "add");
  EXPECT_EQ(made.trial(), "3f");
  EXPECT_EQ(made.config(), R"({"lr":0.5})");
}

TEST(OperationJson, RouteWithABodyListRefusesOtherFields) {
  const operations::Entry& control = *operations::find("Cluster/ControlExperiment");
  const auto fields = body_fields_of(control, route_of(control, "/api/v1/experiments/{experiment}:stop"));
  const auto body = parse_body(R"({"config":{}})", fields);
  ASSERT_FALSE(body.has_value());
  EXPECT_EQ(body.error().code, ErrorCode::kInvalidArgument);
}

TEST(OperationJson, AbsentOptionalFieldsStayUnset) {
  const operations::Entry& annotate = *operations::find("Cluster/AnnotateExperiment");
  const v1::HttpRoute& route = annotate.rule->http(0);
  const auto body = parse_body(R"({"archived":false,"add_tags":["a","b"]})", body_fields_of(annotate, route));
  ASSERT_TRUE(body.has_value());
  const auto request = request_of(annotate, route, {{"experiment", "digits"}}, *body);
  const auto& made = static_cast<const v1::AnnotateExperimentRequest&>(*request);
  EXPECT_FALSE(made.has_note());
  EXPECT_TRUE(made.has_archived());
  EXPECT_EQ(made.add_tags_size(), 2);
}

TEST(OperationJson, RepliesHaveAllFieldsUnderTheirProtoNames) {
  v1::Study study;
  study.set_name("s");
  study.set_seed(std::numeric_limits<uint64_t>::max());
  (*study.mutable_trials_by_state())["running"] = 3;
  study.add_best()->add_values(std::numeric_limits<double>::quiet_NaN());
  const nlohmann::ordered_json json = json_of(study);
  EXPECT_EQ(json["name"], "s");
  EXPECT_EQ(json["seed"].get<uint64_t>(), std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(json["trials_by_state"], (nlohmann::ordered_json{{"running", 3}}));
  EXPECT_TRUE(json["best"][0]["values"][0].is_null());
  EXPECT_EQ(json["searcher"], "");
}

TEST(OperationJson, EveryRouteOfTheCatalogueNamesFieldsOfItsRequest) {
  for (const operations::Entry& entry : operations::catalogue()) {
    for (const v1::HttpRoute& route : entry.rule->http()) {
      const auto fields = body_fields_of(entry, route);
      EXPECT_TRUE(parse_body(route.example(), fields).has_value()) << entry.name << " " << route.example();
      for (const std::string& name : route.body()) {
        EXPECT_TRUE(
            std::any_of(fields.begin(), fields.end(), [&](const BodyField& field) { return field.name == name; }))
            << entry.name << " " << name;
      }
    }
  }
}

}  // namespace
}  // namespace volador::dashboard
