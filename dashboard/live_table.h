// Rows of one kind, and for any number of readers what changed since each of them last looked.
// Pure: no clock, thread or I/O. One thread.
//
// Every change gets a number; a row stands where its last change is, so a reader that comes seldom gets each row once, in its newest form,
// and costs nothing between its visits but its cursor.
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
  static constexpr size_t kDeletesKept = 10'000;  // A reader that missed more begins anew.

  struct Row {
    std::string group;  // What readers filter by.
    std::string text;   // JSON.
    uint64_t seq = 0;
  };

  // Numbers grow from call to call. False: the row stands so already.
  bool upsert(const std::string& id, std::string_view group, std::string text, uint64_t seq);
  // False: there was none.
  bool erase(const std::string& id, uint64_t seq);
  // Readers keep the row: it made room only.
  void forget(const std::string& id);
  void erase_group(std::string_view group, uint64_t seq);

  const std::map<std::string, Row>& rows() const { return rows_; }
  // Rows in the order of their last change, oldest first.
  const std::map<uint64_t, const std::string*>& order() const { return order_; }

  struct Cursor {
    uint64_t rows = 0;     // 0: has nothing.
    uint64_t deletes = 0;
    bool begun = false;
    bool snapshot = false;  // In the middle of one.
  };
  struct Batch {
    bool snapshot = false;  // A part of what replaces all that the reader has; the last one has no `more`.
    bool more = false;      // Something is left for the next one.
    std::vector<std::string_view> upserts;  // Texts; valid until the table changes.
    std::vector<std::string> deletes;
    bool empty() const { return !snapshot && upserts.empty() && deletes.empty(); }
  };
  // Which groups a reader wants; null: all.
  using Wanted = std::function<bool(std::string_view group)>;
  // What the reader has not seen, up to about bytes_max, and moves its cursor.
  Batch read(Cursor& cursor, const Wanted& wanted, size_t bytes_max) const;
  // The cursor of a reader that has seen everything up to this change; none: what happened since is not known any more.
  std::optional<Cursor> after(uint64_t seq) const {
    if (seq < forgotten_) return std::nullopt;
    return Cursor{.rows = seq, .deletes = seq, .begun = true};
  }
  // The cursor of a reader that wants only what comes from now on.
  Cursor now() const { return {.rows = last_, .deletes = last_, .begun = true}; }
  bool has_news(const Cursor& cursor) const;

 private:
  struct Delete {
    uint64_t seq;
    std::string id;
    std::string group;
  };

  std::map<std::string, Row> rows_;
  std::map<uint64_t, const std::string*> order_;  // Keys of rows_.
  std::deque<Delete> deletes_;
  uint64_t last_ = 0;       // Change.
  uint64_t forgotten_ = 0;  // Newest delete that is not kept any more.
};

}  // namespace volador::dashboard
