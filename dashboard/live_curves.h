// Append-only lines: learning curves of one metric, or the last minutes of a measure. Readers get every line once in
// full and then only additions. Bounded; pure: no clock, thread or I/O. Single-threaded.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace volador::dashboard {

class LiveCurves {
 public:
  enum class AtLimit : uint8_t {
    kThin,  // Drops every second point of the older half.
    kForgetOldest,
  };
  LiveCurves(size_t points_max, AtLimit at_limit) : points_max_(points_max), at_limit_(at_limit) {}

  // Twelve bytes, since there may be millions of points.
  class Point {
   public:
    Point(double x, double y) : x_(std::bit_cast<Halves>(x)), y_(static_cast<float>(y)) {}
    double x() const { return std::bit_cast<double>(x_); }
    float y() const { return y_; }

   private:
    using Halves = std::array<uint32_t, 2>;
    Halves x_;
    float y_;
  };
  static constexpr double kAll = -std::numeric_limits<double>::infinity();  // An x before all points.
  struct Line {
    std::string group;
    std::vector<Point> points;  // By growing x; at least one.
    uint64_t seq = 0;
  };

  // Points of a line must have growing x; others are dropped, since a trial that resumed from a checkpoint repeats
  // steps.
  bool add(const std::string& id, std::string_view group, double x, double y, uint64_t seq);
  void erase(const std::string& id);
  const std::map<std::string, Line>& lines() const { return lines_; }
  size_t points() const { return points_; }
  // Sets the maximum number of points per line.
  void set_points_max(size_t points_max);

  struct Cursor {
    uint64_t seq = 0;
    bool begun = false;
    std::optional<std::string> snapshot;           // A snapshot is in progress; the last line sent.
    std::unordered_map<std::string, double> sent;  // Last x sent per line.
    std::optional<std::set<std::string>> wanted;   // Ids of the lines that the reader shows; nullopt: all lines.
    std::vector<std::string> gone;                 // Sent before and no longer wanted; reported once as deletes.
    std::set<std::string> due;                     // Wanted since the snapshot; sent in full before other changes.

    // Changes the lines that the reader shows. Lines already sent are not sent again.
    void want(std::optional<std::set<std::string>> ids);
    bool wants(const std::string& id) const { return !wanted || wanted->contains(id); }
  };
  struct Batch {
    // Part of a snapshot that replaces everything the reader has; the last part has `more` unset.
    bool snapshot = false;
    bool more = false;
    std::vector<std::string> upserts;  // {"id":…,"x":[…],"y":[…]}
    std::vector<std::string> deletes;  // Ids; a batch has either upserts or deletes.
    bool empty() const { return !snapshot && upserts.empty() && deletes.empty(); }
  };
  Batch read(Cursor& cursor, std::string_view group, size_t bytes_max) const;
  bool has_news(const Cursor& cursor) const {
    return !cursor.begun || cursor.snapshot || !cursor.gone.empty() || !cursor.due.empty() ||
           order_.upper_bound(cursor.seq) != order_.end();
  }

 private:
  void shorten(Line& line);
  void read_snapshot(Cursor& cursor, std::string_view group, size_t bytes_max, Batch& batch) const;
  void read_due(Cursor& cursor, std::string_view group, size_t bytes_max, Batch& batch) const;

  size_t points_max_;
  AtLimit at_limit_;
  std::map<std::string, Line> lines_;
  std::map<uint64_t, const std::string*> order_;  // Order of the last additions; values: keys of lines_.
  size_t points_ = 0;
};

// {"id":…,"x":[…],"y":[…]} with the points after x `after`; every n-th if there are more than points_max (0: all).
std::string line_text(const std::string& id, const LiveCurves::Line& line, double after, size_t points_max = 0,
                      std::string_view id_name = "id");

}  // namespace volador::dashboard
