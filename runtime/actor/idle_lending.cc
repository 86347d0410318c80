#include "runtime/actor/idle_lending.h"

#include "runtime/actor/lending.h"

namespace volador::internal {

IdleLending::~IdleLending() {
  if (timer_ != 0) io_.cancel_timer(timer_);
}

void IdleLending::begin() {
  const std::lock_guard<std::mutex> hold(mutex_);
  busy_ = true;
  if (!lent_) return;
  lent_ = false;
  lend_(false);
}

void IdleLending::end() {
  const std::lock_guard<std::mutex> hold(mutex_);
  busy_ = false;
  idle_since_ = clock_.now();
  if (timer_ == 0) arm(idle_since_ + kLendAfter);
}

void IdleLending::arm(BootTime when) {
  timer_ = io_.add_timer(when, [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->look();
  });
}

void IdleLending::look() {
  const std::lock_guard<std::mutex> hold(mutex_);
  timer_ = 0;
  if (busy_ || lent_) return;
  const BootTime due = idle_since_ + kLendAfter;
  if (clock_.now() < due) return arm(due);
  lent_ = true;
  lend_(true);
}

}  // namespace volador::internal
