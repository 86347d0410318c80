// RunFileTransfers on its own thread: a run's directory may be on a disk that is slow or hangs, which must not delay a
// node's leases or a program's calls.
#pragma once

#include <functional>
#include <memory>

#include "runtime/clock.h"
#include "runtime/control/run_file_transfers.h"

namespace volador::control {

// Thread safe. The thread starts with the first request.
class RunFileServer {
 public:
  static constexpr size_t kWaitingMax = 256;  // Queued requests; further ones are rejected (kUnavailable).

  using Answered = std::function<void(protocol::RunFilesAnswer)>;
  // `clock` outlives it.
  explicit RunFileServer(const Clock& clock, const RunFileLimits& limits = {});
  // Waits briefly for the running request; if the disk takes longer, the thread is detached and no callback runs any
  // more.
  ~RunFileServer();
  RunFileServer(const RunFileServer&) = delete;
  RunFileServer& operator=(const RunFileServer&) = delete;

  // `answered` runs once, on the server's thread or inside ask(), or never if the request needs no answer or the server
  // ends; it must not block or call this object.
  void ask(protocol::ReadRunFiles question, Answered answered);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace volador::control
