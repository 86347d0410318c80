// The default store: one SQLite file in WAL mode. Rows carry a checksum, so that damage is reported and never read as
// data. A batch is one transaction: a file truncated anywhere in its write-ahead log opens at the last complete batch
// before the cut.
#pragma once

#include <filesystem>
#include <memory>

#include "head/journal/journal.h"

namespace volador::head {

enum class Durability : uint8_t {
  kProcess,  // Survives the death of any process (synchronous=NORMAL); a power failure may lose the last moments.
  kPower,    // Also survives a power failure (synchronous=FULL): one disk flush per batch.
};

struct SqliteJournalOptions {
  std::filesystem::path file;  // The caller has created and locked its folder (DirectoryLock).
  Durability durability = Durability::kProcess;
};

// kInternal: the file is damaged or has another format; the message names it and what to do.
// kUnavailable: it cannot be opened or written (permissions, no space).
[[nodiscard]] Result<std::unique_ptr<Journal>> open_sqlite_journal(const SqliteJournalOptions& options);

}  // namespace volador::head
