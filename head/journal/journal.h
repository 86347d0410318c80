// What the head must not forget, as rows of small tables: an interface with one contract (tests/contract) and several stores.
// A mutation sets or removes one row, so a batch whose outcome is unknown may simply be committed again.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "runtime/result.h"

namespace volador::head {

struct Mutation {
  std::string table;                 // Lower-case letters and '_', at most 32: "actors", "nodes", "tokens".
  std::string key;                   // Any bytes, 1 to 1024.
  std::optional<std::string> value;  // Any bytes, at most kJournalValueBytesMax; nullopt removes the row.

  bool operator==(const Mutation&) const = default;
};

// A value beyond this is refused: an actor's arguments (16 MiB) and what describes it fit.
inline constexpr size_t kJournalValueBytesMax = size_t{32} << 20;

// One opener at a time: opening a store either shuts out the older one (Redis) or is refused (SQLite). One thread.
class Journal {
 public:
  using Visit = std::function<void(std::string_view table, std::string_view key, std::string_view value)>;

  virtual ~Journal() = default;

  // Visits each row once, in no particular order. The visitor does not call the journal.
  // kInternal: the store is damaged; the message names the file or server and the row.
  [[nodiscard]] virtual Result<void> load(const Visit& visit) = 0;

  // All of the batch or nothing; later mutations of one row win. Durable when it returns, as far as the store was told to go.
  // kUnavailable: not known to be stored (no space, server gone); commit the same batch again, before any other.
  // kPermissionDenied: another head has opened the store since, or it lost what was committed: this head must end.
  // kInvalidArgument: a name, key or value breaks the rules above; nothing was stored.
  [[nodiscard]] virtual Result<void> commit(std::span<const Mutation> batch) = 0;

  // Grows with each opening of the store, from 1.
  virtual uint64_t generation() const = 0;

  // "sqlite /path/journal.db", "redis 10.0.0.1:6379/0": for messages; never a password.
  virtual std::string description() const = 0;
};

// kInvalidArgument where a mutation breaks the rules of the struct; the message names the table.
[[nodiscard]] Result<void> check_mutations(std::span<const Mutation> batch);

}  // namespace volador::head
