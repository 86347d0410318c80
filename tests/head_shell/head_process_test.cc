// A whole head on loopback: joins, roles, journal before acknowledgement, restarts, programs, logs, tokens.
#include "head/shell/head_process.h"

#include <gmock/gmock.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/security/credentials.h>

#include <fstream>
#include <map>
#include <thread>

#include "head/shell/authorizer.h"
#include "head/shell/listen_port.h"
#include "runtime/access_file.h"
#include "runtime/control/program_transfer.h"
#include "runtime/operations/catalogue.h"
#include "runtime/operations/registry.h"
#include "runtime/protocol/control.grpc.pb.h"
#include "runtime/protocol/volador/v1/live.pb.h"
#include "runtime/protocol/volador/v1/studies.pb.h"
#include "runtime/security/authority.h"
#include "runtime/security/handshake.h"
#include "runtime/security/keys.h"
#include "tests/contract/redis_server.h"
#include "tests/head_shell/head_fixture.h"

namespace volador::head {
namespace {

using namespace std::chrono_literals;
using security::Role;

class HeadProcessTest : public HeadFixture {};

TEST_F(HeadProcessTest, MembersJoinWithATokenAndGetACertificateOfTheirRole) {
  start();
  for (Role role : {Role::kNode, Role::kDriver, Role::kOperator}) {
    const auto credentials = join(role, "b");
    const auto identity = security::parse_peer_identity(credentials.certificate_pem);
    ASSERT_TRUE(identity.has_value());
    EXPECT_EQ(identity->role, role);
    EXPECT_EQ(identity->name, "b");
    EXPECT_EQ(identity->cluster, head_->ready().cluster_id);
    EXPECT_TRUE(security::check_connection(head_->ready().address, credentials, 5s, clock_).has_value());
  }
}

TEST_F(HeadProcessTest, ATokenJoinsOnlyAsItsRole) {
  start();
  const auto driver = try_join(Role::kNode, token(head_->ready().driver_token));
  ASSERT_FALSE(driver.has_value());
  EXPECT_EQ(driver.error().code, ErrorCode::kPermissionDenied) << driver.error().message;
  EXPECT_EQ(try_join(Role::kOperator, token(head_->ready().join_token)).error().code, ErrorCode::kPermissionDenied);
  const auto program = try_join(Role::kDriver, token(head_->ready().join_token));
  ASSERT_FALSE(program.has_value()) << "a join token lets a machine in, and no program";
  EXPECT_EQ(program.error().code, ErrorCode::kPermissionDenied);
  EXPECT_EQ(program.error().message,
            security::check_joins_as(token(head_->ready().join_token).id, security::TokenRole::kJoin, Role::kDriver)
                .error()
                .message);
  EXPECT_EQ(try_join(Role::kHost, token(head_->ready().operator_token)).error().code, ErrorCode::kInvalidArgument);
}

TEST_F(HeadProcessTest, WrongExpiredRevokedAndForeignTokensAreToldApart) {
  start();
  auto wrong = token(head_->ready().join_token);
  wrong.secret = security::Secret::random(security::kTokenSecretBytes);
  auto refused = try_join(Role::kNode, wrong);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kUnauthenticated);
  EXPECT_NE(refused.error().message.find("this is no token of this cluster"), std::string::npos)
      << refused.error().message;

  auto operates = api(head_->ready().operator_token);
  v1::CreateTokenRequest request;
  request.set_role("join");
  request.set_valid_for_ms(1);
  auto brief = operates->call<v1::CreateTokenReply>("Cluster/CreateToken", request);
  ASSERT_TRUE(brief.has_value()) << brief.error().message;
  std::this_thread::sleep_for(5ms);
  refused = try_join(Role::kNode, token(brief->text()));
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message.find("expired at"), std::string::npos) << refused.error().message;

  request.set_valid_for_ms(0);
  auto other = operates->call<v1::CreateTokenReply>("Cluster/CreateToken", request);
  ASSERT_TRUE(other.has_value());
  v1::RevokeTokenRequest revoke;
  revoke.set_id(other->token().id());
  ASSERT_TRUE(operates->call<v1::RevokeTokenReply>("Cluster/RevokeToken", revoke).has_value());
  refused = try_join(Role::kNode, token(other->text()));
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message.find("was revoked"), std::string::npos) << refused.error().message;

  auto foreign = token(head_->ready().join_token);
  foreign.authority.digest[0] ^= 1;
  refused = try_join(Role::kNode, foreign);
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message.find("belongs to another cluster"), std::string::npos) << refused.error().message;
}

