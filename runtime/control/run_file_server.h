// RunFileTransfers on a thread of its own: the directory of a run may lie on a disk that answers slowly or never, and
// neither a node's leases nor a program's calls wait for it.
#pragma once

#include <functional>
#include <memory>

#include "runtime/clock.h"
#include "runtime/control/run_file_transfers.h"

namespace volador::control {

// Thread safe. The thread begins with the first question.
class RunFileServer {
 public:
  static constexpr size_t kWaitingMax = 256;  // Questions; the next one is refused (kUnavailable).

  using Answered = std::function<void(protocol::RunFilesAnswer)>;
  // `clock` outlives it.
  explicit RunFileServer(const Clock& clock, const RunFileLimits& limits = {});
  // Waits a moment for the question in progress; a disk that takes longer is left alone, and nobody is called any more.
  ~RunFileServer();
  RunFileServer(const RunFileServer&) = delete;
  RunFileServer& operator=(const RunFileServer&) = delete;

  // `answered` runs once on its thread, or in here, or never where the question has no answer or this ends; it must not
  // block and must not call this.
  void ask(protocol::ReadRunFiles question, Answered answered);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace volador::control
