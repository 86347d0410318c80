// Fake journal: an in-memory store that outlives its openers and injects faults. Single-threaded.
#pragma once

#include <map>
#include <memory>
#include <utility>

#include "head/journal/journal.h"

namespace volador::head {

// The content of a disk or server.
struct MemoryStore {
  std::map<std::pair<std::string, std::string>, std::string> rows;
  uint64_t generation = 0;
  size_t commits = 0;             // Batches stored.
  size_t fail_commits = 0;        // Number of next commits that store nothing and return kUnavailable.
  size_t fail_after_storing = 0;  // Number of next commits that store the batch but return kUnavailable.
};

class MemoryJournal final : public Journal {
 public:
  // Fences off the previous opener.
  explicit MemoryJournal(std::shared_ptr<MemoryStore> store);

  Result<void> load(const Visit& visit) override;
  Result<void> commit(std::span<const Mutation> batch) override;
  uint64_t generation() const override { return generation_; }
  std::string description() const override { return "memory"; }

 private:
  std::shared_ptr<MemoryStore> store_;
  uint64_t generation_;
};

}  // namespace volador::head