TEST_F(HeadProcessTest, ClocksTooFarApartAndOtherVersionsAreRefusedByName) {
  start();
  const auto joined = token(head_->ready().join_token);
  const auto authority = join(Role::kNode).authority_pem;
  const control::Channel channel(head_->ready().address,
                                 {.certificate_pem = {}, .key_pem = {}, .authority_pem = authority});
  const auto stub = protocol::Control::NewStub(channel.grpc());
  const auto error_of = [&](int protocol_version, std::chrono::minutes skew) {
    protocol::JoinRequest request;
    request.set_protocol_version(protocol_version);
    request.set_version("9.9");
    request.set_token_id(joined.id);
    request.set_secret(joined.secret.reveal());
    request.set_role("node");
    request.set_name("b");
    request.set_csr_pem(security::make_key_request(Role::kNode, "b")->csr_pem);
    request.set_wall_ns((clock_.wall() + skew).time_since_epoch().count());
    grpc::ClientContext context;
    protocol::JoinReply reply;
    EXPECT_TRUE(stub->Join(&context, request, &reply).ok());
    return reply.error().message();
  };
  EXPECT_EQ(error_of(control::kProtocolVersion, 4min), "");
  EXPECT_NE(error_of(control::kProtocolVersion, 6min).find("ahead of the head's"), std::string::npos);
  EXPECT_NE(error_of(control::kProtocolVersion, -6min).find("behind the head's"), std::string::npos);
  EXPECT_NE(error_of(control::kProtocolVersion + 1, 0min).find("Install the same version"), std::string::npos);
}

TEST_F(HeadProcessTest, WhoGuessesIsSlowedDown) {
  start();
  auto wrong = token(head_->ready().join_token);
  wrong.secret = security::Secret::random(security::kTokenSecretBytes);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(try_join(Role::kNode, wrong).error().code, ErrorCode::kUnauthenticated);
  const auto refused = try_join(Role::kNode, token(head_->ready().join_token));
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(refused.error().message.find("too many wrong tokens from 127.0.0.1"), std::string::npos)
      << refused.error().message;
}

