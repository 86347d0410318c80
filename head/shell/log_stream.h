// One Cluster.Logs call: sends lines as they come, from a bounded queue. Include from .cc files only: it brings gRPC.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <deque>
#include <functional>
#include <memory>
#include <mutex>

#include "runtime/protocol/volador/v1/cluster.pb.h"
#include "runtime/result.h"

namespace volador::head {

// Thread safe. Owns itself from start() until gRPC releases it; senders also hold references.
class LogStream final : public grpc::ServerWriteReactor<v1::LogLine>, public std::enable_shared_from_this<LogStream> {
 public:
  static constexpr size_t kQueueMax = 10'000;  // Lines beyond it are dropped, and a line reports their number.

  // on_end: called once, when nothing more can be sent.
  grpc::ServerWriteReactor<v1::LogLine>* start(std::function<void()> on_end);
  // Returns false if the call has ended.
  bool send(v1::LogLine line);
  // Ends the call after all lines are sent.
  void finish(Result<void> result);
  bool ended() const;

 private:
  void write_next();
  void finish_when_written();
  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

  mutable std::mutex mutex_;
  std::function<void()> on_end_;
  std::shared_ptr<LogStream> self_;
  std::deque<v1::LogLine> queue_;  // The first line is being written while writing_ is true.
  uint64_t left_out_ = 0;
  bool writing_ = false;
  bool closing_ = false;
  bool cancelled_ = false;
  bool finished_ = false;
  grpc::Status status_;
};

}  // namespace volador::head
