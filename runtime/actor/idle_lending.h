// An actor that runs tasks and has none: its CPUs are others' after a moment, its process stays for the next one.
#pragma once

#include <functional>
#include <memory>
#include <mutex>

#include "runtime/clock.h"
#include "runtime/net/io_loop.h"

namespace volador::internal {

// Thread safe; begin() and end() in turn.
class IdleLending : public std::enable_shared_from_this<IdleLending> {
 public:
  // `lend` tells the head that the CPUs are lent, or taken back. `io` and `clock` outlive this.
  IdleLending(net::IoLoop& io, const Clock& clock, std::function<void(bool lend)> lend) : io_(io), clock_(clock), lend_(std::move(lend)) {}
  ~IdleLending();
  IdleLending(const IdleLending&) = delete;
  IdleLending& operator=(const IdleLending&) = delete;

  // Something is about to run: the CPUs are the actor's again.
  void begin();
  // Nothing runs any more. One timer is enough for all that ends before it fires.
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
