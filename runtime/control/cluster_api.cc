#include "runtime/control/cluster_api.h"

#include <google/protobuf/descriptor.h>
#include <grpcpp/impl/codegen/client_unary_call.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "runtime/control/kept_authority.h"
#include "runtime/control/relayed_calls.h"
#include "runtime/control/unary.h"
#include "runtime/operations/catalogue.h"
#include "runtime/protocol/volador/v1/cluster.grpc.pb.h"
#include "runtime/security/handshake.h"

namespace volador::control {
namespace {

constexpr std::chrono::milliseconds kReconnectPatience{1000};

}  // namespace

struct ClusterApi::Impl {
  std::string address;
  std::string authority_pem;
  security::Secret bearer;
  std::chrono::milliseconds timeout;
  std::unique_ptr<RelayedCalls> relayed;  // Null: there is no relay.
  std::mutex mutex;
  std::shared_ptr<Channel> made;  // Null: not needed yet.

  Result<std::shared_ptr<Channel>> channel() {
    const std::lock_guard lock(mutex);
    if (made) return made;
    VOLADOR_TRY(prepare_grpc());
    made = std::make_shared<Channel>(
        address, security::Credentials{.certificate_pem = {}, .key_pem = {}, .authority_pem = authority_pem});
    return made;
  }
  void prepare(grpc::ClientContext& context) const {
    if (!bearer.empty()) context.AddMetadata("authorization", "Bearer " + bearer.reveal());
  }
};

ClusterApi::ClusterApi(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

ClusterApi::ClusterApi(std::shared_ptr<Channel> channel, std::string bearer, std::chrono::milliseconds timeout)
    : impl_(std::make_unique<Impl>()) {
  impl_->address = channel->address();
  impl_->bearer = security::Secret(std::move(bearer));
  impl_->timeout = timeout;
  impl_->made = std::move(channel);
}

ClusterApi::~ClusterApi() = default;

Result<std::unique_ptr<ClusterApi>> ClusterApi::open(const std::string& address, const security::Fingerprint& authority,
                                                     std::string bearer, std::chrono::milliseconds timeout,
                                                     const Clock& clock) {
  auto impl = std::make_unique<Impl>();
  impl->address = address;
  impl->bearer = security::Secret(std::move(bearer));
  impl->timeout = timeout;
  impl->authority_pem = kept_authority(authority);
  if (impl->authority_pem.empty()) {
    VOLADOR_TRY(prepare_grpc());
    auto head = security::probe_expected(address, authority, timeout, clock);
    if (!head) return make_error(head.error());
    impl->authority_pem = std::move(head->authority_pem);
    keep_authority(impl->authority_pem);
  } else {
    impl->relayed = RelayedCalls::connect(authority);
  }
  if (!impl->relayed) VOLADOR_TRY(impl->channel());
  return std::unique_ptr<ClusterApi>(new ClusterApi(std::move(impl)));
}

Result<std::unique_ptr<ClusterApi>> ClusterApi::connect(const std::string& address, const security::JoinToken& token,
                                                        std::chrono::milliseconds timeout, const Clock& clock) {
  return open(address, token.authority, security::token_text(token).reveal(), timeout, clock);
}

Result<std::unique_ptr<ClusterApi>> ClusterApi::connect_open(const std::string& address,
                                                             const security::Fingerprint& authority,
                                                             std::chrono::milliseconds timeout, const Clock& clock) {
  return open(address, authority, "", timeout, clock);
}

Result<void> ClusterApi::call(std::string_view operation, const google::protobuf::Message& request,
                              google::protobuf::Message& reply) {
  const operations::Entry* entry = operations::find(operation);
  VOLADOR_CHECK(entry != nullptr && entry->method->input_type() == request.GetDescriptor() &&
                    entry->method->output_type() == reply.GetDescriptor(),
                operation);
  if (impl_->relayed) {
    const auto status = impl_->relayed->call(*entry, impl_->bearer.reveal(), impl_->timeout, request, reply);
    if (status && status->ok()) return {};
    if (status) return make_error(from_status(*status, impl_->address));
  }
  auto channel = impl_->channel();
  if (!channel) return make_error(channel.error());
  (*channel)->await_reconnection(std::min(kReconnectPatience, impl_->timeout));
  grpc::ClientContext context;
  set_timeout(context, impl_->timeout);
  impl_->prepare(context);
  using Lite = google::protobuf::MessageLite;
  const grpc::internal::RpcMethod method(entry->path.c_str(), grpc::internal::RpcMethod::NORMAL_RPC);
  const grpc::Status status =
      grpc::internal::BlockingUnaryCall<Lite, Lite>((*channel)->grpc().get(), method, &context, request, &reply);
  if (!status.ok()) return make_error(from_status(status, impl_->address));
  return {};
}

Result<void> ClusterApi::logs(const v1::LogsRequest& request, const std::function<bool(const v1::LogLine&)>& on_line) {
  auto channel = impl_->channel();
  if (!channel) return make_error(channel.error());
  (*channel)->await_reconnection(kReconnectPatience);
  grpc::ClientContext context;
  impl_->prepare(context);
  const auto stub = v1::Cluster::NewStub((*channel)->grpc());
  const auto reader = stub->Logs(&context, request);
  v1::LogLine line;
  while (reader->Read(&line)) {
    if (!on_line(line)) {
      context.TryCancel();
      reader->Finish();
      return {};
    }
  }
  const grpc::Status status = reader->Finish();
  if (!status.ok()) return make_error(from_status(status, impl_->address));
  return {};
}

}  // namespace volador::control
