// Rows of one kind; any number of readers get the changes since their last read.
// Pure: no clock, thread or I/O. One thread.
//
// Every change gets a number, and a row is ordered by its last change. So a slow reader gets each row once, in its
// newest form, and costs only its cursor between reads.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace volador::dashboard {

class LiveTable {
 public:
  static constexpr size_t kDeletesKept = 10'000;  // A reader that missed more deletes starts over.

  struct Row {
    std::string group;  // The group by which readers filter.
    std::string text;   // JSON.
    uint64_t seq = 0;
  };

  // Sequence numbers must grow from call to call. Returns false if the row is unchanged.
  bool upsert(const std::string& id, std::string_view group, std::string text, uint64_t seq);
  // Returns false if there was no such row.
  bool erase(const std::string& id, uint64_t seq);
  // Removes the row without a delete for readers: it only made room.
  void forget(const std::string& id);
  void erase_group(std::string_view group, uint64_t seq);

  const std::map<std::string, Row>& rows() const { return rows_; }
  // Rows by last change, oldest first.
  const std::map<uint64_t, const std::string*>& order() const { return order_; }

  struct Cursor {
    uint64_t rows = 0;  // 0: has read nothing.
    uint64_t deletes = 0;
    bool begun = false;
    bool snapshot = false;  // A snapshot is in progress.
  };
  struct Batch {
    // Part of a snapshot that replaces everything the reader has; the last part has `more` unset.
    bool snapshot = false;
    bool more = false;                      // The next batch contains more.
    std::vector<std::string_view> upserts;  // Texts; valid until the table changes.
    std::vector<std::string> deletes;
    bool empty() const { return !snapshot && upserts.empty() && deletes.empty(); }
  };
  // The groups that a reader wants; null: all.
  using Wanted = std::function<bool(std::string_view group)>;
  // Returns unread changes, up to about bytes_max, and advances the cursor.
  Batch read(Cursor& cursor, const Wanted& wanted, size_t bytes_max) const;
  // The cursor of a reader that has read everything up to this change; nullopt: later deletes are no longer stored.
  std::optional<Cursor> after(uint64_t seq) const {
    if (seq < forgotten_) return std::nullopt;
    return Cursor{.rows = seq, .deletes = seq, .begun = true};
  }
  // The cursor of a reader that only wants future changes.
  Cursor now() const { return {.rows = last_, .deletes = last_, .begun = true}; }
  bool has_news(const Cursor& cursor) const;

 private:
  struct Delete {
    uint64_t seq;
    std::string id;
    std::string group;
  };

  std::map<std::string, Row> rows_;
  std::map<uint64_t, const std::string*> order_;  // Values: keys of rows_.
  std::deque<Delete> deletes_;
  uint64_t last_ = 0;       // Number of the last change.
  uint64_t forgotten_ = 0;  // Newest delete that is no longer stored.
};

}  // namespace volador::dashboard
