// A head without a core: the Control service over mutual TLS on a loopback port, for tests of its clients.
#pragma once

#include <grpcpp/grpcpp.h>

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "runtime/clock.h"
#include "runtime/control/channel.h"
#include "runtime/control/status.h"
#include "runtime/protocol/batch.h"
#include "runtime/protocol/control.grpc.pb.h"
#include "runtime/security/authority.h"
#include "runtime/security/peer_identity.h"
#include "runtime/security/token.h"

namespace volador::control {

inline ClusterId test_cluster(uint8_t fill = 7) {
  std::array<uint8_t, 16> bytes{};
  bytes.fill(fill);
  return ClusterId(bytes);
}

class TestService final : public protocol::Control::Service {
 public:
  TestService(const security::Authority& authority, const security::JoinToken& token)
      : authority_(authority), token_id_(token.id), record_(security::secret_record(token.secret)) {}

  grpc::Status Join(grpc::ServerContext*, const protocol::JoinRequest* request, protocol::JoinReply* reply) override {
    if (request->token_id() != token_id_ || !security::secret_matches(request->secret(), record_)) {
      reply->mutable_error()->set_code(static_cast<int>(ErrorCode::kUnauthenticated));
      reply->mutable_error()->set_message("this token is not known here");
      return grpc::Status::OK;
    }
    auto certificate = authority_.sign(request->csr_pem(), {.role = *security::parse_role(request->role()),
                                                            .name = request->name(),
                                                            .token_id = request->token_id(),
                                                            .now = SystemClock().wall()});
    return fill(certificate, reply);
  }

  grpc::Status Certify(grpc::ServerContext* context, const protocol::CertifyRequest* request,
                       protocol::JoinReply* reply) override {
    if (auto lost = next_lost()) return *lost;
    auto peer = peer_of(context);
    if (!peer) return to_status(peer.error());
    auto certificate = authority_.sign(
        request->csr_pem(),
        {.role = *security::parse_role(request->role()),
         .name = request->role() == "host" ? to_string(id_from_raw<HostId>(request->host_id())) : peer->name,
         .now = SystemClock().wall()});
    return fill(certificate, reply);
  }

