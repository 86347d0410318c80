// Finishes one unary call exactly once, even if the stopping head dropped its callback.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <utility>

#include "runtime/control/status.h"
#include "runtime/result.h"

namespace volador::head {

class UnaryAnswer {
 public:
  explicit UnaryAnswer(grpc::ServerUnaryReactor* reactor) : reactor_(reactor) {}
  UnaryAnswer(const UnaryAnswer&) = delete;
  UnaryAnswer& operator=(const UnaryAnswer&) = delete;
  ~UnaryAnswer() {
    if (reactor_)
      reactor_->Finish(control::to_status({ErrorCode::kUnavailable, "the head stops; ask again when it is back"}));
  }
  void give(const Result<void>& result) {
    if (reactor_)
      std::exchange(reactor_, nullptr)->Finish(result ? grpc::Status::OK : control::to_status(result.error()));
  }

 private:
  grpc::ServerUnaryReactor* reactor_;
};

}  // namespace volador::head
