// The end of a process on request: signals as something to poll, and who sent one.
#pragma once

#include <initializer_list>
#include <string>

#include "runtime/net/unique_fd.h"
#include "runtime/result.h"

namespace volador {

class StopSignal {
 public:
  // From here on these signals end nothing by themselves: call it before the first thread, so that all threads block
  // them. kUnavailable: no descriptor is left.
  [[nodiscard]] static Result<StopSignal> create(std::initializer_list<int> signals);

  // Readable once one of them has come.
  int fd() const { return fd_.get(); }
  // Of the first of them that has come: "root (volador, pid 4711)"; "Ctrl-C" of one from a terminal; empty: none has.
  std::string asked_by() const;

 private:
  explicit StopSignal(net::UniqueFd fd) : fd_(std::move(fd)) {}
  net::UniqueFd fd_;
};

}  // namespace volador
