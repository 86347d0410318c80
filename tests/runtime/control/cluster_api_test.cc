#include "runtime/control/cluster_api.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <set>
#include <thread>

#include "runtime/control/call_relay.h"
#include "runtime/control/kept_authority.h"
#include "runtime/control/relay_protocol.h"
#include "runtime/control/status.h"
#include "runtime/net/channel.h"
#include "runtime/paths.h"
#include "runtime/protocol/volador/v1/cluster.grpc.pb.h"
#include "runtime/security/authority.h"

namespace volador::control {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

// Responds to every client with the token; logs have three lines and continue when followed.
class TestCluster final : public v1::Cluster::Service {
 public:
  explicit TestCluster(std::string token) : expected_("Bearer " + token) {}

  grpc::Status Status(grpc::ServerContext* context, const v1::StatusRequest*, v1::StatusReply* reply) override {
    const auto& metadata = context->client_metadata();
    const auto found = metadata.find("authorization");
    if (found == metadata.end() || std::string(found->second.data(), found->second.size()) != expected_) {
      return to_status({ErrorCode::kUnauthenticated, "show a token"});
    }
    reply->set_cluster_name("heron");
    const std::scoped_lock lock(mutex_);
    peers_.push_back(context->peer());
    return grpc::Status::OK;
  }
  grpc::Status Drain(grpc::ServerContext*, const v1::DrainRequest* request, v1::DrainReply*) override {
    return to_status({ErrorCode::kNotFound, "no node \"" + request->node() + "\""});
  }
  grpc::Status ListNodes(grpc::ServerContext* context, const v1::ListRequest*, v1::ListNodesReply*) override {
    note(running_, 1);
    while (!context->IsCancelled()) std::this_thread::sleep_for(1ms);
    note(running_, -1);
    return grpc::Status::CANCELLED;
  }
  grpc::Status Logs(grpc::ServerContext* context, const v1::LogsRequest* request,
                    grpc::ServerWriter<v1::LogLine>* writer) override {
    v1::LogLine line;
    for (const char* text : {"one", "two", "three"}) {
      line.set_text(text);
      writer->Write(line);
    }
    while (request->follow() && !context->IsCancelled()) std::this_thread::sleep_for(1ms);
    return grpc::Status::OK;
  }

  // The connections over which Status() was called.
  std::vector<std::string> peers() {
    const std::scoped_lock lock(mutex_);
    return peers_;
  }
  // Waits until so many calls of ListNodes() run.
  void await_running(int count) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return running_ == count; });
  }

 private:
  void note(int& number, int change) {
    const std::scoped_lock lock(mutex_);
    number += change;
    changed_.notify_all();
  }

  const std::string expected_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> peers_;
  int running_ = 0;
};

class ClusterApiTest : public testing::Test {
 protected:
  ClusterApiTest() {
    EXPECT_TRUE(prepare_grpc());
    const auto own = authority_.issue_head({}, clock_.wall()).value();
    grpc::SslServerCredentialsOptions options(GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY);
    options.pem_root_certs = own.authority_pem;
    options.pem_key_cert_pairs.push_back({own.key_pem, own.certificate_pem});
    int port = 0;
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::SslServerCredentials(options), &port);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    address_ = "127.0.0.1:" + std::to_string(port);
  }
  ~ClusterApiTest() override { server_->Shutdown(std::chrono::system_clock::now()); }

  std::unique_ptr<ClusterApi> connect(std::chrono::milliseconds timeout = 10s) {
    return ClusterApi::connect(address_, token_, timeout, clock_).value();
  }

  SystemClock clock_;
  security::Authority authority_ = security::Authority::create(ClusterId({1}), clock_.wall()).value();
  security::JoinToken token_ = security::make_token(authority_.fingerprint(), security::TokenRole::kOperator);
  TestCluster service_{security::token_text(token_).reveal()};
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
};

TEST_F(ClusterApiTest, ShowsItsTokenToItsOwnClusterOnly) {
  const auto reply = connect()->call<v1::StatusReply>("Cluster/Status", v1::StatusRequest());
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(reply->cluster_name(), "heron");
  token_.authority.digest[0] ^= 1;
  const auto other = ClusterApi::connect(address_, token_, 10s, clock_);
  ASSERT_FALSE(other);
  EXPECT_THAT(other.error().message, HasSubstr("belongs to another cluster"));
}

TEST_F(ClusterApiTest, AWrongTokenAndTheServersErrorsArriveAsTheyWere) {
  token_.secret = security::Secret::random(security::kTokenSecretBytes);
  const auto api = connect();
  EXPECT_EQ(api->call<v1::StatusReply>("Cluster/Status", v1::StatusRequest()).error(),
            (Error{ErrorCode::kUnauthenticated, "show a token"}));
  v1::DrainRequest request;
  request.set_node("b");
  EXPECT_EQ(api->call<v1::DrainReply>("Cluster/Drain", request).error(),
            (Error{ErrorCode::kNotFound, "no node \"b\""}));
}

TEST_F(ClusterApiTest, ACallEndsAtItsTimeLimit) {
  const auto reply = connect(300ms)->call<v1::ListNodesReply>("Cluster/ListNodes", v1::ListRequest());
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, ErrorCode::kTimeout);
  EXPECT_THAT(reply.error().message, HasSubstr(address_));
}