  grpc::Status Client(grpc::ServerContext* context,
                      grpc::ServerReaderWriter<protocol::HeadMessage, protocol::ClientMessage>* stream) override {
    auto peer = peer_of(context);
    if (!peer) return to_status(peer.error());
    protocol::ClientMessage message;
    while (true) {
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return reading_ || context->IsCancelled(); });
      }
      if (!stream->Read(&message)) break;
      for_each_in_batch(message, [&](const protocol::ClientMessage& one) {
        {
          const std::scoped_lock lock(mutex_);
          received_.push_back(one);
          changed_.notify_all();
        }
        protocol::HeadMessage reply;
        if (one.has_hello()) {
          reply.mutable_welcome()->set_cluster_name(peer->name);
          stream->Write(reply);
        } else if (one.has_ping()) {
          reply.mutable_pong()->set_sequence(one.ping().sequence());
          stream->Write(reply);
        }
      });
    }
    return grpc::Status::OK;
  }

  grpc::Status Worker(grpc::ServerContext* context,
                      grpc::ServerReaderWriter<protocol::HeadToWorker, protocol::WorkerMessage>* stream) override {
    auto peer = peer_of(context);
    if (!peer) return to_status(peer.error());
    protocol::WorkerMessage message;
    while (stream->Read(&message)) {
      if (!message.has_heartbeat()) continue;
      protocol::HeadToWorker reply;
      reply.mutable_heartbeat_ack()->set_sequence(message.heartbeat().sequence());
      stream->Write(reply);
    }
    return grpc::Status::OK;
  }

  grpc::Status PutProgram(grpc::ServerContext*, grpc::ServerReader<protocol::ProgramChunk>* reader,
                          protocol::ErrorInfo*) override {
    protocol::ProgramChunk chunk;
    std::string bytes;
    std::string name;
    while (reader->Read(&chunk)) {
      name = chunk.sha256();
      bytes += chunk.data();
    }
    const std::scoped_lock lock(mutex_);
    programs_[name] = bytes;
    return grpc::Status::OK;
  }

  grpc::Status GetProgram(grpc::ServerContext*, const protocol::ProgramRequest* request,
                          grpc::ServerWriter<protocol::ProgramChunk>* writer) override {
    if (auto lost = next_lost()) return *lost;
    std::string bytes;
    {
      const std::scoped_lock lock(mutex_);
      const auto found = programs_.find(request->sha256());
      if (found == programs_.end()) return to_status({ErrorCode::kNotFound, "no such program here"});
      bytes = found->second;
    }
    constexpr size_t kPiece = 1 << 20;
    for (size_t offset = 0; offset < bytes.size(); offset += kPiece) {
      protocol::ProgramChunk chunk;
      chunk.set_offset(static_cast<int64_t>(offset));
      chunk.set_data(bytes.substr(offset, kPiece));
      chunk.set_size_bytes(static_cast<int64_t>(bytes.size()));
      writer->Write(chunk);
    }
    return grpc::Status::OK;
  }

  void put_program(const std::string& name, const std::string& bytes) {
    const std::scoped_lock lock(mutex_);
    programs_[name] = bytes;
  }
  // The next `count` requests for a certificate or a program end as on a connection that closes.
  void lose_next(int count) {
    const std::scoped_lock lock(mutex_);
    lost_ = count;
  }
  // Stops (or resumes) reading messages of clients.
  void set_reading(bool reading) {
    const std::scoped_lock lock(mutex_);
    reading_ = reading;
    changed_.notify_all();
  }
  template <class Condition>
  bool wait_received(Condition condition) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, std::chrono::seconds(10), [&] { return condition(received_); });
  }

 private:
  std::optional<grpc::Status> next_lost() {
    const std::scoped_lock lock(mutex_);
    if (lost_ == 0) return std::nullopt;
    --lost_;
    return grpc::Status(grpc::StatusCode::UNKNOWN, "Stream removed");
  }
  static Result<security::PeerIdentity> peer_of(grpc::ServerContext* context) {
    const auto values = context->auth_context()->FindPropertyValues("x509_pem_cert");
    if (values.empty()) return make_error(ErrorCode::kUnauthenticated, "show a certificate: join first");
    return security::parse_peer_identity({values[0].data(), values[0].size()});
  }
  grpc::Status fill(const Result<std::string>& certificate, protocol::JoinReply* reply) {
    if (!certificate) return to_status(certificate.error());
    reply->set_certificate_pem(*certificate);
    reply->set_authority_pem(authority_.certificate_pem());
    reply->set_cluster_name("heron");
    reply->set_cluster_id(raw(authority_.cluster()));
    return grpc::Status::OK;
  }

  const security::Authority authority_;
  const std::string token_id_;
  const std::string record_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<protocol::ClientMessage> received_;
  std::map<std::string, std::string> programs_;
  bool reading_ = true;
  int lost_ = 0;
};

class TestHead {
 public:
  explicit TestHead(uint8_t cluster = 7)
      : authority_(security::Authority::create(test_cluster(cluster), SystemClock().wall()).value()),
        token_(security::make_token(authority_.fingerprint(), security::TokenRole::kOperator)) {
    start();
  }
  ~TestHead() { stop(); }

  // Restarts on the same port after stop().
  void start() {
    EXPECT_TRUE(prepare_grpc());
    service_ = std::make_unique<TestService>(authority_, token_);
    const auto own = authority_.issue_head({"127.0.0.1"}, SystemClock().wall()).value();
    grpc::SslServerCredentialsOptions options(GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY);
    options.pem_root_certs = own.authority_pem;
    options.pem_key_cert_pairs.push_back({own.key_pem, own.certificate_pem});
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:" + std::to_string(port_), grpc::SslServerCredentials(options), &port_);
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 100);
    builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_PING_STRIKES, 0);
    builder.RegisterService(service_.get());
    server_ = builder.BuildAndStart();
  }
  void stop() {
    if (!server_) return;
    service_->set_reading(true);
    server_->Shutdown(std::chrono::system_clock::now());
    server_->Wait();
    server_.reset();
  }

  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  int port() const { return port_; }
  const security::Authority& authority() const { return authority_; }
  const security::JoinToken& token() const { return token_; }
  TestService& service() { return *service_; }

 private:
  security::Authority authority_;
  security::JoinToken token_;
  std::unique_ptr<TestService> service_;
  std::unique_ptr<grpc::Server> server_;
  int port_ = 0;
};

}  // namespace volador::control
