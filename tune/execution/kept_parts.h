// Cache of checkpoint parts that are still in object stores: a trial that restores one reads it from there, often from
// its own node, and trials that restore the same part share it. Single-threaded.
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

// A cached part as consecutive pieces; holds references to them.
struct KeptPart {
  DirectoryPart part;
  std::vector<AnyRef> pieces;  // All have kStoredPieceBytes except for the last.

  // Returns up to `most` pieces from `offset`, which must be the start of a piece.
  std::vector<AnyRef> from(int64_t offset, size_t most) const;
};

class KeptParts {
 public:
  explicit KeptParts(int64_t bytes_max) : bytes_max_(bytes_max) {}

  // Adds a part, or replaces it if present; evicts the least recently used parts above bytes_max.
  std::shared_ptr<KeptPart> add(const DirectoryPart& part, std::vector<AnyRef> pieces);
  std::shared_ptr<KeptPart> find(const std::string& sha256);  // Null: not found.
  void drop(const std::string& sha256);
  void clear();
  int64_t bytes() const { return bytes_; }

 private:
  const int64_t bytes_max_;
  int64_t bytes_ = 0;
  std::list<std::shared_ptr<KeptPart>> parts_;  // Most recently used first.
  std::unordered_map<std::string, std::list<std::shared_ptr<KeptPart>>::iterator> by_checksum_;
};

}  // namespace volador::tune
