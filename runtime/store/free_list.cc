#include "runtime/store/free_list.h"

#include <algorithm>

#include "runtime/result.h"

namespace volador {

FreeList::FreeList(size_t bytes) : bytes_(bytes) { add_hole(0, bytes); }

std::optional<size_t> FreeList::allocate(size_t bytes) {
  const size_t wanted = (std::max<size_t>(bytes, 1) + kAlignment - 1) / kAlignment * kAlignment;
  const auto fit = by_size_.lower_bound({wanted, 0});
  if (fit == by_size_.end()) return std::nullopt;
  const auto [size, offset] = *fit;
  remove_hole(holes_.find(offset));
  if (size > wanted) add_hole(offset + wanted, size - wanted);
  allocations_.emplace(offset, wanted);
  used_ += wanted;
  return offset;
}

void FreeList::free(size_t offset) {
  const auto found = allocations_.find(offset);
  VOLADOR_CHECK(found != allocations_.end(), "only what was allocated can be freed");
  size_t begin = offset;
  size_t size = found->second;
  used_ -= size;
  allocations_.erase(found);
  const auto after = holes_.find(begin + size);
  if (after != holes_.end()) {
    size += after->second;
    remove_hole(after);
  }
  if (const auto next = holes_.lower_bound(begin); next != holes_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == begin) {
      begin = before->first;
      size += before->second;
      remove_hole(before);
    }
  }
  add_hole(begin, size);
}

void FreeList::add_hole(size_t offset, size_t bytes) {
  if (bytes == 0) return;
  holes_.emplace(offset, bytes);
  by_size_.emplace(bytes, offset);
}

void FreeList::remove_hole(std::map<size_t, size_t>::iterator hole) {
  by_size_.erase({hole->second, hole->first});
  holes_.erase(hole);
}

void FreeList::check_invariants() const {
  size_t free = 0;
  std::optional<size_t> end;
  for (const auto& [offset, size] : holes_) {
    VOLADOR_CHECK(!end || offset > *end, "holes neither overlap nor touch");
    VOLADOR_CHECK(by_size_.contains({size, offset}), "both indices have the hole");
    end = offset + size;
    free += size;
  }
  VOLADOR_CHECK(by_size_.size() == holes_.size(), "both indices have the same holes");
  VOLADOR_CHECK(!end || *end <= bytes_, "holes lie inside");
  VOLADOR_CHECK(free + used_ == bytes_, "what is not free is used");
}

}  // namespace volador
