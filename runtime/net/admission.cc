#include "runtime/net/admission.h"

#include <algorithm>

namespace volador::net {

using Kind = AdmissionAction::Kind;

AdmissionLimits admission_limits_for(uint64_t descriptors, AdmissionLimits limits) {
  limits.connections = std::min(limits.connections, std::max<size_t>(descriptors / 8, 16));
  limits.unproved = std::min(limits.unproved, std::max<size_t>(descriptors / 16, 8));
  return limits;
}

double Admission::left(const std::string& address, BootTime now) const {
  const auto known = budgets_.find(address);
  if (known == budgets_.end()) return limits_.budget;
  const double seconds = std::chrono::duration<double>(now - known->second.at).count();
  return std::min(limits_.budget, known->second.left + seconds * limits_.budget_per_second);
}

double Admission::strangers_left(BootTime now) const {
  const double seconds = std::chrono::duration<double>(now - strangers_.at).count();
  return std::min(limits_.strangers_budget, strangers_.left + seconds * limits_.strangers_budget_per_second);
}

void Admission::charge(const Entry& entry, double cost, BootTime now) {
  const std::string& address = entry.address;
  if (entry.of_stranger) {
    strangers_ = {.left = std::max(strangers_left(now) - cost, 1 - limits_.strangers_budget_per_second), .at = now};
  }
  const double after = std::min(limits_.budget, left(address, now) - cost);
  if (after >= limits_.budget) {
    budgets_.erase(address);
    return;
  }
  // At least one second's refill, so that the effect of an attack ends soon after it.
  budgets_[address] = {.left = std::max(after, 1 - limits_.budget_per_second), .at = now};
  if (budgets_.size() > limits_.addresses) forget_fullest(now);
}

void Admission::remember(const std::string& address) {
  uint64_t& last = known_[address];
  known_by_age_.erase(last);
  last = ++proofs_;
  known_by_age_.emplace(last, address);
  if (known_.size() <= limits_.addresses) return;
  known_.erase(known_by_age_.begin()->second);
  known_by_age_.erase(known_by_age_.begin());
}

void Admission::forget_fullest(BootTime now) {
  const auto fullest =
      std::ranges::max_element(budgets_, {}, [&](const auto& budget) { return left(budget.first, now); });
  budgets_.erase(fullest);
}

void Admission::leave(Entries::iterator entry) {
  Entry& one = entry->second;
  if (one.state == State::kNew) new_.erase(one.place);
  if (one.state == State::kWaiting) {
    const auto queue = waiting_.find(one.address);
    queue->second.erase(one.place);
    if (queue->second.empty()) waiting_.erase(queue);
  }
  if (one.state == State::kUnproved) {
    --unproved_;
    if (one.of_stranger) --unproved_strangers_;
    if (const auto count = unproved_of_.find(one.address); --count->second == 0) unproved_of_.erase(count);
  }
  entries_.erase(entry);
}

void Admission::end(Entries::iterator entry, Actions& actions) {
  actions.push_back({Kind::kEnd, entry->first});
  leave(entry);
}

void Admission::make_room(Actions& actions) {
  if (entries_.size() < limits_.connections) return;
  if (!new_.empty()) return end(entries_.find(new_.front()), actions);
  if (waiting_.empty()) return;
  const auto longest = std::ranges::max_element(waiting_, {}, [this](const auto& queue) {
    return std::pair(!known_.contains(queue.first), queue.second.size());
  });
  end(entries_.find(longest->second.front()), actions);
}

bool Admission::is_crowded(BootTime now) const {
  if (entries_.size() < limits_.connections || new_.empty()) return false;
  return now < entries_.at(new_.front()).until - limits_.hello_time + limits_.crowded_time;
}

Admission::Actions Admission::on_accepted(uint64_t connection, const std::string& address, BootTime now) {
  Actions actions;
  make_room(actions);
  if (entries_.size() >= limits_.connections) {  // All connections are already being served.
    actions.push_back({Kind::kEnd, connection});
    return actions;
  }
  const auto place = new_.insert(new_.end(), connection);
  entries_.emplace(connection, Entry{.address = address, .until = now + limits_.hello_time, .place = place});
  return actions;
}

Admission::Actions Admission::on_hello(uint64_t connection, BootTime now) {
  Actions actions;
  const auto found = entries_.find(connection);
  if (found == entries_.end() || found->second.state != State::kNew) return actions;
  Entry& entry = found->second;
  new_.erase(entry.place);
  auto& queue = waiting_[entry.address];
  entry.state = State::kWaiting;
  entry.place = queue.insert(queue.end(), connection);
  entry.until = now + limits_.wait_time;
  serve(now, actions);
  return actions;
}

Admission::Actions Admission::on_garbage(uint64_t connection, BootTime now) {
  Actions actions;
  const auto found = entries_.find(connection);
  if (found == entries_.end()) return actions;
  end(found, actions);
  serve(now, actions);
  return actions;
}

Admission::Actions Admission::on_received(uint64_t connection, uint64_t bytes, BootTime now) {
  Actions actions;
  const auto found = entries_.find(connection);
  if (found == entries_.end() || found->second.state != State::kUnproved) return actions;
  found->second.received = bytes;
  if (bytes <= limits_.unproved_bytes) return actions;
  charge(found->second, limits_.flood_cost, now);
  end(found, actions);
  serve(now, actions);
  return actions;
}

Admission::Actions Admission::on_proved(uint64_t connection, BootTime now) {
  Actions actions;
  const auto found = entries_.find(connection);
  if (found == entries_.end()) return actions;
  // Refunds this connection and the one that fetched the head's certificate before it.
  charge(found->second, -2, now);
  remember(found->second.address);
  actions.push_back({Kind::kRelease, connection});
  leave(found);
  serve(now, actions);
  return actions;
}

Admission::Actions Admission::on_closed(uint64_t connection, BootTime now) {
  Actions actions;
  const auto found = entries_.find(connection);
  if (found == entries_.end()) return actions;
  if (found->second.state == State::kUnproved) {
    const double part = static_cast<double>(found->second.received) / static_cast<double>(limits_.unproved_bytes);
    charge(found->second, 1 + limits_.bytes_cost * part, now);
  }
  end(found, actions);
  serve(now, actions);
  return actions;
}

Admission::Actions Admission::on_tick(BootTime now) {
  Actions actions;
  std::vector<uint64_t> late;
  for (const auto& [connection, entry] : entries_) {
    if (now >= entry.until) late.push_back(connection);
  }
  std::ranges::sort(late);
  for (const uint64_t connection : late) {
    const auto entry = entries_.find(connection);
    if (entry->second.state == State::kUnproved) charge(entry->second, limits_.flood_cost, now);
    end(entry, actions);
  }
  serve(now, actions);
  return actions;
}

bool Admission::may_serve(const std::string& address, BootTime now) const {
  const auto under_way = unproved_of_.find(address);
  const size_t open = under_way == unproved_of_.end() ? 0 : under_way->second;
  if (open >= limits_.unproved_of_address || left(address, now) < static_cast<double>(open) + 1) return false;
  if (known_.contains(address)) return true;
  const size_t places = limits_.unproved - limits_.unproved / 4;
  return unproved_strangers_ < places && strangers_left(now) >= static_cast<double>(unproved_strangers_) + 1;
}

// Round-robin over addresses; for each the newest connection, whose peer is the least likely to have given up.
void Admission::serve(BootTime now, Actions& actions) {
  size_t refused = 0;
  while (unproved_ < limits_.unproved && refused < waiting_.size()) {
    auto next = waiting_.upper_bound(served_last_);
    if (next == waiting_.end()) next = waiting_.begin();
    served_last_ = next->first;
    if (!may_serve(next->first, now)) {
      ++refused;
      continue;
    }
    refused = 0;
    const uint64_t connection = next->second.back();
    next->second.pop_back();
    Entry& entry = entries_.at(connection);
    if (next->second.empty()) waiting_.erase(next);
    entry.state = State::kUnproved;
    entry.until = now + limits_.proof_time;
    entry.of_stranger = !known_.contains(entry.address);
    ++unproved_;
    if (entry.of_stranger) ++unproved_strangers_;
    ++unproved_of_[entry.address];
    actions.push_back({Kind::kServe, connection});
  }
}

std::vector<uint64_t> Admission::unproved() const {
  std::vector<uint64_t> out;
  for (const auto& [connection, entry] : entries_) {
    if (entry.state == State::kUnproved) out.push_back(connection);
  }
  return out;
}

}  // namespace volador::net