// Methods allowed for each role; repeated here so that a change of the head's table must be made in two places.
const std::map<std::string, std::string> kAllowed{
    {"/volador.protocol.Control/Join", "none host driver node operator"},
    {"/volador.protocol.Control/Worker", "node"},
    {"/volador.protocol.Control/Client", "driver operator"},
    {"/volador.protocol.Control/Certify", "node"},
    {"/volador.protocol.Control/PutProgram", "driver operator"},
    {"/volador.protocol.Control/GetProgram", "node"},
    {"/volador.v1.Cluster/Status", "driver operator"},
    {"/volador.v1.Cluster/ListNodes", "driver operator"},
    {"/volador.v1.Cluster/ListActors", "driver operator"},
    {"/volador.v1.Cluster/ListGroups", "driver operator"},
    {"/volador.v1.Cluster/ListQueue", "driver operator"},
    {"/volador.v1.Cluster/ListTrials", "driver operator"},
    {"/volador.v1.Cluster/ListObjects", "driver operator"},
    {"/volador.v1.Cluster/Explain", "driver operator"},
    {"/volador.v1.Cluster/Stack", "driver operator"},
    {"/volador.v1.Cluster/ListProcesses", "driver operator"},
    {"/volador.v1.Cluster/Timeline", "driver operator"},
    {"/volador.v1.Cluster/Logs", "driver operator"},
    {"/volador.v1.Cluster/ReadLog", "driver operator"},
    {"/volador.v1.Cluster/CreateToken", "operator"},
    {"/volador.v1.Cluster/ListAudit", "operator"},
    {"/volador.v1.Cluster/ListTokens", "operator"},
    {"/volador.v1.Cluster/RevokeToken", "operator"},
    {"/volador.v1.Cluster/Drain", "operator"},
    {"/volador.v1.Cluster/Kill", "operator"},
    {"/volador.v1.Cluster/ControlExperiment", "operator"},
    {"/volador.v1.Cluster/AnnotateExperiment", "operator"},
    {"/volador.v1.Cluster/LoginLink", "operator"},
    {"/volador.v1.Cluster/NoSuchMethod", ""},
    {"/volador.v1.Live/List", "driver operator"},
    {"/volador.v1.Live/Watch", "driver operator"},
    {"/volador.v1.Studies/GetStudy", "driver operator"},
    {"/volador.v1.Studies/ListStudies", "driver operator"},
    {"/volador.v1.Studies/ListStudyTrials", "driver operator"},
    {"/volador.v1.Studies/CreateStudy", "operator"},
    {"/volador.v1.Studies/DeleteStudy", "operator"},
    {"/volador.v1.Studies/Ask", "operator"},
    {"/volador.v1.Studies/Tell", "operator"},
    {"/volador.v1.Studies/Report", "operator"},
    {"/volador.v1.Jobs/GetJob", "driver operator"},
    {"/volador.v1.Jobs/GetQueue", "driver operator"},
    {"/volador.v1.Jobs/SetQueue", "operator"},
    {"/volador.v1.Jobs/GetUsage", "driver operator"},
    {"/volador.v1.Jobs/ListJobs", "driver operator"},
    {"/volador.v1.Jobs/SubmitJob", "driver operator"},
    {"/volador.v1.Jobs/StopJob", "driver operator"},
    {"/volador.v1.Jobs/DeleteJob", "driver operator"},
    {"/volador.v1.Jobs/SetJobPriority", "driver operator"},
    {"/volador.v1.Jobs/ExtendJob", "driver operator"},
    {"/volador.v1.Jobs/StartCommand", "driver operator"},
    {"/volador.v1.Jobs/ReadCommand", "driver operator"},
    {"/volador.v1.Jobs/WriteCommand", "driver operator"},
    {"/volador.v1.Jobs/PutJobFiles", "driver operator"},
    {"/volador.v1.Models/GetModel", "driver operator"},
    {"/volador.v1.Models/ListModels", "driver operator"},
    {"/volador.v1.Models/GetModelVersion", "driver operator"},
    {"/volador.v1.Models/ListModelVersions", "driver operator"},
    {"/volador.v1.Models/CreateModel", "driver operator"},
    {"/volador.v1.Models/EditModel", "driver operator"},
    {"/volador.v1.Models/DeleteModel", "driver operator"},
    {"/volador.v1.Models/RegisterModelVersion", "driver operator"},
    {"/volador.v1.Models/EditModelVersion", "driver operator"},
    {"/volador.v1.Models/DeleteModelVersion", "driver operator"},
    {"/volador.v1.Experiments/GetExperiment", "driver operator"},
    {"/volador.v1.Experiments/ListExperiments", "driver operator"},
    {"/volador.v1.Experiments/GetTrialInfo", "driver operator"},
    {"/volador.v1.Experiments/ListTrialInfos", "driver operator"},
    {"/volador.v1.Experiments/GetCheckpoint", "driver operator"},
    {"/volador.v1.Experiments/ListCheckpoints", "driver operator"},
    {"/volador.v1.Experiments/GetMetrics", "driver operator"},
    {"/volador.v1.Experiments/GetExperimentFiles", "driver operator"},
    {"/volador.v1.Experiments/CreateExperiment", "driver operator"},
    {"/volador.v1.Experiments/PreviewSearch", "driver operator"},
    {"/volador.v1.Experiments/ChangeExperiment", "driver operator"},
    {"/volador.v1.Experiments/EditExperiment", "driver operator"},
    {"/volador.v1.Experiments/KillTrial", "driver operator"},
    {"/volador.v1.Experiments/DeleteCheckpoints", "driver operator"},
    {"/volador.v1.Experiments/GetSearcherEvents", "driver operator"},
    {"/volador.v1.Experiments/PostSearcherOperations", "driver operator"},
    {"/volador.v1.Experiments/StartTrialRun", "driver operator"},
    {"/volador.v1.Experiments/GetTrialOperation", "driver operator"},
    {"/volador.v1.Experiments/CompleteTrialOperation", "driver operator"},
    {"/volador.v1.Experiments/ReportMetrics", "driver operator"},
    {"/volador.v1.Experiments/ReportProgress", "driver operator"},
    {"/volador.v1.Experiments/ReportTrialExit", "driver operator"},
    {"/volador.v1.Experiments/ReportCheckpoint", "driver operator"},
    {"/volador.v1.Experiments/WaitPreemption", "driver operator"},
    {"/volador.v1.Experiments/AcknowledgePreemption", "driver operator"},
    {"/volador.v1.Experiments/GetGarbage", "driver operator"},
    {"/volador.v1.Experiments/ReportGarbage", "driver operator"},
    {"/volador.v1.Katib/ApplyKatibResources", "driver operator"},
    {"/volador.v1.Katib/ListKatibResources", "driver operator"},
    {"/volador.v1.Katib/ListKatibAlgorithms", "driver operator"},
    {"/volador.v1.Katib/DeleteKatibResource", "driver operator"},
    {"/volador.v1.Katib/WatchKatibResources", "driver operator"},
    {"/api.v1.beta1.DBManager/ReportObservationLog", "driver operator"},
    {"/api.v1.beta1.DBManager/GetObservationLog", "driver operator"},
    {"/api.v1.beta1.DBManager/DeleteObservationLog", "driver operator"},
    {"/volador.v1.TensorBoards/StartTensorBoard", "driver operator"},
    {"/volador.v1.TensorBoards/ListTensorBoards", "driver operator"},
    {"/volador.v1.Users/ListUsers", "operator"},
    {"/volador.v1.Users/PutUser", "operator"},
    {"/volador.v1.Users/DeleteUser", "operator"},
    {"/volador.v1.Users/ChangePassword", "driver operator"},
    {"/volador.v1.Users/Login", "none host driver node operator"},
    {"/volador.v1.Users/Logout", "driver operator"},
    {"/volador.v1.Users/CreateUserToken", "driver operator"},
    {"/volador.v1.Users/WhoAmI", "driver operator"},
    {"/volador.v1.Users/ListUserGroups", "operator"},
    {"/volador.v1.Users/CreateUserGroup", "operator"},
    {"/volador.v1.Users/ChangeUserGroup", "operator"},
    {"/volador.v1.Users/DeleteUserGroup", "operator"},
    {"/volador.v1.Users/StartProviderLogin", "none host driver node operator"},
    {"/volador.v1.Users/PollProviderLogin", "none host driver node operator"},
    {"/grpc.health.v1.Health/Check", "none host driver node operator"},
    {"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", "driver operator"},
};

