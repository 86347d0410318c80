#include "head/shell/live_service.h"

#include <grpcpp/server_context.h>

#include <mutex>

#include "head/shell/gate.h"
#include "head/shell/unary_answer.h"
#include "head/shell/watch_stream.h"
#include "runtime/protocol/volador/v1/live.grpc.pb.h"

namespace volador::head {

class LiveService::Impl final : public v1::Live::CallbackService {
 public:
  explicit Impl(Gate& gate) : gate_(gate) {}

  grpc::ServerWriteReactor<v1::WatchReply>* Watch(grpc::CallbackServerContext* context, const v1::WatchRequest* request) override {
    auto stream = std::make_shared<WatchStream>();
    auto* reactor = stream->start();
    const auto& metadata = context->client_metadata();
    const auto bearer = metadata.find("authorization");
    const auto caller = gate_.caller(certificate_of(*context->auth_context()), bearer == metadata.end() ? std::string_view() : std::string_view(bearer->second.data(), bearer->second.size()));
    if (!caller) {
      stream->finish(make_error(caller.error()));
      return reactor;
    }
    const std::lock_guard lock(mutex_);
    if (open_) {
      open_(*request, caller->token_id, stream);
    } else {
      stream->finish(make_error(ErrorCode::kNotFound, "this head keeps no live state for others; start it without --no-dashboard"));
    }
    return reactor;
  }

  grpc::ServerUnaryReactor* List(grpc::CallbackServerContext* context, const v1::ListRowsRequest* request, v1::ListRowsReply* reply) override {
    auto* reactor = context->DefaultReactor();
    const auto answer = std::make_shared<UnaryAnswer>(reactor);
    const std::lock_guard lock(mutex_);
    if (!list_) {
      answer->give(make_error(ErrorCode::kNotFound, "this head keeps no rows for others; start it without --no-dashboard"));
      return reactor;
    }
    list_(*request, [answer, reply](Result<std::string> page) {
      if (!page) return answer->give(make_error(page.error()));
      reply->set_json(std::move(*page));
      answer->give({});
    });
    return reactor;
  }

  void set_watch(OpenWatch open) {
    const std::lock_guard lock(mutex_);
    open_ = std::move(open);
  }
  void set_list(ListRows list) {
    const std::lock_guard lock(mutex_);
    list_ = std::move(list);
  }

 private:
  Gate& gate_;
  std::mutex mutex_;
  OpenWatch open_;
  ListRows list_;
};

LiveService::LiveService(Gate& gate) : impl_(std::make_unique<Impl>(gate)) {}
LiveService::~LiveService() = default;
grpc::Service* LiveService::service() { return impl_.get(); }
void LiveService::set_watch(OpenWatch open) { impl_->set_watch(std::move(open)); }
void LiveService::set_list(ListRows list) { impl_->set_list(std::move(list)); }

}  // namespace volador::head
