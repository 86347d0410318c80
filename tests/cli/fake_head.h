// A head that answers operations of experiments and jobs from functions of a test, over TLS on a loopback port.
#pragma once

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/clock.h"
#include "runtime/control/channel.h"
#include "runtime/control/status.h"
#include "runtime/operations/catalogue.h"
#include "runtime/result.h"
#include "runtime/security/authority.h"
#include "runtime/security/token.h"

namespace volador::cli {

class FakeHead {
 public:
  FakeHead() {
    EXPECT_TRUE(control::prepare_grpc());
    start();
  }
  ~FakeHead() { stop(); }

  // Answers an operation: on<v1::GetExperimentRequest, v1::ExperimentInfo>("Experiments/GetExperiment", …).
  template <class Request, class Reply>
  void on(const std::string& operation, std::function<Result<Reply>(const Request&)> answer) {
    const std::scoped_lock lock(mutex_);
    answers_[path_of(operation)] = [answer = std::move(answer)](const std::string& bytes) -> Result<std::string> {
      Request request;
      if (!request.ParseFromString(bytes)) return make_error(ErrorCode::kInternal, "the request cannot be parsed");
      auto reply = answer(request);
      if (!reply) return make_error(reply.error());
      return reply->SerializeAsString();
    };
  }
  const std::string& address() const { return address_; }
  std::string token() const { return security::token_text(token_).reveal(); }
  // Operations that were called, in order.
  std::vector<std::string> called() const {
    const std::scoped_lock lock(mutex_);
    return called_;
  }

 private:
  using Answer = std::function<Result<std::string>(const std::string&)>;

  class Reactor final : public grpc::ServerGenericBidiReactor {
   public:
    Reactor(FakeHead& head, std::string method) : head_(head), method_(std::move(method)) { StartRead(&in_); }
    void OnReadDone(bool ok) override {
      if (!ok) return Finish(grpc::Status::CANCELLED);
      std::vector<grpc::Slice> slices;
      std::string bytes;
      if (in_.Dump(&slices).ok())
        for (const auto& slice : slices) bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
      const auto reply = head_.answer(method_, bytes);
      if (!reply) return Finish(control::to_status(reply.error()));
      const grpc::Slice slice(*reply);
      out_ = grpc::ByteBuffer(&slice, 1);
      StartWriteAndFinish(&out_, {}, grpc::Status::OK);
    }
    void OnDone() override { delete this; }

   private:
    FakeHead& head_;
    const std::string method_;
    grpc::ByteBuffer in_, out_;
  };
  class Service final : public grpc::CallbackGenericService {
   public:
    explicit Service(FakeHead& head) : head_(head) {}
    grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext* context) override {
      return new Reactor(head_, context->method());
    }

   private:
    FakeHead& head_;
  };

  // "/volador.v1.Jobs/GetJob". DBManager is a service of Katib.
  static std::string path_of(const std::string& operation) {
    return (operation.starts_with("DBManager/") ? "/api.v1.beta1." : "/volador.v1.") + operation;
  }
  Result<std::string> answer(const std::string& method, const std::string& bytes) {
    Answer found;
    {
      const std::scoped_lock lock(mutex_);
      called_.push_back(method.substr(method.find_last_of('.') + 1));
      if (const auto at = answers_.find(method); at != answers_.end()) found = at->second;
    }
    if (!found) return make_error(ErrorCode::kInternal, method + " has no answer in this test");
    return found(bytes);
  }
  void start() {
    const SystemClock clock;
    const auto own = authority_.issue_head({}, clock.wall()).value();
    grpc::SslServerCredentialsOptions options(GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY);
    options.pem_root_certs = own.authority_pem;
    options.pem_key_cert_pairs.push_back({own.key_pem, own.certificate_pem});
    int port = 0;
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::SslServerCredentials(options), &port);
    builder.RegisterCallbackGenericService(&service_);
    server_ = builder.BuildAndStart();
    address_ = "127.0.0.1:" + std::to_string(port);
  }
  void stop() { server_->Shutdown(std::chrono::system_clock::now()); }

  security::Authority authority_ = security::Authority::create(ClusterId({1}), SystemClock().wall()).value();
  security::JoinToken token_ = security::make_token(authority_.fingerprint(), security::TokenRole::kOperator);
  mutable std::mutex mutex_;
  std::map<std::string, Answer> answers_;
  std::vector<std::string> called_;
  Service service_{*this};
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
};

}  // namespace volador::cli
