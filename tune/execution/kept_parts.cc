#include "tune/execution/kept_parts.h"

#include <algorithm>
#include <utility>

#include "tune/execution/trial_actor.h"

namespace volador::tune {

std::vector<AnyRef> KeptPart::from(int64_t offset, size_t most) const {
  const size_t first = std::min(static_cast<size_t>(offset / kStoredPieceBytes), pieces.size());
  const size_t count = std::min(most, pieces.size() - first);
  return {pieces.begin() + static_cast<std::ptrdiff_t>(first),
          pieces.begin() + static_cast<std::ptrdiff_t>(first + count)};
}

std::shared_ptr<KeptPart> KeptParts::add(const DirectoryPart& part, std::vector<AnyRef> pieces) {
  drop(part.sha256);
  const auto kept = std::make_shared<KeptPart>(KeptPart{part, std::move(pieces)});
  parts_.push_front(kept);
  by_checksum_[part.sha256] = parts_.begin();
  bytes_ += part.bytes;
  while (bytes_ > bytes_max_) drop(std::string(parts_.back()->part.sha256));
  return kept;
}

std::shared_ptr<KeptPart> KeptParts::find(const std::string& sha256) {
  const auto found = by_checksum_.find(sha256);
  if (found == by_checksum_.end()) return nullptr;
  parts_.splice(parts_.begin(), parts_, found->second);
  return *found->second;
}

void KeptParts::drop(const std::string& sha256) {
  const auto found = by_checksum_.find(sha256);
  if (found == by_checksum_.end()) return;
  bytes_ -= (*found->second)->part.bytes;
  parts_.erase(found->second);
  by_checksum_.erase(found);
}

void KeptParts::clear() {
  parts_.clear();
  by_checksum_.clear();
  bytes_ = 0;
}

}  // namespace volador::tune
