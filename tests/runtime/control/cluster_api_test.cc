#include "runtime/control/cluster_api.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <thread>

#include "runtime/control/status.h"
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
    return grpc::Status::OK;
  }
  grpc::Status Drain(grpc::ServerContext*, const v1::DrainRequest* request, v1::DrainReply*) override {
    return to_status({ErrorCode::kNotFound, "no node \"" + request->node() + "\""});
  }
  grpc::Status ListNodes(grpc::ServerContext* context, const v1::ListRequest*, v1::ListNodesReply*) override {
    while (!context->IsCancelled()) std::this_thread::sleep_for(1ms);
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

 private:
  const std::string expected_;
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

}  // namespace
}  // namespace volador::control
