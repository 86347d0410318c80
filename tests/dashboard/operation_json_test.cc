#include "dashboard/operation_json.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "runtime/protocol/volador/v1/cluster.pb.h"
#include "runtime/protocol/volador/v1/experiments.pb.h"
#include "runtime/protocol/volador/v1/jobs.pb.h"
#include "runtime/protocol/volador/v1/studies.pb.h"
#include "runtime/protocol/volador/v1/tensorboards.pb.h"

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
  const auto& made = static_cast<const v1::ControlExperimentRequest&>(**request);
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
  const auto& made = static_cast<const v1::AnnotateExperimentRequest&>(**request);
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

TEST(OperationJson, AMessageComesAsAnObjectWithListsMapsAndNumbers) {
  const operations::Entry& submit = *operations::find("Jobs/SubmitJob");
  const v1::HttpRoute& route = route_of(submit, "/api/v1/jobs");
  const auto body = parse_body(
      R"({"spec":{"command":["python3","train.py"],"env":{"A":"1","B":""},"resources":{"licence":0.5},"gpus":2,)"
      R"("nodes":3,"memory_bytes":4294967296,"labels":{}},"dry_run":true})",
      body_fields_of(submit, route));
  ASSERT_TRUE(body.has_value()) << body.error().message;
  const auto request = request_of(submit, route, {}, *body);
  const auto& made = static_cast<const v1::SubmitJobRequest&>(**request);
  EXPECT_TRUE(made.dry_run());
  ASSERT_EQ(made.spec().command_size(), 2);
  EXPECT_EQ(made.spec().command(1), "train.py");
  EXPECT_EQ(made.spec().env().at("A"), "1");
  EXPECT_EQ(made.spec().env().at("B"), "");
  EXPECT_EQ(made.spec().resources().at("licence"), 0.5);
  EXPECT_EQ(made.spec().gpus(), 2);
  EXPECT_EQ(made.spec().nodes(), 3);
  EXPECT_EQ(made.spec().memory_bytes(), int64_t{4} << 30);
}

TEST(OperationJson, WrongMembersOfAMessageAreNamedByTheirPath) {
  const operations::Entry& submit = *operations::find("Jobs/SubmitJob");
  const auto fields = body_fields_of(submit, route_of(submit, "/api/v1/jobs"));
  const auto refused = [&](const char* text) {
    const auto body = parse_body(text, fields);
    return body ? std::string("accepted") : body.error().message;
  };
  const auto says = [&](const char* text, std::string_view words) {
    EXPECT_NE(refused(text).find(words), std::string::npos) << text << ": " << refused(text);
  };
  says("{}", "spec: it is missing; expected an object");
  says(R"({"spec":[]})", "spec: expected an object, got []");
  says(R"({"spec":{"gpu":1}})", R"(spec: there is no member "gpu"; did you mean gpus?)");
  says(R"({"spec":{"gpus":"1"}})", "spec.gpus: expected a number, or null for NaN, got \"1\"");
  says(R"({"spec":{"command":"sleep 1"}})", "spec.command: expected a list of texts");
  says(R"({"spec":{"env":{"A":1}}})", "spec.env: expected an object of texts by name");
  says(R"({"spec":{"resources":{"licence":"1"}}})", "spec.resources: expected an object of numbers by name");
  says(R"({"spec":{"nodes":2147483648}})", "spec.nodes: expected a whole number below 2^31, got 2147483648");
  says(R"({"spec":{"nodes":1.5}})", "spec.nodes: expected a whole number");
  says(R"({"spec":{},"dryrun":true})", R"(body: there is no member "dryrun"; did you mean dry_run?)");
}

TEST(OperationJson, ReasonsOfAJobAreDataAndAbsentWithoutAReason) {
  v1::Job job;
  job.set_why(R"(["job.wait_reserved","job-1"])");
  job.add_ranks();
  const nlohmann::ordered_json json = json_of(job);
  EXPECT_EQ(json["why"], (nlohmann::ordered_json{"job.wait_reserved", "job-1"}));
  EXPECT_FALSE(json["ranks"][0].contains("why"));
}

