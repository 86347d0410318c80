#include "head/shell/watch_service.h"

#include "head/shell/watch_stream.h"

namespace volador::head {

grpc::ServerWriteReactor<v1::WatchReply>* WatchService::open(const Result<security::Principal>& by,
                                                             const v1::WatchRequest& request) {
  auto stream = std::make_shared<WatchStream>();
  auto* reactor = stream->start();
  if (!by) {
    stream->finish(make_error(by.error()));
    return reactor;
  }
  const std::lock_guard lock(mutex_);
  if (open_) {
    open_(request, *by, stream);
  } else {
    stream->finish(
        make_error(ErrorCode::kNotFound, "this head keeps no live state for others; start it without --no-dashboard"));
  }
  return reactor;
}

void WatchService::set_watch(OpenWatch open) {
  const std::lock_guard lock(mutex_);
  open_ = std::move(open);
}

}  // namespace volador::head