// Sends one empty message and the end; returns the resulting status.
grpc::Status call_with_an_empty_message(const std::shared_ptr<grpc::Channel>& channel, const std::string& method) {
  grpc::GenericStub stub(channel);
  grpc::CompletionQueue queue;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + 10s);
  auto stream = stub.PrepareCall(&context, method, &queue);
  const auto wait = [&queue] {
    void* tag = nullptr;
    bool ok = false;
    queue.Next(&tag, &ok);
    return ok;
  };
  stream->StartCall(nullptr);
  if (wait()) {
    const grpc::Slice empty;
    stream->Write(grpc::ByteBuffer(&empty, 1), nullptr);
    if (wait()) {
      stream->WritesDone(nullptr);
      wait();
    }
  }
  grpc::ByteBuffer answer;
  do {
    stream->Read(&answer, nullptr);
  } while (wait());
  grpc::Status status;
  stream->Finish(&status, nullptr);
  wait();
  return status;
}

TEST_F(HeadProcessTest, EveryMethodChecksTheRole) {
  start();
  std::map<std::string, security::Credentials> members{
      {"driver", join(Role::kDriver)}, {"node", join(Role::kNode, "node")}, {"operator", join(Role::kOperator)}};
  members["none"] = {.certificate_pem = {}, .key_pem = {}, .authority_pem = members["node"].authority_pem};
  {
    auto driver = drive();
    driver->link->send(spawn_message(*driver, new_id<ActorId>(random_)));
    auto node = serve_as("node", members["node"]);
    const auto start = node->inbox.next([](const auto& message) { return message.has_start_host(); });
    ASSERT_TRUE(start.has_value());
    const control::Channel channel(head_->ready().address, members["node"]);
    auto host = control::certify_host(channel, id_from_raw<HostId>(start->start_host().host_id()), 5s);
    ASSERT_TRUE(host.has_value()) << host.error().message;
    members["host"] = *host;
  }
  EXPECT_THAT(head_->registry().unserved("Cluster"), ::testing::IsEmpty());
  EXPECT_THAT(head_->registry().unserved("Users"), ::testing::IsEmpty());
  for (const operations::Entry& entry : operations::catalogue())
    EXPECT_TRUE(kAllowed.contains(entry.path)) << entry.path;
  for (const auto& [role, credentials] : members) {
    const control::Channel channel(head_->ready().address, credentials);
    for (const auto& [method, allowed] : kAllowed) {
      const grpc::Status status = call_with_an_empty_message(channel.grpc(), method);
      const bool may = (" " + allowed + " ").find(" " + role + " ") != std::string::npos;
      const auto refused = role == "none" ? grpc::StatusCode::UNAUTHENTICATED : grpc::StatusCode::PERMISSION_DENIED;
      if (may) {
        EXPECT_NE(status.error_code(), grpc::StatusCode::UNAUTHENTICATED)
            << role << " " << method << ": " << status.error_message();
        EXPECT_NE(status.error_code(), grpc::StatusCode::PERMISSION_DENIED)
            << role << " " << method << ": " << status.error_message();
      } else if (allowed.empty()) {
        EXPECT_FALSE(status.ok()) << role << " " << method;
      } else {
        EXPECT_EQ(status.error_code(), refused) << role << " " << method << ": " << status.error_message();
        EXPECT_NE(status.error_message().find(method.substr(1)), std::string::npos) << status.error_message();
      }
    }
  }
}

TEST_F(HeadProcessTest, ANodeGetsCertificatesOnlyForHostsThatWerePlacedOnIt) {
  start();
  const auto own = join(Role::kNode, "b");
  const auto other = join(Role::kNode, "c");
  auto driver = drive();
  const auto actor = new_id<ActorId>(random_);
  driver->link->send(spawn_message(*driver, actor));
  auto node = serve_as("b", own);
  const auto started = node->inbox.next([](const auto& message) { return message.has_start_host(); });
  ASSERT_TRUE(started.has_value());
  const auto host = id_from_raw<HostId>(started->start_host().host_id());
  const control::Channel channel(head_->ready().address, own);
  const control::Channel channel_of_other(head_->ready().address, other);

  EXPECT_TRUE(control::certify_host(channel, host, 5s).has_value());
  const auto of_nobody = control::certify_host(channel, new_id<HostId>(random_), 5s);
  ASSERT_FALSE(of_nobody.has_value());
  EXPECT_EQ(of_nobody.error().code, ErrorCode::kPermissionDenied);
  EXPECT_THAT(of_nobody.error().message, ::testing::HasSubstr("no actor has it now"));
  const auto elsewhere = control::certify_host(channel_of_other, host, 5s);
  ASSERT_FALSE(elsewhere.has_value());
  EXPECT_EQ(elsewhere.error().code, ErrorCode::kPermissionDenied);
  EXPECT_THAT(elsewhere.error().message, ::testing::HasSubstr("it was placed on b"));

  // The incarnation has ended: messages of its host no longer count.
  protocol::WorkerMessage ended;
  ended.mutable_host_ended()->set_host_id(raw(host));
  ended.mutable_host_ended()->set_actor_id(raw(actor));
  ended.mutable_host_ended()->set_epoch(started->start_host().epoch());
  ended.mutable_host_ended()->mutable_cause()->set_kind(protocol::DeathCause::EXITED);
  node->link->send(ended);
  ASSERT_TRUE(
      driver->inbox
          .next([&](const auto& message) { return message.has_actor() && message.actor().state() == protocol::DEAD; })
          .has_value());
  EXPECT_FALSE(control::certify_host(channel, host, 5s).has_value());
  node->link->close();
}

