#include "dashboard/live_table.h"

namespace volador::dashboard {

bool LiveTable::upsert(const std::string& id, std::string_view group, std::string text, uint64_t seq) {
  auto [found, is_new] = rows_.try_emplace(id);
  Row& row = found->second;
  if (!is_new) {
    if (row.text == text && row.group == group) return false;
    order_.erase(row.seq);
  }
  row.group = group;
  text.shrink_to_fit();  // The text grew piece by piece and is stored for long.
  row.text = std::move(text);
  row.seq = last_ = seq;
  order_[seq] = &found->first;
  return true;
}

bool LiveTable::erase(const std::string& id, uint64_t seq) {
  const auto found = rows_.find(id);
  if (found == rows_.end()) return false;
  last_ = seq;
  deletes_.push_back({seq, id, found->second.group});
  order_.erase(found->second.seq);
  rows_.erase(found);
  if (deletes_.size() > kDeletesKept) {
    forgotten_ = deletes_.front().seq;
    deletes_.pop_front();
  }
  return true;
}

void LiveTable::forget(const std::string& id) {
  const auto found = rows_.find(id);
  if (found == rows_.end()) return;
  order_.erase(found->second.seq);
  rows_.erase(found);
}

void LiveTable::erase_group(std::string_view group, uint64_t seq) {
  std::vector<std::string> ids;
  for (const auto& [id, row] : rows_) {
    if (row.group == group) ids.push_back(id);
  }
  for (const std::string& id : ids) erase(id, seq);
}

bool LiveTable::has_news(const Cursor& cursor) const {
  if (!cursor.begun || cursor.deletes < forgotten_) return true;
  return order_.upper_bound(cursor.rows) != order_.end() || (!deletes_.empty() && deletes_.back().seq > cursor.deletes);
}

LiveTable::Batch LiveTable::read(Cursor& cursor, const Wanted& wanted, size_t bytes_max) const {
  Batch batch;
  if (!cursor.begun || cursor.deletes < forgotten_)
    cursor = {.rows = 0, .deletes = last_, .begun = true, .snapshot = true};
  batch.snapshot = cursor.snapshot;
  size_t bytes = 0;
  // Deletes during a snapshot are reported after it.
  if (!batch.snapshot) {
    auto deleted = deletes_.end();
    while (deleted != deletes_.begin() && std::prev(deleted)->seq > cursor.deletes) --deleted;
    for (; deleted != deletes_.end(); ++deleted) {
      if ((!wanted || wanted(deleted->group)) && !rows_.contains(deleted->id)) batch.deletes.push_back(deleted->id);
      bytes += deleted->id.size();
    }
    cursor.deletes = last_;
  }
  for (auto at = order_.upper_bound(cursor.rows); at != order_.end(); ++at) {
    const Row& row = rows_.at(*at->second);
    if (!wanted || wanted(row.group)) {
      if (bytes >= bytes_max) {
        batch.more = true;
        break;
      }
      batch.upserts.push_back(row.text);
      bytes += row.text.size();
    }
    cursor.rows = at->first;
  }
  if (!batch.more) cursor.snapshot = false;
  return batch;
}

}  // namespace volador::dashboard