TEST_F(ClusterApiTest, LogsEndByThemselvesOrWhenTheirReaderHasEnough) {
  std::vector<std::string> lines;
  v1::LogsRequest request;
  const auto api = connect();
  EXPECT_TRUE(api->logs(request, [&](const v1::LogLine& line) {
    lines.push_back(line.text());
    return true;
  }));
  EXPECT_THAT(lines, testing::ElementsAre("one", "two", "three"));
  request.set_follow(true);
  lines.clear();
  EXPECT_TRUE(api->logs(request, [&](const v1::LogLine& line) {
    lines.push_back(line.text());
    return lines.size() < 2;
  }));
  EXPECT_THAT(lines, testing::ElementsAre("one", "two"));
}

// A process of a job, on a node with a relay.
class RelayedCallsTest : public ClusterApiTest {
 protected:
  RelayedCallsTest() {
    char name[] = "/tmp/relayed-XXXXXX";
    home_ = ::mkdtemp(name);
    const NodeId node({9});
    ::setenv("VOLADOR_HOME", home_.c_str(), 1);
    ::setenv("VOLADOR_NODE_ID", to_string(node).c_str(), 1);
    folder_ = Paths::from(PathEnvironment::of_this_process())->run_of(node);
    std::filesystem::create_directories(folder_);
    keep_authority(authority_pem(authority_));
  }
  ~RelayedCallsTest() override {
    relay_.reset();
    ::unsetenv("VOLADOR_HOME");
    ::unsetenv("VOLADOR_NODE_ID");
    std::filesystem::remove_all(home_);
  }

  std::string authority_pem(const security::Authority& authority) const {
    return authority.issue_head({}, clock_.wall())->authority_pem;
  }
  void start_relay(const std::string& address, const security::Authority& authority) {
    auto made =
        CallRelay::create(*loop_, {.folder = folder_, .address = address, .authority_pem = authority_pem(authority)});
    ASSERT_TRUE(made) << made.error().message;
    relay_ = std::move(*made);
  }
  // The number of connections over which the head was called.
  size_t connections() {
    const std::vector<std::string> peers = service_.peers();
    return std::set<std::string>(peers.begin(), peers.end()).size();
  }
  static void ask(ClusterApi& api) {
    const auto reply = api.call<v1::StatusReply>("Cluster/Status", v1::StatusRequest());
    ASSERT_TRUE(reply) << reply.error().message;
    EXPECT_EQ(reply->cluster_name(), "heron");
  }

  std::filesystem::path home_, folder_;
  std::unique_ptr<net::IoLoop> loop_ = net::IoLoop::create().value();
  std::unique_ptr<CallRelay> relay_;
};

TEST_F(RelayedCallsTest, ShareOneConnectionAndGetTheHeadsAnswers) {
  start_relay(address_, authority_);
  for (int process = 0; process < 3; ++process) ask(*connect());
  EXPECT_EQ(connections(), 1U);
  v1::DrainRequest request;
  request.set_node("b");
  const auto api = connect();
  EXPECT_EQ(api->call<v1::DrainReply>("Cluster/Drain", request).error(),
            (Error{ErrorCode::kNotFound, "no node \"b\""}));
  token_.secret = security::Secret::random(security::kTokenSecretBytes);
  EXPECT_EQ(connect()->call<v1::StatusReply>("Cluster/Status", v1::StatusRequest()).error(),
            (Error{ErrorCode::kUnauthenticated, "show a token"}));
}

TEST_F(RelayedCallsTest, EndAtTheirTimeLimitAndWithTheirProcess) {
  start_relay(address_, authority_);
  const auto reply = connect(300ms)->call<v1::ListNodesReply>("Cluster/ListNodes", v1::ListRequest());
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, ErrorCode::kTimeout);
  EXPECT_THAT(reply.error().message, HasSubstr(address_));
  service_.await_running(0);
  const auto process = net::CallConnection::connect(*loop_, net::UnixEndpoint{folder_ / kRelaySocket});
  net::CallRequest call;
  call.request_id = 1;
  call.body = to_bytes(RelayedCall{.authority = to_string(authority_.fingerprint()),
                                   .path = "/volador.v1.Cluster/ListNodes",
                                   .bearer = "",
                                   .request = {}});
  process->call(std::move(call), [](Result<std::string>&&) {});
  service_.await_running(1);
  process->close();
  service_.await_running(0);
}

TEST_F(RelayedCallsTest, GoToTheHeadItselfAfterTheEndOfTheRelay) {
  start_relay(address_, authority_);
  const auto api = connect();
  ask(*api);
  relay_.reset();
  ask(*api);
  ask(*api);
  ask(*connect());
  EXPECT_EQ(connections(), 3U);
}

TEST_F(RelayedCallsTest, GoToTheHeadItselfWhereTheRelayDoesNotReachIt) {
  start_relay("127.0.0.1:1", authority_);
  const auto api = connect();
  ask(*api);
  ask(*api);
  EXPECT_EQ(connections(), 1U);
}

TEST_F(RelayedCallsTest, GoToAnotherClustersHeadWithoutTheRelay) {
  const auto other = security::Authority::create(ClusterId({2}), clock_.wall()).value();
  start_relay(address_, other);
  ask(*connect());
  EXPECT_EQ(connections(), 1U);
}

TEST_F(RelayedCallsTest, GoToTheHeadItselfWhereTheyAreLarge) {
  start_relay(address_, authority_);
  v1::DrainRequest request;
  request.set_node(std::string(kRelayedRequestBytesMax, 'n'));
  const auto answer = connect()->call<v1::DrainReply>("Cluster/Drain", request);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace volador::control
