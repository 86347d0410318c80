#include "head/shell/control_service.h"

#include <fmt/format.h>

#include <map>
#include <mutex>

#include "head/shell/authorizer.h"
#include "head/shell/plain_peer.h"
#include "head/shell/program_exchange.h"
#include "head/shell/program_reactors.h"
#include "head/shell/stream_reactor.h"
#include "runtime/control/channel.h"
#include "runtime/protocol/control.grpc.pb.h"
#include "runtime/protocol/error_info.h"
#include "runtime/security/authority.h"
#include "runtime/version.h"

namespace volador::head {
namespace {

constexpr std::chrono::minutes kSkewMax{5};

Result<void> check_version(const protocol::JoinRequest& request) {
  if (request.protocol_version() == control::kProtocolVersion) return {};
  return make_error(
      ErrorCode::kInvalidArgument,
      fmt::format("{} has version {} (protocol {}), the head {} (protocol {}). Install the same version on both.",
                  request.name(), request.version(), request.protocol_version(), kVersion, control::kProtocolVersion));
}

Result<void> check_skew(const protocol::JoinRequest& request, WallTime now) {
  const auto skew = std::chrono::nanoseconds(request.wall_ns()) - now.time_since_epoch();
  if (skew < kSkewMax && skew > -kSkewMax) return {};
  return make_error(
      ErrorCode::kUnauthenticated,
      fmt::format("the clock of {} is {} s {} the head's; at most {} s are allowed, or certificates would not be "
                  "valid. Set both clocks (NTP).",
                  request.name(), std::abs(std::chrono::duration_cast<std::chrono::seconds>(skew).count()),
                  skew.count() > 0 ? "ahead of" : "behind", std::chrono::seconds(kSkewMax).count()));
}

// Finishes one Certify call exactly once, even if the stopping head dropped its callback.
class CertifyAnswer {
 public:
  CertifyAnswer(grpc::ServerUnaryReactor* reactor, protocol::JoinReply* reply) : reactor_(reactor), reply_(reply) {}
  CertifyAnswer(const CertifyAnswer&) = delete;
  CertifyAnswer& operator=(const CertifyAnswer&) = delete;
  ~CertifyAnswer() {
    if (reactor_) refuse({ErrorCode::kUnavailable, "the head stops; ask again when it is back"});
  }
  void give() { std::exchange(reactor_, nullptr)->Finish(grpc::Status::OK); }
  void refuse(const Error& error) {
    fill(*reply_->mutable_error(), error);
    give();
  }

 private:
  grpc::ServerUnaryReactor* reactor_;
  protocol::JoinReply* reply_;
};

}  // namespace

class ControlService::Impl final : public protocol::Control::CallbackService {
 public:
  explicit Impl(Parts parts) : parts_(std::move(parts)) {}

  grpc::ServerUnaryReactor* Join(grpc::CallbackServerContext* context, const protocol::JoinRequest* request,
                                 protocol::JoinReply* reply) override {
    const std::string peer = peer_host(context->peer());
    auto certificate = join(*request, peer);
    if (certificate) {
      if (parts_.on_joined) parts_.on_joined(context->peer());
      log::info("head", "joined",
                {{"role", request->role()}, {"name", request->name()}, {"token", request->token_id()}, {"peer", peer}});
      fill(*reply, std::move(*certificate));
    } else {
      log::warn("head", "join refused",
                {{"role", request->role()},
                 {"name", request->name().substr(0, 64)},
                 {"token", request->token_id().substr(0, 32)},
                 {"peer", peer},
                 {"error", certificate.error().message}});
      protocol::fill(*reply->mutable_error(), certificate.error());
    }
    auto* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

  grpc::ServerUnaryReactor* Certify(grpc::CallbackServerContext* context, const protocol::CertifyRequest* request,
                                    protocol::JoinReply* reply) override {
    auto* reactor = context->DefaultReactor();
    auto answer = std::make_shared<CertifyAnswer>(reactor, reply);
    const auto caller = parts_.authorizer.identify(certificate_of(*context->auth_context()));
    auto certificate = caller ? certify(*request, *caller) : make_error(caller.error());
    if (!certificate) {
      answer->refuse(certificate.error());
    } else if (request->role() == to_string(security::Role::kNode)) {
      fill(*reply, std::move(*certificate));
      answer->give();
    } else {
      // Signed already, outside the core's loop, but sent only if the core knows the host.
      parts_.runner.ask([this, answer, reply, certificate = std::move(*certificate), node = caller->name,
                         host = id_from_raw<HostId>(request->host_id())](const HeadCore& core, BootTime) mutable {
        if (auto allowed = core.lookups().may_certify(node, host); !allowed) {
          log::warn("head", "certificate refused",
                    {{"node", node}, {"host", to_string(host)}, {"error", allowed.error().message}});
          return answer->refuse(allowed.error());
        }
        fill(*reply, std::move(certificate));
        answer->give();
      });
    }
    return reactor;
  }

