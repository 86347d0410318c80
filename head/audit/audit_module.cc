#include "head/audit/audit_module.h"

#include <algorithm>

#include "runtime/number_key.h"
#include "runtime/utf8.h"

namespace volador::head {

bool AuditModule::load(std::string_view table, std::string_view key, std::string_view value) {
  if (table != kAuditTable) return false;
  Entry entry{.number = key_number<uint64_t>(key), .record = {}};
  if (key.size() == kNumberKeyBytes && entry.number > 0 &&
      entry.record.ParseFromArray(value.data(), static_cast<int>(value.size()))) {
    entries_.push_back(std::move(entry));
  } else {
    context_.bad_rows.emplace_back(table);
  }
  return true;
}

void AuditModule::start() {
  std::sort(entries_.begin(), entries_.end(), [](const Entry& a, const Entry& b) { return a.number < b.number; });
  if (!entries_.empty()) last_ = entries_.back().number;
  drop_oldest();
}

void AuditModule::record(int64_t wall_ns, const AuditRequest& request, const Result<void>& outcome) {
  Entry entry{.number = ++last_, .record = {}};
  entry.record.set_wall_ns(wall_ns);
  entry.record.set_by(request.by);
  entry.record.set_action(plain_text(request.action, kTextBytesMax));
  entry.record.set_object(plain_text(request.object, kTextBytesMax));
  if (!outcome) {
    entry.record.set_code(static_cast<int32_t>(outcome.error().code));
    entry.record.set_message(plain_text(outcome.error().message, kTextBytesMax));
  }
  context_.journal(kAuditTable, number_key(entry.number), entry.record.SerializeAsString());
  entries_.push_back(std::move(entry));
  drop_oldest();
}

void AuditModule::visit(const std::function<bool(const Entry& entry)>& visit) const {
  for (auto entry = entries_.rbegin(); entry != entries_.rend() && visit(*entry); ++entry) {
  }
}

void AuditModule::drop_oldest() {
  for (; entries_.size() > entries_max_; entries_.pop_front())
    context_.journal(kAuditTable, number_key(entries_.front().number), std::nullopt);
}

void AuditModule::check_invariants() const {
  const auto later = [](const Entry& a, const Entry& b) { return a.number >= b.number; };
  VOLADOR_CHECK(std::adjacent_find(entries_.begin(), entries_.end(), later) == entries_.end(),
                "entries of the audit log are out of order");
  VOLADOR_CHECK(entries_.empty() || entries_.back().number == last_, std::to_string(last_));
}

}  // namespace volador::head
