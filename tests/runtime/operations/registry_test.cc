#include "runtime/operations/registry.h"

#include <gtest/gtest.h>

#include <optional>

#include "runtime/operations/catalogue.h"
#include "runtime/protocol/volador/v1/cluster.pb.h"

namespace volador::operations {
namespace {

using security::Principal;
using security::TokenRole;

const Principal kOperator = security::principal_of_token("t1", TokenRole::kOperator);
const Principal kViewer = security::principal_of_token("t2", TokenRole::kViewer);

// Calls and returns the reply of a handler that answers at once.
template <class Reply>
std::optional<Result<Reply>> call(Registry& registry, std::string_view name, const Principal& by,
                                  const google::protobuf::Message& request) {
  std::optional<Result<Reply>> out;
  registry.call<Reply>(name, by, request, [&out](Result<Reply> reply) { out = std::move(reply); });
  return out;
}

v1::DrainRequest drain(const std::string& node, const std::string& request_id = "") {
  v1::DrainRequest request;
  request.set_node(node);
  request.set_request_id(request_id);
  return request;
}

TEST(Catalogue, EveryOperationStatesWhoMayCallIt) {
  EXPECT_GT(catalogue().size(), 30u);
  for (const Entry& entry : catalogue()) EXPECT_NE(entry.rule->access(), v1::ACCESS_UNSPECIFIED) << entry.path;
}

TEST(Catalogue, FindsOperationsByNameAndPath) {
  const Entry* entry = find("Cluster/Drain");
  ASSERT_NE(entry, nullptr);
  EXPECT_EQ(entry->path, "/volador.v1.Cluster/Drain");
  EXPECT_EQ(find_path("/volador.v1.Cluster/Drain"), entry);
  EXPECT_EQ(find("Cluster/NoSuchMethod"), nullptr);
}

TEST(Catalogue, RolesMayCallWhatTheirAccessSays) {
  using security::Role;
  EXPECT_TRUE(allows(v1::READ, Role::kDriver));
  EXPECT_FALSE(allows(v1::READ, Role::kNode));
  EXPECT_FALSE(allows(v1::OPERATE, Role::kDriver));
  EXPECT_TRUE(allows(v1::OPERATE, Role::kOperator));
  EXPECT_FALSE(allows(v1::NODE, Role::kOperator));
  EXPECT_FALSE(allows(v1::ACCESS_UNSPECIFIED, Role::kOperator));
}

TEST(Registry, PassesPrincipalAndRequestToTheHandler) {
  Registry registry;
  std::string seen;
  registry.serve<v1::DrainRequest, v1::DrainReply>(
      "Cluster/Drain", [&seen](const Principal& by, const v1::DrainRequest& request, const auto& done) {
        seen = by.token_id + " " + request.node();
        done(v1::DrainReply());
      });
  EXPECT_TRUE(call<v1::DrainReply>(registry, "Cluster/Drain", kOperator, drain("heron"))->has_value());
  EXPECT_EQ(seen, "t1 heron");
}

TEST(Registry, RefusesPrincipalsOfOtherRoles) {
  Registry registry;
  registry.serve<v1::DrainRequest, v1::DrainReply>(
      "Cluster/Drain", [](const Principal&, const v1::DrainRequest&, const auto&) { FAIL() << "called"; });
  const auto refused = call<v1::DrainReply>(registry, "Cluster/Drain", kViewer, drain("heron"));
  EXPECT_EQ(refused->error().code, ErrorCode::kPermissionDenied);
  EXPECT_EQ(refused->error().message, "Cluster/Drain is for role operator; token t2 has role viewer");
}

TEST(Registry, RepeatedRequestIdGetsTheFirstReplyAndIsNotCarriedOutAgain) {
  Registry registry;
  int calls = 0;
  registry.serve<v1::KillRequest, v1::KillReply>(
      "Cluster/Kill", [&calls](const Principal&, const v1::KillRequest& request, const auto& done) {
        EXPECT_EQ(request.request_id(), "");
        v1::KillReply reply;
        reply.set_actor(std::to_string(++calls));
        done(std::move(reply));
      });
  v1::KillRequest request;
  request.set_actor("a");
  request.set_request_id("r");
  for (int time = 0; time < 2; ++time)
    EXPECT_EQ((*call<v1::KillReply>(registry, "Cluster/Kill", kOperator, request))->actor(), "1");
  request.set_actor("b");
  EXPECT_EQ(call<v1::KillReply>(registry, "Cluster/Kill", kOperator, request)->error().code,
            ErrorCode::kInvalidArgument);
  request.clear_request_id();
  EXPECT_EQ((*call<v1::KillReply>(registry, "Cluster/Kill", kOperator, request))->actor(), "2");
}

TEST(Registry, FailedRequestIsCarriedOutAgain) {
  Registry registry;
  int calls = 0;
  registry.serve<v1::DrainRequest, v1::DrainReply>(
      "Cluster/Drain",
      [&calls](const Principal&, const v1::DrainRequest&, const std::function<void(Result<v1::DrainReply>)>& done) {
        if (++calls == 1) return done(make_error(ErrorCode::kUnavailable, "not now"));
        done(v1::DrainReply());
      });
  EXPECT_FALSE(call<v1::DrainReply>(registry, "Cluster/Drain", kOperator, drain("heron", "r"))->has_value());
  EXPECT_TRUE(call<v1::DrainReply>(registry, "Cluster/Drain", kOperator, drain("heron", "r"))->has_value());
}

TEST(Registry, UnservedOperationsFailWithTheMessageOfTheirService) {
  Registry registry;
  registry.set_absent("Cluster", "results only");
  EXPECT_EQ(call<v1::DrainReply>(registry, "Cluster/Drain", kOperator, drain("heron"))->error().message,
            "results only");
  registry.serve<v1::DrainRequest, v1::DrainReply>(
      "Cluster/Drain", [](const Principal&, const v1::DrainRequest&, const auto& done) { done(v1::DrainReply()); });
  EXPECT_TRUE(call<v1::DrainReply>(registry, "Cluster/Drain", kOperator, drain("heron"))->has_value());
  registry.withdraw("Cluster");
  EXPECT_EQ(call<v1::DrainReply>(registry, "Cluster/Drain", kOperator, drain("heron"))->error().code,
            ErrorCode::kNotFound);
}

TEST(Registry, OperationsThatAreServedLaterFailWithTheCodeToAskAgain) {
  Registry registry;
  registry.set_absent("Cluster", "none here");
  registry.set_absent("Cluster", "the head starts", ErrorCode::kUnavailable);
  const auto error = call<v1::DrainReply>(registry, "Cluster/Drain", kOperator, drain("heron"))->error();
  EXPECT_EQ(error.code, ErrorCode::kUnavailable);
  EXPECT_EQ(error.message, "the head starts");
}

TEST(RegistryDeathTest, RefusesHandlersOfOtherMessageTypes) {
  Registry registry;
  const auto serve = [&registry] {
    registry.serve<v1::KillRequest, v1::DrainReply>("Cluster/Drain",
                                                    [](const Principal&, const v1::KillRequest&, const auto&) {});
  };
  EXPECT_DEATH(serve(), "Cluster/Drain");
}

}  // namespace
}  // namespace volador::operations