  grpc::ServerBidiReactor<protocol::WorkerMessage, protocol::HeadToWorker>* Worker(
      grpc::CallbackServerContext* context) override {
    auto stream = std::make_shared<StreamReactor<protocol::WorkerMessage, protocol::HeadToWorker>>(
        context, context->peer(), StreamLimits{});
    const auto caller = parts_.authorizer.identify(certificate_of(*context->auth_context()));
    const uint64_t entry = remember(caller, stream);
    CoreRunner& runner = parts_.runner;
    const NodeSession session = runner.open_node(stream);
    tell_revoked(*stream, parts_.authorizer.revoked_tokens());
    return stream->start(
        {.on_message =
             [&runner, session, own = caller ? caller->name : std::string(), weak = std::weak_ptr(stream)](
                 protocol::WorkerMessage message, std::function<void()> handled) {
               if (message.has_register_() && message.register_().name() != own) {
                 if (auto alive = weak.lock()) refuse_name(*alive, own, message.register_().name());
                 return handled();
               }
               runner.on_node_message(session, std::move(message), std::move(handled));
             },
         .on_end =
             [this, session, entry] {
               parts_.runner.on_node_lost(session);
               forget(entry);
             }});
  }

  grpc::ServerBidiReactor<protocol::ClientMessage, protocol::HeadMessage>* Client(
      grpc::CallbackServerContext* context) override {
    auto stream = std::make_shared<StreamReactor<protocol::ClientMessage, protocol::HeadMessage>>(
        context, context->peer(), StreamLimits{});
    const auto caller = parts_.authorizer.identify(certificate_of(*context->auth_context()));
    const uint64_t entry = remember(caller, stream);
    CoreRunner& runner = parts_.runner;
    const ClientSession session = runner.open_client(stream, caller.value_or(security::Principal()));
    return stream->start({.on_message =
                              [&runner, session](protocol::ClientMessage message, std::function<void()> handled) {
                                runner.on_client_message(session, std::move(message), std::move(handled));
                              },
                          .on_end =
                              [this, session, entry] {
                                parts_.runner.on_client_lost(session);
                                forget(entry);
                              }});
  }

  grpc::ServerReadReactor<protocol::ProgramChunk>* PutProgram(grpc::CallbackServerContext*,
                                                              protocol::ErrorInfo* reply) override {
    return new_put_program(parts_.programs, reply);
  }

  grpc::ServerWriteReactor<protocol::ProgramChunk>* GetProgram(grpc::CallbackServerContext*,
                                                               const protocol::ProgramRequest* request) override {
    return new_get_program(parts_.programs, request->sha256());
  }

  void close_streams_of(const std::string& token_id) {
    std::vector<std::function<void()>> closing;
    {
      std::lock_guard lock(mutex_);
      for (const auto& [entry, stream] : streams_) {
        if (stream.token_id == token_id) closing.push_back(stream.revoke);
      }
    }
    for (const auto& close : closing) close();
  }

  void end_streams_of(const std::string& token_id) {
    std::vector<std::function<void()>> closing;
    std::vector<std::shared_ptr<WorkerStream>> workers;
    {
      std::lock_guard lock(mutex_);
      for (const auto& [entry, stream] : streams_) {
        if (stream.token_id == token_id) {
          closing.push_back(stream.revoke);
        } else if (auto worker = stream.worker.lock()) {
          workers.push_back(std::move(worker));
        }
      }
    }
    for (const auto& close : closing) close();
    for (const auto& worker : workers) tell_revoked(*worker, {token_id});
  }

 private:
  using WorkerStream = StreamReactor<protocol::WorkerMessage, protocol::HeadToWorker>;
  struct Stream {
    std::string token_id;
    std::function<void()> revoke;
    std::weak_ptr<WorkerStream> worker;  // The stream of a node.
  };

