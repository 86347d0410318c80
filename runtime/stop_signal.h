// Stop requests by signal, as a pollable descriptor, with their sender.
#pragma once

#include <signal.h>

#include <initializer_list>
#include <string>

#include "runtime/net/unique_fd.h"
#include "runtime/result.h"

namespace volador {

// Makes a head end without notifying programs and workers, which wait for the next head (`volador stop --for-restart`).
inline constexpr int kStopForRestart = SIGUSR1;

// Receives signals through a descriptor.
class StopSignal {
 public:
  struct Asked {
    int signal = 0;  // 0: none.
    std::string by;  // "root (volador, pid 4711)"; "Ctrl-C" if sent from a terminal.
  };

  // From then on the signals no longer end the process: call before starting threads, so that all threads block them.
  // kUnavailable: no descriptor is left.
  [[nodiscard]] static Result<StopSignal> create(std::initializer_list<int> signals);

  // Readable when a signal has arrived.
  int fd() const { return fd_.get(); }
  // Takes the first pending signal.
  Asked take() const;

 private:
  explicit StopSignal(net::UniqueFd fd) : fd_(std::move(fd)) {}
  net::UniqueFd fd_;
};

}  // namespace volador
