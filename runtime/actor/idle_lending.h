// Returns the CPUs of a task actor after it was idle for a moment; its process stays for the next task.
#pragma once

#include <functional>
#include <memory>
#include <mutex>

#include "runtime/clock.h"
#include "runtime/net/io_loop.h"

namespace volador::internal {

// Returns an idle actor's CPUs. Thread safe; begin() and end() alternate.
class IdleLending : public std::enable_shared_from_this<IdleLending> {
 public:
  // `lend` notifies the head that the CPUs are returned (true) or acquired again. `io` and `clock` outlive this object.
  IdleLending(net::IoLoop& io, const Clock& clock, std::function<void(bool lend)> lend)
      : io_(io), clock_(clock), lend_(std::move(lend)) {}
  ~IdleLending();
  IdleLending(const IdleLending&) = delete;
  IdleLending& operator=(const IdleLending&) = delete;

  // A task is about to run: acquires the CPUs again.
  void begin();
  // No task is running. One timer covers all ends before it fires.
  void end();

 private:
  void look();
  void arm(BootTime when);

  net::IoLoop& io_;
  const Clock& clock_;
  const std::function<void(bool lend)> lend_;
  std::mutex mutex_;
  bool busy_ = false;
  bool lent_ = false;
  BootTime idle_since_{};
  net::IoLoop::TimerId timer_ = 0;
};

}  // namespace volador::internal
