// The end of a process on request: signals as something to poll, and who sent one.
#pragma once

#include <signal.h>

#include <initializer_list>
#include <string>

#include "runtime/net/unique_fd.h"
#include "runtime/result.h"

namespace volador {

// To a head: end without a word to programs and workers, which wait for the next head (`volador stop --for-restart`).
inline constexpr int kStopForRestart = SIGUSR1;

class StopSignal {
 public:
  struct Asked {
    int signal = 0;  // 0: none has come.
    std::string by;  // "root (volador, pid 4711)"; "Ctrl-C" of one from a terminal.
  };

  // From here on these signals end nothing by themselves: call it before the first thread, so that all threads block
  // them. kUnavailable: no descriptor is left.
  [[nodiscard]] static Result<StopSignal> create(std::initializer_list<int> signals);

  // Readable once one of them has come.
  int fd() const { return fd_.get(); }
  // The first of them that has come and was not taken yet.
  Asked take() const;

 private:
  explicit StopSignal(net::UniqueFd fd) : fd_(std::move(fd)) {}
  net::UniqueFd fd_;
};

}  // namespace volador
