#include "dashboard/live_curves.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "dashboard/json_text.h"

namespace volador::dashboard {
bool LiveCurves::add(const std::string& id, std::string_view group, double x, double y, uint64_t seq) {
  if (std::isnan(x)) return false;
  auto [found, is_new] = lines_.try_emplace(id);
  Line& line = found->second;
  if (!is_new && x <= line.points.back().x()) return false;
  if (is_new) {
    line.group = group;
  } else {
    order_.erase(line.seq);
  }
  // Grows by a quarter instead of doubling: most lines are short, and there are many.
  if (line.points.size() == line.points.capacity())
    line.points.reserve(line.points.size() + std::max<size_t>(4, line.points.size() / 4));
  line.points.emplace_back(x, y);
  ++points_;
  line.seq = seq;
  order_[seq] = &found->first;
  if (line.points.size() > points_max_) shorten(line);
  return true;
}

void LiveCurves::shorten(Line& line) {
  const size_t before = line.points.size();
  if (at_limit_ == AtLimit::kForgetOldest) {
    const size_t gone = std::min(before, before - points_max_ + points_max_ / 8);
    line.points.erase(line.points.begin(), line.points.begin() + static_cast<std::ptrdiff_t>(gone));
  } else {
    while (line.points.size() > points_max_ && line.points.size() > 4) {
      const size_t half = line.points.size() / 2;
      size_t kept = 1;  // Keep the first point.
      for (size_t at = 2; at < line.points.size(); ++at) {
        if (at >= half || at % 2 == 0) line.points[kept++] = line.points[at];
      }
      line.points.erase(line.points.begin() + static_cast<std::ptrdiff_t>(kept), line.points.end());
    }
  }
  points_ -= before - line.points.size();
}

void LiveCurves::set_points_max(size_t points_max) {
  points_max_ = points_max;
  for (auto& [id, line] : lines_) {
    if (line.points.size() > points_max_) shorten(line);
  }
}

void LiveCurves::erase(const std::string& id) {
  const auto found = lines_.find(id);
  if (found == lines_.end()) return;
  order_.erase(found->second.seq);
  points_ -= found->second.points.size();
  lines_.erase(found);
}

// Sends each line once in full, by name; later additions follow as deltas.
void LiveCurves::read_snapshot(Cursor& cursor, std::string_view group, size_t bytes_max, Batch& batch) const {
  batch.snapshot = true;
  size_t bytes = 0;
  auto at = cursor.snapshot->empty() ? lines_.begin() : lines_.upper_bound(*cursor.snapshot);
  for (; at != lines_.end() && bytes < bytes_max; ++at) {
    const auto& [id, line] = *at;
    cursor.snapshot = id;
    if ((!group.empty() && line.group != group) || !cursor.wants(id)) continue;
    batch.upserts.push_back(line_text(id, line, kAll));
    bytes += batch.upserts.back().size();
    cursor.sent[id] = line.points.back().x();
  }
  batch.more = at != lines_.end();
  if (!batch.more) cursor.snapshot.reset();
}

void LiveCurves::Cursor::want(std::optional<std::set<std::string>> ids) {
  const auto before = std::exchange(wanted, std::move(ids));
  if (!begun) return;
  for (auto at = sent.begin(); at != sent.end();) {
    if (wants(at->first)) {
      ++at;
    } else {
      gone.push_back(at->first);
      at = sent.erase(at);
    }
  }
  std::erase_if(due, [this](const std::string& id) { return !wants(id); });
  // Without a list any line may be missing: start over.
  if (before && !wanted) {
    begun = false;
    snapshot.reset();
    sent.clear();
    gone.clear();
    due.clear();
  }
  if (!before || !wanted) return;
  for (const std::string& id : *wanted) {
    // A running snapshot will reach later ids.
    if (!sent.contains(id) && (!snapshot || id <= *snapshot)) due.insert(id);
  }
}

void LiveCurves::read_due(Cursor& cursor, std::string_view group, size_t bytes_max, Batch& batch) const {
  size_t bytes = 0;
  while (!cursor.due.empty() && bytes < bytes_max) {
    const auto first = cursor.due.begin();
    const auto found = lines_.find(*first);
    if (found != lines_.end() && (group.empty() || found->second.group == group)) {
      batch.upserts.push_back(line_text(found->first, found->second, kAll));
      bytes += batch.upserts.back().size();
      cursor.sent[found->first] = found->second.points.back().x();
    }
    cursor.due.erase(first);
  }
  batch.more = !cursor.due.empty();
}

LiveCurves::Batch LiveCurves::read(Cursor& cursor, std::string_view group, size_t bytes_max) const {
  Batch batch;
  if (!std::exchange(cursor.begun, true)) {
    cursor.seq = order_.empty() ? 0 : order_.rbegin()->first;
    cursor.snapshot = "";
  }
  if (cursor.snapshot) {
    read_snapshot(cursor, group, bytes_max, batch);
    return batch;
  }
  // Deletes go first and alone: readers apply upserts before deletes, and a line may reappear.
  if (!cursor.gone.empty()) {
    batch.deletes = std::exchange(cursor.gone, {});
    batch.more = has_news(cursor);
    return batch;
  }
  if (!cursor.due.empty()) {
    read_due(cursor, group, bytes_max, batch);
    if (!batch.empty()) return batch;
  }
  size_t bytes = 0;
  for (auto at = order_.upper_bound(cursor.seq); at != order_.end(); ++at) {
    const Line& line = lines_.at(*at->second);
    if (!cursor.wants(*at->second)) {
      cursor.seq = at->first;
      continue;
    }
    const double end = line.points.back().x();
    double& sent = cursor.sent.try_emplace(*at->second, kAll).first->second;
    if (sent > end) sent = kAll;  // Another line with the same name.
    if ((group.empty() || line.group == group) && sent < end) {
      if (bytes >= bytes_max) {
        batch.more = true;
        break;
      }
      batch.upserts.push_back(line_text(*at->second, line, sent));
      bytes += batch.upserts.back().size();
      sent = end;
    }
    cursor.seq = at->first;
  }
  return batch;
}

std::string line_text(const std::string& id, const LiveCurves::Line& line, double after, size_t points_max,
                      std::string_view id_name) {
  const auto first = std::upper_bound(line.points.begin(), line.points.end(), after,
                                      [](double x, const LiveCurves::Point& point) { return x < point.x(); });
  const auto count = static_cast<size_t>(line.points.end() - first);
  const size_t stride = points_max == 0 || count <= points_max ? 1 : (count + points_max - 1) / points_max;
  std::string x = "[", y = "[";
  for (size_t at = 0; at < count; at += stride) {
    const LiveCurves::Point& point = *(first + static_cast<std::ptrdiff_t>(std::min(at, count - 1)));
    if (at > 0) x += ',', y += ',';
    append_json_number(x, point.x());
    append_json_number(y, point.y());
  }
  std::string text;
  JsonObject object(text);
  object.text(id_name, id);
  object.raw("x", x + "]");
  object.raw("y", y + "]");
  object.end();
  return text;
}

}  // namespace volador::dashboard