TEST_F(HeadProcessTest, CertificatesOfAnotherClusterAreNotAccepted) {
  start();
  const auto own = join(Role::kOperator);
  const auto other = security::Authority::create(new_id<ClusterId>(random_), clock_.wall());
  const auto request = security::make_key_request(Role::kOperator, "mallory");
  auto signed_elsewhere =
      other->sign(request->csr_pem, {.role = Role::kOperator, .name = "mallory", .token_id = {}, .now = clock_.wall()});
  ASSERT_TRUE(signed_elsewhere.has_value()) << signed_elsewhere.error().message;
  const control::Channel channel(
      head_->ready().address,
      {.certificate_pem = *signed_elsewhere, .key_pem = request->key_pem, .authority_pem = own.authority_pem});
  control::ClusterApi api(std::make_shared<control::Channel>(
      head_->ready().address, security::Credentials{*signed_elsewhere, request->key_pem, own.authority_pem}));
  EXPECT_FALSE(api.call<v1::StatusReply>("Cluster/Status", v1::StatusRequest()).has_value());
}

TEST_F(HeadProcessTest, TheApiTakesBearerTokensByRole) {
  start();
  auto status = api(head_->ready().operator_token)->call<v1::StatusReply>("Cluster/Status", v1::StatusRequest());
  ASSERT_TRUE(status.has_value()) << status.error().message;
  EXPECT_EQ(status->cluster_name(), "heron");
  EXPECT_EQ(status->address(), head_->ready().address);
  auto drives = api(head_->ready().driver_token);
  EXPECT_TRUE(drives->call<v1::StatusReply>("Cluster/Status", v1::StatusRequest()).has_value());
  EXPECT_EQ(drives->call<v1::ListTokensReply>("Cluster/ListTokens", v1::ListTokensRequest()).error().code,
            ErrorCode::kPermissionDenied);
  EXPECT_NE(drives->call<v1::ListTokensReply>("Cluster/ListTokens", v1::ListTokensRequest())
                .error()
                .message.find("volador token create --role=operator"),
            std::string::npos);
  const auto machine = api(head_->ready().join_token)->call<v1::StatusReply>("Cluster/Status", v1::StatusRequest());
  ASSERT_FALSE(machine.has_value()) << "a join token makes nodes, and no node reads the API";
  EXPECT_EQ(machine.error().code, ErrorCode::kPermissionDenied);
  EXPECT_THAT(machine.error().message, ::testing::HasSubstr("is for role viewer, driver or operator; token " +
                                                            token(head_->ready().join_token).id + " has role join. "));
  EXPECT_THAT(machine.error().message, ::testing::HasSubstr("volador token create --role=viewer"));
  auto guessed = token(head_->ready().operator_token);
  guessed.secret = security::Secret::random(security::kTokenSecretBytes);
  EXPECT_EQ(api(security::token_text(guessed).reveal())
                ->call<v1::StatusReply>("Cluster/Status", v1::StatusRequest())
                .error()
                .code,
            ErrorCode::kUnauthenticated);
}

TEST_F(HeadProcessTest, ARevokedTokenEndsStreamsAndCallsOfWhoJoinedWithIt) {
  start();
  auto driver = drive();
  auto operates = api(head_->ready().operator_token);
  v1::RevokeTokenRequest revoke;
  revoke.set_id(token(head_->ready().driver_token).id);
  ASSERT_TRUE(operates->call<v1::RevokeTokenReply>("Cluster/RevokeToken", revoke).has_value());
  std::unique_lock lock(driver->mutex);
  EXPECT_TRUE(driver->changed.wait_for(lock, 5s, [&driver] { return driver->lost > 0; }));
}