  // Its hosts and its store accept calls from peers other than the head.
  static void tell_revoked(WorkerStream& worker, const std::vector<std::string>& token_ids) {
    protocol::HeadToWorker message;
    for (const std::string& id : token_ids) message.mutable_revoked()->add_token_ids(id);
    if (message.has_revoked()) worker.send(std::move(message));
  }

  Result<std::string> join(const protocol::JoinRequest& request, const std::string& peer) {
    VOLADOR_TRY(check_version(request));
    const auto role = security::parse_role(request.role());
    if (!role)
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("role \"{}\": expected node, driver or operator", request.role()));
    VOLADOR_TRY(parts_.authorizer.check_join(request.token_id(), request.secret(), *role, peer));
    VOLADOR_TRY(check_skew(request, parts_.clock.wall()));
    return parts_.authority.sign(
        request.csr_pem(),
        {.role = *role, .name = request.name(), .token_id = request.token_id(), .now = parts_.clock.wall()});
  }

  // Signs the request; the core decides whether the node may get the certificate.
  Result<std::string> certify(const protocol::CertifyRequest& request, const security::Principal& caller) {
    const WallTime now = parts_.clock.wall();
    if (request.role() == to_string(security::Role::kNode)) {
      return parts_.authority.sign(
          request.csr_pem(),
          {.role = security::Role::kNode, .name = caller.name, .token_id = caller.token_id, .now = now});
    }
    if (request.role() != to_string(security::Role::kHost)) {
      return make_error(ErrorCode::kPermissionDenied,
                        fmt::format("role \"{}\": a node gets certificates of role host or node only", request.role()));
    }
    const auto host = id_from_raw<HostId>(request.host_id());
    if (host.is_nil()) return make_error(ErrorCode::kInvalidArgument, "a host's certificate needs its id of 16 bytes");
    return parts_.authority.sign(
        request.csr_pem(),
        {.role = security::Role::kHost, .name = to_string(host), .token_id = caller.token_id, .now = now});
  }

  // A certificate is bound to one node name and cannot register another.
  static void refuse_name(StreamReactor<protocol::WorkerMessage, protocol::HeadToWorker>& stream,
                          const std::string& own, const std::string& claimed) {
    const Error error{
        ErrorCode::kPermissionDenied,
        fmt::format(
            "node name \"{}\": this node's certificate is for \"{}\"; join again with a token to change the name",
            claimed, own)};
    log::warn("head", "registration refused", {{"certificate", own}, {"claimed", claimed}});
    protocol::HeadToWorker refused;
    protocol::fill(*refused.mutable_refused(), error);
    stream.send(std::move(refused));
    stream.close(error);
  }

  void fill(protocol::JoinReply& reply, std::string certificate) const {
    reply.set_certificate_pem(std::move(certificate));
    reply.set_authority_pem(parts_.authority.certificate_pem());
    reply.set_cluster_name(parts_.cluster_name);
    reply.set_cluster_id(raw(parts_.cluster));
  }

  template <class Message>
  uint64_t remember(const Result<security::Principal>& caller, const std::shared_ptr<Message>& stream) {
    std::lock_guard lock(mutex_);
    streams_[next_stream_] = {
        .token_id = caller ? caller->token_id : std::string(),
        .revoke =
            [weak = std::weak_ptr(stream)] {
              if (auto alive = weak.lock())
                alive->close({ErrorCode::kUnauthenticated,
                              "the token behind this connection was revoked, or its user disabled"});
            },
        .worker = {}};
    if constexpr (std::same_as<Message, WorkerStream>) streams_[next_stream_].worker = stream;
    return next_stream_++;
  }

  void forget(uint64_t entry) {
    std::lock_guard lock(mutex_);
    streams_.erase(entry);
  }

  const Parts parts_;
  std::mutex mutex_;
  std::map<uint64_t, Stream> streams_;
  uint64_t next_stream_ = 1;
};

ControlService::ControlService(Parts parts) : impl_(std::make_unique<Impl>(std::move(parts))) {}
ControlService::~ControlService() = default;

grpc::Service* ControlService::service() { return impl_.get(); }
void ControlService::close_streams_of(const std::string& token_id) { impl_->close_streams_of(token_id); }
void ControlService::end_streams_of(const std::string& token_id) { impl_->end_streams_of(token_id); }

}  // namespace volador::head
