// Maps the id of a trial to its position in a list.
#pragma once

#include <cstddef>
#include <cstdint>
#include <ext/pb_ds/assoc_container.hpp>
#include <limits>

#include "tune/loop/trial.h"

namespace volador::tune {

// A flat hash table: a look-up touches one cache line instead of the three of a node-based table. Ids are uniformly
// distributed and serve as their own hashes.
class TrialIndex {
 public:
  static constexpr size_t kNone = std::numeric_limits<size_t>::max();

  // Returns false if the id is already present; its position does not change.
  bool insert(TrialId trial, size_t at) { return table_.insert({trial.value(), static_cast<uint32_t>(at)}).second; }
  size_t find(TrialId trial) const {
    const auto found = table_.find(trial.value());
    return found == table_.end() ? kNone : found->second;
  }
  size_t size() const { return table_.size(); }

 private:
  struct OwnHash {
    size_t operator()(uint32_t value) const { return value; }
  };
  __gnu_pbds::gp_hash_table<uint32_t, uint32_t, OwnHash> table_;
};

}  // namespace volador::tune
