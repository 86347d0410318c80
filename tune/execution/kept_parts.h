// Parts of checkpoints that still lie in object stores, as long as there is room: a trial that restores one takes it from where it lies,
// often its own node, and trials that restore the same one share it. One thread.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/actor/ref.h"
#include "runtime/files/directory_parts.h"

namespace volador::tune {

// One of them, as pieces in a row. Holds their references.
struct KeptPart {
  DirectoryPart part;
  std::vector<AnyRef> pieces;  // All but the last one of kStoredPieceBytes.

  // Those from `offset` on, where one begins, at most so many.
  std::vector<AnyRef> from(int64_t offset, size_t most) const;
};

class KeptParts {
 public:
  explicit KeptParts(int64_t bytes_max) : bytes_max_(bytes_max) {}

  // The one that was used least lately goes first where there are too many bytes. One that is there already is replaced.
  std::shared_ptr<KeptPart> add(const DirectoryPart& part, std::vector<AnyRef> pieces);
  std::shared_ptr<KeptPart> find(const std::string& sha256);  // Null: there is none.
  void drop(const std::string& sha256);
  void clear();
  int64_t bytes() const { return bytes_; }

 private:
  const int64_t bytes_max_;
  int64_t bytes_ = 0;
  std::list<std::shared_ptr<KeptPart>> parts_;  // Used last first.
  std::unordered_map<std::string, std::list<std::shared_ptr<KeptPart>>::iterator> by_checksum_;
};

}  // namespace volador::tune
