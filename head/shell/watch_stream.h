// One Live.Watch call: one message at a time, so that a slow client gets fewer and newer ones. Include from .cc files
// only: it includes gRPC.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "runtime/protocol/volador/v1/live.pb.h"
#include "runtime/result.h"

namespace volador::head {

// Thread safe. Owns itself from start() until gRPC releases it; senders also hold references.
class WatchStream final : public grpc::ServerWriteReactor<v1::WatchReply>,
                          public std::enable_shared_from_this<WatchStream> {
 public:
  struct Hooks {
    std::function<void()> on_written;  // The stream is not busy any more. Called on a gRPC thread.
    std::function<void()> on_end;      // Called once, last.
  };

  grpc::ServerWriteReactor<v1::WatchReply>* start();
  // Called once by the sender; on_end runs at once if the call has ended already.
  void follow(Hooks hooks);
  bool busy() const;
  // Requires !busy().
  void send(v1::WatchReply message);
  // Finishes after the pending write.
  void finish(Result<void> result);

 private:
  void finish_when_written();
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  mutable std::mutex mutex_;
  Hooks hooks_;
  std::shared_ptr<WatchStream> self_;
  v1::WatchReply message_;
  bool writing_ = false;
  bool closing_ = false;
  bool finished_ = false;
  bool done_ = false;
  grpc::Status status_;
};

}  // namespace volador::head
