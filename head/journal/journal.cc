#include "head/journal/journal.h"

#include <fmt/format.h>

#include "runtime/quantities.h"

namespace volador::head {
namespace {

constexpr size_t kTableBytesMax = 32;
constexpr size_t kKeyBytesMax = 1024;

bool is_table_name(std::string_view name) {
  if (name.empty() || name.size() > kTableBytesMax) return false;
  for (char c : name) {
    if ((c < 'a' || c > 'z') && c != '_') return false;
  }
  return true;
}

}  // namespace

Result<void> check_mutations(std::span<const Mutation> batch) {
  for (const Mutation& mutation : batch) {
    if (!is_table_name(mutation.table)) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("journal table \"{}\": expected 1 to {} lower-case letters or '_'", mutation.table,
                                    kTableBytesMax));
    }
    if (mutation.key.empty() || mutation.key.size() > kKeyBytesMax) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("journal table {}: a key of {}; expected 1 to {}", mutation.table,
                                    counted(mutation.key.size(), "byte"), kKeyBytesMax));
    }
    if (mutation.value && mutation.value->size() > kJournalValueBytesMax) {
      return make_error(ErrorCode::kInvalidArgument,
                        fmt::format("journal table {}: a value of {} bytes; at most {} fit", mutation.table,
                                    mutation.value->size(), kJournalValueBytesMax));
    }
  }
  return {};
}

}  // namespace volador::head