TEST_F(HeadProcessTest, TheAuditLogHasWhoAskedForWhatAndOnlyOperatorsReadIt) {
  start();
  auto operates = api(head_->ready().operator_token);
  v1::CreateTokenRequest create;
  create.set_role("viewer");
  const auto made = operates->call<v1::CreateTokenReply>("Cluster/CreateToken", create);
  ASSERT_TRUE(made.has_value());
  v1::KillRequest kill;
  kill.set_actor("moon");
  EXPECT_EQ(operates->call<v1::KillReply>("Cluster/Kill", kill).error().code, ErrorCode::kNotFound);
  v1::DrainRequest drain;
  drain.set_node("mars");
  EXPECT_EQ(operates->call<v1::DrainReply>("Cluster/Drain", drain).error().code, ErrorCode::kNotFound);

  v1::ListRequest all;
  auto audit = operates->call<v1::ListAuditReply>("Cluster/ListAudit", all);
  ASSERT_TRUE(audit.has_value()) << audit.error().message;
  ASSERT_EQ(audit->entries_size(), 3);
  EXPECT_EQ(audit->total(), 3);
  EXPECT_EQ(audit->entries(0).action() + " " + audit->entries(0).object() + " " + audit->entries(0).outcome(),
            "drain mars kNotFound");
  EXPECT_EQ(audit->entries(1).action() + " " + audit->entries(1).object() + " " + audit->entries(1).outcome(),
            "kill moon kNotFound");
  EXPECT_THAT(audit->entries(1).message(), ::testing::HasSubstr("\"moon\""));
  EXPECT_EQ(audit->entries(2).action() + " " + audit->entries(2).object() + " " + audit->entries(2).outcome(),
            "create_token " + made->token().id() + " viewer done");
  for (const v1::AuditEntry& entry : audit->entries()) EXPECT_EQ(entry.by(), token(head_->ready().operator_token).id);
  all.set_filter("kill");
  EXPECT_EQ(operates->call<v1::ListAuditReply>("Cluster/ListAudit", all)->total(), 1);
  all.set_filter("");
  all.set_limit(1);
  audit = operates->call<v1::ListAuditReply>("Cluster/ListAudit", all);
  EXPECT_EQ(audit->entries_size(), 1);
  EXPECT_EQ(audit->total(), 3);
  EXPECT_EQ(api(made->text())->call<v1::ListAuditReply>("Cluster/ListAudit", all).error().code,
            ErrorCode::kPermissionDenied);
  EXPECT_EQ(api(head_->ready().driver_token)->call<v1::ListAuditReply>("Cluster/ListAudit", all).error().code,
            ErrorCode::kPermissionDenied);
}

TEST_F(HeadProcessTest, TheMachinesOwnTokenHasASuccessorOnceItIsRevoked) {
  start();
  const std::string own = head_->ready().operator_token;
  v1::RevokeTokenRequest revoke;
  revoke.set_id(token(own).id);
  ASSERT_TRUE(api(own)->call<v1::RevokeTokenReply>("Cluster/RevokeToken", revoke).has_value());
  EXPECT_EQ(api(own)->call<v1::StatusReply>("Cluster/Status", v1::StatusRequest()).error().code,
            ErrorCode::kUnauthenticated);
  const auto current = [this] { return load_access(options().paths, "heron").value().token; };
  for (const auto until = std::chrono::steady_clock::now() + 5s;
       current() == own && std::chrono::steady_clock::now() < until;)
    std::this_thread::sleep_for(1ms);
  const std::string successor = current();
  ASSERT_NE(successor, own);
  EXPECT_TRUE(api(successor)->call<v1::StatusReply>("Cluster/Status", v1::StatusRequest()).has_value());
  head_->stop();
  head_.reset();
  start();
  EXPECT_EQ(head_->ready().operator_token, successor);
  EXPECT_TRUE(api(successor)->call<v1::StatusReply>("Cluster/Status", v1::StatusRequest()).has_value());
}

TEST_F(HeadProcessTest, ARestartKeepsIdentityAddressTokensAndActors) {
  start();
  const HeadReady before = head_->ready();
  EXPECT_FALSE(before.restarted);
  const auto actor = new_id<ActorId>(random_);
  {
    auto driver = drive();
    driver->link->send(spawn_message(*driver, actor, "hits"));
    auto reply = driver->inbox.next(reply_to(actor));
    ASSERT_TRUE(reply.has_value());
    EXPECT_EQ(reply->reply().error().code(), 0) << reply->reply().error().message();
  }
  const auto credentials = join(Role::kOperator);
  head_->stop();
  head_.reset();
  start();
  const HeadReady after = head_->ready();
  EXPECT_TRUE(after.restarted);
  EXPECT_EQ(after.address, before.address);
  EXPECT_EQ(after.cluster_id, before.cluster_id);
  EXPECT_EQ(after.fingerprint, before.fingerprint);
  EXPECT_EQ(after.join_token, before.join_token);
  control::ClusterApi api(std::make_shared<control::Channel>(after.address, credentials));
  auto actors = api.call<v1::ListActorsReply>("Cluster/ListActors", v1::ListRequest());
  ASSERT_TRUE(actors.has_value()) << actors.error().message;
  ASSERT_EQ(actors->actors_size(), 1);
  EXPECT_EQ(actors->actors(0).id(), to_string(actor));
  EXPECT_EQ(actors->actors(0).name(), "hits");
}

