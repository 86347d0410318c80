#include "volador/roles/katib_store_server.h"

#include <fmt/format.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <grpcpp/server_context.h>

#include <chrono>
#include <utility>

#include "head/shell/unary_answer.h"
#include "runtime/control/channel.h"
#include "runtime/protocol/katib/v1beta1/api.grpc.pb.h"

namespace volador {
namespace {

namespace wire = ::api::v1::beta1;

class ReadableStore final : public wire::DBManager::CallbackService {
 public:
  explicit ReadableStore(KatibStoreServer::Get get) : get_(std::move(get)) {}

  grpc::ServerUnaryReactor* GetObservationLog(grpc::CallbackServerContext* context,
                                              const wire::GetObservationLogRequest* request,
                                              wire::GetObservationLogReply* reply) override {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    const auto answer = std::make_shared<head::UnaryAnswer>(reactor);
    get_(*request, [answer, reply](Result<wire::GetObservationLogReply> found) {
      if (!found) return answer->give(make_error(found.error()));
      *reply = std::move(*found);
      answer->give({});
    });
    return reactor;
  }

 private:
  const KatibStoreServer::Get get_;
};

}  // namespace

struct KatibStoreServer::Impl {
  explicit Impl(Get get) : store(std::move(get)) {}
  ReadableStore store;
  std::string address;
  std::unique_ptr<grpc::Server> server;
};

KatibStoreServer::KatibStoreServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

KatibStoreServer::~KatibStoreServer() {
  impl_->server->Shutdown(std::chrono::system_clock::now());
  impl_->server->Wait();
}

const std::string& KatibStoreServer::address() const { return impl_->address; }

Result<std::unique_ptr<KatibStoreServer>> KatibStoreServer::start(Get get) {
  VOLADOR_TRY(control::prepare_grpc());
  auto impl = std::make_unique<Impl>(std::move(get));
  int port = 0;
  grpc::ServerBuilder builder;
  builder.SetMaxSendMessageSize(static_cast<int>(control::kMessageBytesMax));
  builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterService(&impl->store);
  impl->server = builder.BuildAndStart();
  if (!impl->server || port == 0)
    return make_error(ErrorCode::kUnavailable, "no port of 127.0.0.1 is free for early stopping services");
  impl->address = fmt::format("127.0.0.1:{}", port);
  return std::unique_ptr<KatibStoreServer>(new KatibStoreServer(std::move(impl)));
}

}  // namespace volador
