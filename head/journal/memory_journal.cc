#include "head/journal/memory_journal.h"

namespace volador::head {

MemoryJournal::MemoryJournal(std::shared_ptr<MemoryStore> store)
    : store_(std::move(store)), generation_(++store_->generation) {}

Result<void> MemoryJournal::load(const Visit& visit) {
  for (const auto& [name, value] : store_->rows) visit(name.first, name.second, value);
  return {};
}

Result<void> MemoryJournal::commit(std::span<const Mutation> batch) {
  VOLADOR_TRY(check_mutations(batch));
  if (store_->generation != generation_)
    return make_error(ErrorCode::kPermissionDenied, "memory: opened by another head since");
  if (store_->fail_commits > 0) {
    --store_->fail_commits;
    return make_error(ErrorCode::kUnavailable, "memory: told to fail");
  }
  for (const Mutation& mutation : batch) {
    auto name = std::pair(mutation.table, mutation.key);
    if (mutation.value) {
      store_->rows[std::move(name)] = *mutation.value;
    } else {
      store_->rows.erase(name);
    }
  }
  ++store_->commits;
  if (store_->fail_after_storing > 0) {
    --store_->fail_after_storing;
    return make_error(ErrorCode::kUnavailable, "memory: told to fail after storing");
  }
  return {};
}

}  // namespace volador::head
