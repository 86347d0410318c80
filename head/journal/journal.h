// Durable state of the head as rows of small tables: one interface and contract (tests/contract) with several stores. A
// mutation sets or removes one row, so a batch with an unknown outcome may simply be committed again.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "runtime/result.h"

namespace volador::head {

// Sets or removes one row of a table.
struct Mutation {
  std::string table;                 // Lower-case letters and '_', at most 32: "actors", "nodes", "tokens".
  std::string key;                   // Any bytes, 1 to 1024.
  std::optional<std::string> value;  // Any bytes, at most kJournalValueBytesMax; nullopt removes the row.

  bool operator==(const Mutation&) const = default;
};

// Larger values are refused. Fits an actor's arguments (16 MiB) and its description.
inline constexpr size_t kJournalValueBytesMax = size_t{32} << 20;

// Single opener: opening a store either fences off the older opener (Redis) or is refused (SQLite). Single-threaded.
class Journal {
 public:
  using Visit = std::function<void(std::string_view table, std::string_view key, std::string_view value)>;

  virtual ~Journal() = default;

  // Visits each row once, in no particular order. The visitor must not call the journal.
  // kInternal: the store is damaged; the message names the file or server and the row.
  [[nodiscard]] virtual Result<void> load(const Visit& visit) = 0;

  // Atomic; later mutations of the same row win. Durable on return, to the configured degree.
  // kUnavailable: possibly not stored (no space, server gone); commit the same batch again, before any other.
  // kPermissionDenied: another head has opened the store since, or the store lost committed data: this head must end.
  // kInvalidArgument: a name, key or value breaks the rules above; nothing was stored.
  [[nodiscard]] virtual Result<void> commit(std::span<const Mutation> batch) = 0;

  // Grows with each opening of the store; starts at 1.
  virtual uint64_t generation() const = 0;

  // "sqlite /path/journal.db", "redis 10.0.0.1:6379/0", for messages; never contains a password.
  virtual std::string description() const = 0;
};

// kInvalidArgument: a mutation breaks the rules of the struct; the message names the table.
[[nodiscard]] Result<void> check_mutations(std::span<const Mutation> batch);

}  // namespace volador::head
