#include "runtime/control/channel.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <grpc/grpc.h>
#include <grpc/support/log.h>
#include <grpcpp/channel.h>
#include <grpcpp/create_channel.h>
#include <grpcpp/security/credentials.h>
#include <grpcpp/support/channel_arguments.h>

#include <mutex>

#include "runtime/descriptor_limit.h"
#include "runtime/log.h"
#include "runtime/security/authority.h"
#include "runtime/security/handshake.h"

namespace volador::control {
namespace {

constexpr int kGrpcDescriptors = 16;  // gRPC polls with four; the others are for the first connection.

void log_from_grpc(gpr_log_func_args* args) {
  log::debug("grpc", "transport", {{"message", args->message}, {"file", args->file}, {"line", args->line}});
}

// IP addresses need no resolver.
std::string target_of(const std::string& address) {
  const auto where = security::parse_host_port(address);
  if (where) {
    unsigned char bytes[sizeof(in6_addr)];
    if (::inet_pton(AF_INET, where->host.c_str(), bytes) == 1) return "ipv4:" + address;
    if (::inet_pton(AF_INET6, where->host.c_str(), bytes) == 1) return "ipv6:" + address;
  }
  return "dns:///" + address;
}

grpc::ChannelArguments arguments(std::chrono::milliseconds keepalive_time,
                                 std::chrono::milliseconds keepalive_timeout) {
  grpc::ChannelArguments out;
  out.SetSslTargetNameOverride(std::string(security::kHeadServerName));
  out.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  out.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  out.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);
  out.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  out.SetCompressionAlgorithm(GRPC_COMPRESS_NONE);
  out.SetMaxReceiveMessageSize(static_cast<int>(kMessageBytesMax));
  out.SetMaxSendMessageSize(static_cast<int>(kMessageBytesMax));
  out.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, static_cast<int>(keepalive_time.count()));
  out.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, static_cast<int>(keepalive_timeout.count()));
  out.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  out.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  out.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
  out.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, static_cast<int>(kConnectTimeout.count()));
  out.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, static_cast<int>(kConnectTimeout.count()));
  return out;
}

}  // namespace

Channel::Channel(std::string address, const security::Credentials& credentials,
                 std::chrono::milliseconds keepalive_time, std::chrono::milliseconds keepalive_timeout)
    : address_(std::move(address)) {
  VOLADOR_CHECK(prepare_grpc().has_value());
  const grpc::SslCredentialsOptions options{.pem_root_certs = credentials.authority_pem,
                                            .pem_private_key = credentials.key_pem,
                                            .pem_cert_chain = credentials.certificate_pem};
  channel_ = grpc::CreateCustomChannel(target_of(address_), grpc::SslCredentials(options),
                                       arguments(keepalive_time, keepalive_timeout));
}

Channel::~Channel() = default;

void Channel::await_reconnection(std::chrono::milliseconds patience) const {
  if (channel_->GetState(false) != GRPC_CHANNEL_TRANSIENT_FAILURE) return;
  channel_->WaitForConnected(std::chrono::system_clock::now() + patience);
}

Result<void> prepare_grpc() {
  static std::mutex mutex;
  static std::shared_ptr<grpc::Channel>* kept = nullptr;  // Leaked: gRPC may be used until the process ends.
  const std::scoped_lock lock(mutex);
  if (kept != nullptr) return {};
  if (!can_open_descriptors(kGrpcDescriptors)) {
    return make_error(
        ErrorCode::kUnavailable,
        fmt::format(
            "no connection to a head can be opened: this process has fewer than {} descriptors left of those that "
            "it may open; close files that are not needed, or raise `ulimit -n`",
            kGrpcDescriptors));
  }
  gpr_set_log_function(log_from_grpc);
  grpc_init();  // Never shut down: gRPC's shutdown waits up to 10 s for an interrupted handshake.
  // gRPC closes its event engine's descriptors with the last channel, opens new ones for the next channel, and aborts
  // the process if that fails. A channel that never connects keeps them open.
  kept =
      new std::shared_ptr<grpc::Channel>(grpc::CreateChannel("ipv4:127.0.0.1:1", grpc::InsecureChannelCredentials()));
  return {};
}

}  // namespace volador::control