TEST(OperationJson, WholeNumbersInThePathAndUnsignedOnesInTheBody) {
  const operations::Entry& post = *operations::find("Experiments/PostSearcherOperations");
  const auto& route = route_of(post, "/api/v1/determined/experiments/{experiment}/searcher:operations");
  const auto fields = body_fields_of(post, route);
  const auto body = parse_body(R"({"operations":[{"kind":"create","seed":4294967295,"hparams":{"lr":0.1}}]})", fields);
  ASSERT_TRUE(body) << body.error().message;
  const auto request = request_of(post, route, {{"experiment", "7"}}, *body);
  ASSERT_TRUE(request) << request.error().message;
  const auto& made = static_cast<const v1::PostSearcherOperationsRequest&>(**request);
  EXPECT_EQ(made.experiment(), 7);
  EXPECT_EQ(made.operations(0).seed(), 4294967295);
  EXPECT_EQ(made.operations(0).hparams(), R"({"lr":0.1})");
  const auto wrong = request_of(post, route, {{"experiment", "seven"}}, *body);
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().message, "experiment: expected a whole number in the path, got \"seven\"");
  const auto negative = parse_body(R"({"operations":[{"seed":-1}]})", fields);
  ASSERT_FALSE(negative);
  EXPECT_EQ(negative.error().message, "operations[0].seed: expected a whole number from 0, below 2^32, got -1");
}

TEST(OperationJson, ListsOfWholeNumbers) {
  const operations::Entry& start = *operations::find("TensorBoards/StartTensorBoard");
  const auto& route = route_of(start, "/api/v1/tensorboards");
  const auto fields = body_fields_of(start, route);
  const auto body = parse_body(R"({"experiments":[7,4611686018427387904]})", fields);
  ASSERT_TRUE(body) << body.error().message;
  const auto request = request_of(start, route, {}, *body);
  ASSERT_TRUE(request) << request.error().message;
  const auto& made = static_cast<const v1::StartTensorBoardRequest&>(**request);
  ASSERT_EQ(made.experiments_size(), 2);
  EXPECT_EQ(made.experiments(1), int64_t{1} << 62);
  for (const char* wrong : {"1", "[1.5]", "[null]", "[\"1\"]"}) {
    const auto refused = parse_body(std::string(R"({"experiments":)") + wrong + "}", fields);
    ASSERT_FALSE(refused) << wrong;
    EXPECT_NE(refused.error().message.find("experiments: expected a list of whole numbers"), std::string::npos);
  }
}

TEST(OperationJson, WholeNumbersByName) {
  const operations::Entry& report = *operations::find("Experiments/ReportCheckpoint");
  const auto& route = route_of(report, "/api/v1/determined/trials/{trial}/checkpoints");
  const auto fields = body_fields_of(report, route);
  const auto body =
      parse_body(R"({"run":1,"checkpoint":{"id":"a","resources":{"state":4611686018427387904}}})", fields);
  ASSERT_TRUE(body) << body.error().message;
  const auto request = request_of(report, route, {{"trial", "7"}}, *body);
  ASSERT_TRUE(request) << request.error().message;
  const auto& made = static_cast<const v1::ReportCheckpointRequest&>(**request);
  EXPECT_EQ(made.checkpoint().resources().at("state"), int64_t{1} << 62);
  for (const char* wrong : {"null", "1.5", "1e300", "\"1\"", "9223372036854775808"}) {
    const auto refused = parse_body(std::string(R"({"checkpoint":{"resources":{"state":)") + wrong + "}}}", fields);
    ASSERT_FALSE(refused) << wrong;
    EXPECT_NE(refused.error().message.find("checkpoint.resources: expected an object of whole numbers"),
              std::string::npos)
        << refused.error().message;
  }
}

TEST(OperationJson, BytesAreBase64InBothDirections) {
  const operations::Entry& write = *operations::find("Jobs/WriteCommand");
  const auto& route = route_of(write, "/api/v1/jobs/{job}/commands/{command}:write");
  const auto fields = body_fields_of(write, route);
  const auto body = parse_body(R"({"input":"AP8=","end":true})", fields);
  ASSERT_TRUE(body) << body.error().message;
  const auto request = request_of(write, route, {{"job", "job-7"}, {"command", "c1"}}, *body);
  const auto& made = static_cast<const v1::WriteCommandRequest&>(**request);
  EXPECT_EQ(made.input(), std::string("\0\xff", 2));
  EXPECT_EQ(made.job(), "job-7");
  v1::ReadCommandReply reply;
  reply.set_output("a\n");
  EXPECT_EQ(json_of(reply)["output"], "YQo=");
  const auto refused = parse_body(R"({"input":"a"})", fields);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "input: expected a text in base64, got \"a\"");
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
