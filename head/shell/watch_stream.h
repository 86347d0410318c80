// One Live.Watch call: one message at a time, so that a slow client gets fewer and newer ones. Include from .cc files only: it brings gRPC.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "runtime/protocol/volador/v1/live.pb.h"
#include "runtime/result.h"

namespace volador::head {

// Thread safe. Owned by itself from start() until gRPC is done with it, and by whoever sends.
class WatchStream final : public grpc::ServerWriteReactor<v1::WatchReply>, public std::enable_shared_from_this<WatchStream> {
 public:
  struct Hooks {
    std::function<void()> on_written;  // Not busy any more. On a thread of gRPC's.
    std::function<void()> on_end;      // Once; last.
  };

  grpc::ServerWriteReactor<v1::WatchReply>* start();
  // Once, of who sends; where the call has ended already, on_end runs at once.
  void follow(Hooks hooks);
  bool busy() const;
  // Not while busy.
  void send(v1::WatchReply message);
  // After what is being written.
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
