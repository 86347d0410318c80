// The audit log: requests that change the cluster, with requester and outcome. Journaled; bounded, the oldest entries
// are dropped.
// Pure: no clock, thread, I/O or randomness.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <string_view>

#include "head/kernel/context.h"
#include "head/kernel/module.h"

namespace volador::head {

inline constexpr std::string_view kAuditTable = "audit";  // AuditRecord; key: its number, 8 bytes, highest first.

// A request to record: requester, action and target.
struct AuditRequest {
  std::string by;  // Token id of the requester.
  std::string action;
  std::string object;
};

// Stores the entries and writes them to the journal.
class AuditModule final : public Module {
 public:
  static constexpr size_t kEntriesMax = 10'000;
  // Limit of an action, an object or a message; longer texts are truncated.
  static constexpr size_t kTextBytesMax = 512;

  struct Entry {
    uint64_t number = 0;
    protocol::AuditRecord record;
  };

  explicit AuditModule(Context& context, size_t entries_max = kEntriesMax)
      : context_(context), entries_max_(entries_max) {}

  bool load(std::string_view table, std::string_view key, std::string_view value) override;
  void start() override;
  void check_invariants() const override;

  // `wall_ns`: Unix time.
  void record(int64_t wall_ns, const AuditRequest& request, const Result<void>& outcome);
  // Visits entries from the newest on until `visit` returns false.
  void visit(const std::function<bool(const Entry& entry)>& visit) const;

 private:
  void drop_oldest();

  Context& context_;
  const size_t entries_max_;
  std::deque<Entry> entries_;  // Oldest first.
  uint64_t last_ = 0;
};

}  // namespace volador::head