TEST_F(HeadProcessTest, WhatIsNotStoredIsNotAcknowledged) {
  if (!volador::testing::RedisServer::installed()) GTEST_SKIP() << "not run: redis-server is not installed";
  std::filesystem::create_directory(directory_.path() / "redis");
  // Without this option it may lose acknowledged data when killed.
  volador::testing::RedisServer redis(directory_.path() / "redis", {"--appendfsync", "always"});
  ASSERT_TRUE(redis.start());
  HeadOptions with_redis = options();
  with_redis.store = "redis://127.0.0.1:" + std::to_string(redis.port());
  start(with_redis);
  auto driver = drive();
  const auto first = new_id<ActorId>(random_), second = new_id<ActorId>(random_);
  redis.kill();
  driver->link->send(spawn_message(*driver, first));
  EXPECT_FALSE(driver->inbox.next(reply_to(first), 300ms).has_value());
  // The head is read-only: it serves requests and rejects those that it could not store.
  EXPECT_TRUE(
      api(head_->ready().operator_token)->call<v1::StatusReply>("Cluster/Status", v1::StatusRequest()).has_value());
  driver->link->send(spawn_message(*driver, second));
  auto refused = driver->inbox.next(reply_to(second));
  ASSERT_TRUE(refused.has_value());
  EXPECT_EQ(refused->reply().error().code(), static_cast<int>(ErrorCode::kUnavailable));
  EXPECT_NE(refused->reply().error().message().find("read-only"), std::string::npos)
      << refused->reply().error().message();
  ASSERT_TRUE(redis.start());
  auto stored = driver->inbox.next(reply_to(first));
  ASSERT_TRUE(stored.has_value());
  EXPECT_EQ(stored->reply().error().code(), 0) << stored->reply().error().message();
  head_->stop();
  start(with_redis);
  EXPECT_EQ(api(head_->ready().operator_token)
                ->call<v1::ListActorsReply>("Cluster/ListActors", v1::ListRequest())
                ->actors_size(),
            1);
}

TEST_F(HeadProcessTest, ASecondHeadOnTheFolderAndATakenPortAreRefusedByName) {
  start();
  auto second = try_start(options());
  ASSERT_FALSE(second.has_value());
  EXPECT_NE(second.error().message.find("pid " + std::to_string(getpid())), std::string::npos)
      << second.error().message;
  HeadOptions taken = options("crane");
  taken.port = std::stoi(head_->ready().address.substr(head_->ready().address.rfind(':') + 1));
  auto third = try_start(taken);
  ASSERT_FALSE(third.has_value());
  EXPECT_EQ(third.error().code, ErrorCode::kUnavailable);
  EXPECT_NE(third.error().message.find("is in use by"), std::string::npos) << third.error().message;
  EXPECT_NE(third.error().message.find("pid " + std::to_string(getpid())), std::string::npos) << third.error().message;
}

TEST_F(HeadProcessTest, AnEmptiedStoreIsNotServedAsIfNew) {
  start();
  head_->stop();
  std::filesystem::remove(options().paths.cluster("heron").head().journal());
  head_.reset();
  auto again = try_start(options());
  if (again) {  // The first opening: nothing can be lost after it.
    again->reset();
    again = try_start(options());
    ASSERT_TRUE(again.has_value());
    again->reset();
    std::filesystem::remove(options().paths.cluster("heron").head().journal());
    again = try_start(options());
  }
  ASSERT_FALSE(again.has_value());
  EXPECT_NE(again.error().message.find("older or empty store"), std::string::npos) << again.error().message;
}

TEST_F(HeadProcessTest, AProgramTravelsFromItsDriverToTheNodeThatAsks) {
  start();
  const auto source = directory_.path() / "program";
  std::ofstream(source) << std::string(3'000'000, 'p') << "end";
  const auto sha256 = control::sha256_of_file(source);
  ASSERT_TRUE(sha256.has_value());
  protocol::Program program;
  program.set_sha256(security::raw(*sha256));
  program.set_path(source);
  program.set_size_bytes(3'000'003);
  auto driver = drive(program);
  const control::Channel node(head_->ready().address, join(Role::kNode, "b"));
  const control::Channel drives(head_->ready().address, join(Role::kDriver, "driver"));
  const auto destination = directory_.path() / "copy";
  std::thread asks([&] {
    auto fetched = control::download_program(node, *sha256, destination, 20s);
    EXPECT_TRUE(fetched.has_value()) << fetched.error().message;
  });
  auto needed = driver->inbox.next([](const auto& message) { return message.has_need_program(); });
  EXPECT_TRUE(needed.has_value());
  auto uploaded = control::upload_program(drives, source, *sha256, 20s);
  EXPECT_TRUE(uploaded.has_value()) << uploaded.error().message;
  asks.join();
  EXPECT_EQ(*control::sha256_of_file(destination), *sha256);
  // The head has stored it; a second copy needs no driver, and a repeated upload has no effect.
  EXPECT_TRUE(control::download_program(node, *sha256, directory_.path() / "second", 20s).has_value());
  EXPECT_TRUE(control::upload_program(drives, source, *sha256, 20s).has_value());
  const auto unknown = control::download_program(node, security::sha256("unknown"), directory_.path() / "third", 20s);
  ASSERT_FALSE(unknown.has_value());
  EXPECT_EQ(unknown.error().code, ErrorCode::kNotFound) << unknown.error().message;
}

