// The journal's fake: a store in memory that outlives its openers, with faults to order. One thread.
#pragma once

#include <map>
#include <memory>
#include <utility>

#include "head/journal/journal.h"

namespace volador::head {

// What a disk or server would hold.
struct MemoryStore {
  std::map<std::pair<std::string, std::string>, std::string> rows;
  uint64_t generation = 0;
  size_t commits = 0;               // Batches stored.
  size_t fail_commits = 0;          // So many of the next commits store nothing and answer kUnavailable.
  size_t fail_after_storing = 0;    // So many of the next commits store the batch, yet answer kUnavailable.
};

class MemoryJournal final : public Journal {
 public:
  // Shuts out the opener before.
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
