// The default store: one SQLite file in WAL mode. A row carries a check sum, so that damage is named and never read as data.
// A batch is one transaction: a file cut short anywhere in its write-ahead log opens at the last whole batch before the cut.
#pragma once

#include <filesystem>
#include <memory>

#include "head/journal/journal.h"

namespace volador::head {

enum class Durability : uint8_t {
  kProcess,  // Survives the death of any process (synchronous=NORMAL); a power cut may lose the last moments.
  kPower,    // Survives a power cut too (synchronous=FULL): a disk flush a batch.
};

struct SqliteJournalOptions {
  std::filesystem::path file;  // Its folder exists and is locked by the caller (DirectoryLock).
  Durability durability = Durability::kProcess;
};

// kInternal: the file is damaged or of something else; the message names it and what to do.
// kUnavailable: it cannot be opened or written (rights, no space).
[[nodiscard]] Result<std::unique_ptr<Journal>> open_sqlite_journal(const SqliteJournalOptions& options);

}  // namespace volador::head
