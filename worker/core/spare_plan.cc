#include "worker/core/spare_plan.h"

#include <algorithm>

#include "runtime/result.h"

namespace volador::worker {

using std::chrono::milliseconds;

void SparePlan::on_launch(BootTime now, Program program, HostId host) {
  last_activity_ = now;
  unsettled_[host];
  if (options_.most == 0) return;
  Demand& demand = programs_[program];
  demand.starts.push_back(now);
  if (demand.starts.size() > options_.most) demand.starts.pop_front();
}

void SparePlan::on_process(BootTime now, HostId host) {
  last_activity_ = now;
  if (const auto found = unsettled_.find(host); found != unsettled_.end()) found->second = now;
}

void SparePlan::on_settled(BootTime now, HostId host) {
  last_activity_ = now;
  unsettled_.erase(host);
}

void SparePlan::on_made(BootTime now, Program program) {
  VOLADOR_CHECK(making_ == program);
  making_.reset();
  not_before_ = now + options_.pace;
  ++programs_.at(program).standing;
}

void SparePlan::on_not_made(BootTime now, Program program) {
  VOLADOR_CHECK(making_ == program);
  making_.reset();
  fail(now, programs_.at(program));
}

bool SparePlan::take(Program program) {
  const auto found = programs_.find(program);
  if (found == programs_.end() || found->second.standing == 0) return false;
  --found->second.standing;
  found->second.failures = 0;
  return true;
}

void SparePlan::on_lost(BootTime now, Program program) {
  Demand& demand = programs_.at(program);
  VOLADOR_CHECK(demand.standing > 0);
  --demand.standing;
  fail(now, demand);
}

void SparePlan::hold_off(BootTime until) { held_off_until_ = std::max(held_off_until_, until); }

void SparePlan::fail(BootTime now, Demand& demand) {
  const auto doubled = options_.backoff_min * (1 << std::min(demand.failures, 10));
  ++demand.failures;
  demand.not_before = now + std::min<milliseconds>(doubled, options_.backoff_max);
}

// Returns the first start that is recent enough to predict demand.
std::deque<BootTime>::const_iterator SparePlan::first_late(const Demand& demand, BootTime now) const {
  return std::find_if(demand.starts.begin(), demand.starts.end(),
                      [&](BootTime start) { return now < start + options_.kept; });
}

size_t SparePlan::started_lately(const Demand& demand, BootTime now) const {
  return static_cast<size_t>(demand.starts.end() - first_late(demand, now));
}

size_t SparePlan::wanted(const Demand& demand, BootTime now) const {
  return now < held_off_until_ ? 0 : started_lately(demand, now);
}

// Returns the earliest time for the next spare; nothing before a host settles or a spare was made. During a burst of
// launches, hosts are not scanned.
std::optional<BootTime> SparePlan::may_make_from(BootTime now) const {
  if (making_ || standing() >= options_.most) return std::nullopt;
  BootTime from = std::max({last_activity_ + options_.quiet, not_before_, held_off_until_});
  if (now < from) return from;
  for (const auto& [host, since] : unsettled_) {
    if (!since) return std::nullopt;
    from = std::max(from, *since + options_.unsettled_max);
  }
  return from;
}

std::optional<SparePlan::Order> SparePlan::next(BootTime now) {
  for (auto& [program, demand] : programs_) {
    if (demand.standing <= wanted(demand, now)) continue;
    --demand.standing;
    return Order{program, false};
  }
  std::erase_if(programs_, [&](const auto& each) {
    return each.second.standing == 0 && making_ != each.first && started_lately(each.second, now) == 0;
  });
  const auto from = may_make_from(now);
  if (!from || now < *from) return std::nullopt;
  for (auto& [program, demand] : programs_) {
    if (demand.standing >= wanted(demand, now) || now < demand.not_before) continue;
    making_ = program;
    return Order{program, true};
  }
  return std::nullopt;
}

std::optional<BootTime> SparePlan::due(BootTime now) const {
  std::optional<BootTime> due;
  const auto at = [&due](BootTime time) { due = due ? std::min(*due, time) : time; };
  const auto from = may_make_from(now);
  for (const auto& [program, demand] : programs_) {
    const auto first = first_late(demand, now);
    at(first == demand.starts.end() ? now : *first + options_.kept);
    if (from && demand.standing < started_lately(demand, now)) at(std::max(*from, demand.not_before));
  }
  return due;
}

size_t SparePlan::standing() const {
  size_t sum = 0;
  for (const auto& [program, demand] : programs_) sum += demand.standing;
  return sum;
}

void SparePlan::check_invariants() const {
  VOLADOR_CHECK(standing() <= options_.most);
  VOLADOR_CHECK(!making_ || programs_.contains(*making_));
  for (const auto& [program, demand] : programs_) {
    VOLADOR_CHECK(demand.starts.size() <= options_.most);
    VOLADOR_CHECK(std::is_sorted(demand.starts.begin(), demand.starts.end()));
  }
}

}  // namespace volador::worker
