#include "head/audit/audit_module.h"

#include <algorithm>

#include "runtime/utf8.h"

namespace volador::head {
namespace {

constexpr size_t kKeyBytes = 8;

std::string key_of(uint64_t number) {
  std::string key(kKeyBytes, '\0');
  for (size_t at = 0; at < kKeyBytes; ++at) key[at] = static_cast<char>(number >> (8 * (kKeyBytes - 1 - at)));
  return key;
}

uint64_t number_of(std::string_view key) {
  uint64_t number = 0;
  for (const char byte : key) number = number << 8 | static_cast<uint8_t>(byte);
  return number;
}

}  // namespace

bool AuditModule::load(std::string_view table, std::string_view key, std::string_view value) {
  if (table != kAuditTable) return false;
  Entry entry{.number = number_of(key), .record = {}};
  if (key.size() == kKeyBytes && entry.number > 0 &&
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
  context_.journal(kAuditTable, key_of(entry.number), entry.record.SerializeAsString());
  entries_.push_back(std::move(entry));
  drop_oldest();
}

void AuditModule::visit(const std::function<bool(const Entry& entry)>& visit) const {
  for (auto entry = entries_.rbegin(); entry != entries_.rend() && visit(*entry); ++entry) {
  }
}

void AuditModule::drop_oldest() {
  for (; entries_.size() > entries_max_; entries_.pop_front())
    context_.journal(kAuditTable, key_of(entries_.front().number), std::nullopt);
}

void AuditModule::check_invariants() const {
  const auto later = [](const Entry& a, const Entry& b) { return a.number >= b.number; };
  VOLADOR_CHECK(std::adjacent_find(entries_.begin(), entries_.end(), later) == entries_.end(),
                "entries of the audit log are out of order");
  VOLADOR_CHECK(entries_.empty() || entries_.back().number == last_, std::to_string(last_));
}

}  // namespace volador::head