TEST_F(HeadProcessTest, OutputOfAnActorIsKeptForLogs) {
  start();
  auto driver = drive();
  const auto actor = new_id<ActorId>(random_);
  driver->link->send(spawn_message(*driver, actor));
  ASSERT_TRUE(driver->inbox.next(reply_to(actor)).has_value());
  auto node = serve_as("b", join(Role::kNode, "b"));
  ASSERT_TRUE(node->inbox.next([](const auto& answer) { return answer.has_start_host(); }).has_value());
  protocol::WorkerMessage message;
  message.mutable_log()->set_actor_id(raw(actor));
  message.mutable_log()->set_display("Counter");
  message.mutable_log()->set_node_name("b");
  for (const char* line : {"one", "two", "three"}) message.mutable_log()->add_lines(line);
  node->link->send(message);
  auto reads = api(head_->ready().driver_token);
  v1::LogsRequest request;
  request.set_id(to_string(actor));
  request.set_tail(2);
  std::vector<std::string> lines;
  Result<void> read;
  for (int i = 0; i < 100 && lines.empty(); ++i) {
    std::this_thread::sleep_for(10ms);
    read = reads->logs(request, [&lines](const v1::LogLine& line) {
      lines.push_back(line.text());
      return true;
    });
  }
  EXPECT_TRUE(read.has_value()) << read.error().message;
  EXPECT_EQ(lines, (std::vector<std::string>{"two", "three"}));
  request.set_follow(true);
  lines.clear();
  std::thread writes([&] {
    std::this_thread::sleep_for(100ms);
    message.mutable_log()->clear_lines();
    message.mutable_log()->add_lines("four");
    node->link->send(message);
  });
  (void)reads->logs(request, [&lines](const v1::LogLine& line) {
    lines.push_back(line.text());
    return line.text() != "four";
  });
  writes.join();
  EXPECT_EQ(lines, (std::vector<std::string>{"two", "three", "four"}));
  node->link->close();
}

TEST_F(HeadProcessTest, ANodeRegistersUnderTheNameOfItsCertificateOnly) {
  start();
  const auto node = serve_as("a", join(Role::kNode, "b"));
  const auto answer = node->inbox.next([](const auto& got) { return got.has_refused() || got.has_registered(); });
  ASSERT_TRUE(answer.has_value());
  ASSERT_TRUE(answer->has_refused());
  EXPECT_EQ(error_code_from(int64_t{answer->refused().code()}), ErrorCode::kPermissionDenied);
  node->link->close();
}

TEST_F(HeadProcessTest, SaysToItsDriversThatItStopsForGoodAndWaitsForTheirGoodbye) {
  start();
  auto driver = drive();
  std::thread stopper([this] { head_->say_stopped("ada (volador, pid 7)", 60s); });
  const auto told = driver->inbox.next([](const auto& message) { return message.has_stopped(); });
  ASSERT_TRUE(told.has_value());
  EXPECT_EQ(told->stopped().by(), "ada (volador, pid 7)");
  EXPECT_GT(told->stopped().wall_ms(), 0);
  protocol::ClientMessage goodbye;
  goodbye.mutable_goodbye();
  driver->link->send(goodbye);
  stopper.join();
  driver->link->close();  // Otherwise it would connect to the next head.
  head_->stop();
  start();
  auto status = api(head_->ready().operator_token)->call<v1::StatusReply>("Cluster/Status", v1::StatusRequest());
  ASSERT_TRUE(status.has_value()) << status.error().message;
  EXPECT_EQ(status->drivers(), 0) << "it ended before the head did";
}

TEST_F(HeadProcessTest, ADriverThatDoesNotAnswerHoldsTheStopUpForAMomentOnly) {
  start();
  auto driver = drive();
  head_->say_stopped("", 1ms);
  EXPECT_TRUE(driver->inbox.next([](const auto& message) { return message.has_stopped(); }).has_value());
  head_->stop();
}

TEST_F(HeadProcessTest, StopsAtOnceWithOpenStreams) {
  start();
  auto driver = drive();
  const auto begun = std::chrono::steady_clock::now();
  head_->stop();
  EXPECT_LT(std::chrono::steady_clock::now() - begun, 1s);
}

}  // namespace
}  // namespace volador::head
