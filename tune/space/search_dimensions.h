// A search space as models use it: a point has one coordinate in [0, 1) for each value that may be drawn, distributed
// uniformly when the space draws it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "runtime/random.h"
#include "runtime/result.h"
#include "tune/space/space.h"

namespace volador::tune {

using Point = std::vector<double>;
inline constexpr double kInactive = -1;  // The coordinate of a value below an option that the point does not select.

class SearchDimensions {
 public:
  enum class Kind : uint8_t {
    kContinuous,
    kOrdered,      // One of `cells` ordered values: integers and quantised reals.
    kCategorical,  // One of `cells` options.
  };
  struct Dimension {
    std::string key;  // As in Space::draw_keys.
    const Domain* domain = nullptr;
    Kind kind = Kind::kContinuous;
    uint64_t cells = 0;            // 0 for kContinuous.
    std::optional<size_t> parent;  // The choice that this value depends on; it is drawn only if the choice takes
                                   // `option`.
    uint64_t option = 0;
  };
  struct Cell {
    double low = 0, high = 1;
  };

  // The dimensions of the values drawn at this grid point; the space must have passed validate().
  SearchDimensions(const Space& space, int64_t grid_point);
  // Not copyable: dimensions point into the space stored here.
  SearchDimensions(const SearchDimensions&) = delete;
  SearchDimensions& operator=(const SearchDimensions&) = delete;

  size_t size() const { return all_.size(); }
  const Dimension& operator[](size_t dimension) const { return all_[dimension]; }

  bool is_active(size_t dimension, const Point& point) const;
  // Sets inactive coordinates to kInactive and moves coordinates with cells to the middle of their cell, so that equal
  // configurations have equal points. Accepts any numbers.
  Point settled(Point point) const;
  Point random_point(Random& random) const;

  // Maps a coordinate to its cell, and a cell to its interval or middle. Where numbers are rounded, the first and the
  // last cell are as wide as the others and therefore extend beyond [0, 1]: coordinates are drawn from their inner
  // halves only.
  uint64_t cell_of(size_t dimension, double coordinate) const;
  Cell cell(size_t dimension, uint64_t index) const;
  double middle(size_t dimension, uint64_t index) const;
  // From the lower end of the first cell to the upper end of the last; [0, 1] without cells.
  Cell range(size_t dimension) const;

  // `draw` seeds the randomness of sample_from functions.
  [[nodiscard]] Result<Config> config(const Space::Draw& draw, const Point& settled) const;
  // No value: `config` does not belong to this space and grid point.
  std::optional<Point> point_of(const Config& config) const;

  // The number of configurations; no value: the space is continuous or has more than 2^62.
  std::optional<uint64_t> count() const { return count_; }
  bool is_discrete() const { return discrete_; }
  // The number of a settled point, below count(), and the inverse. Without count(), number() is a hash of the point.
  uint64_t number(const Point& settled) const;
  Point numbered(uint64_t number) const;

  // The point as 16 hexadecimal digits per coordinate, and the inverse; no value if the text is not a settled point.
  static std::string to_text(const Point& point);
  std::optional<Point> from_text(std::string_view text) const;
  // Parses any finite numbers in the same form.
  static std::optional<std::vector<double>> reals_from_text(std::string_view text);

 private:
  // The dimensions that are drawn together: the whole space, or one option of a choice.
  struct Group {
    std::vector<size_t> dimensions;
    double count = 1;
  };
  struct Scale {  // The mapping of cells to coordinates; see the .cc file.
    bool log = false, rounded = false;
    double first = 0;
  };
  void add(const Space::DrawKey& drawn);
  static void order(double cells, const Scale& scale, Dimension& dimension);
  bool below_another_option_of_the_grid(const std::string& key) const;
  void count_up();
  uint64_t number(const Group& group, const Point& point) const;
  void unnumber(const Group& group, uint64_t number, Point& point) const;
  bool read(const std::string& key, const SpaceNode& node, const Config& value, Point& point) const;
  bool read(const std::string& key, const Domain& domain, const Config& value, Point& point) const;

  const Space space_;
  const int64_t grid_point_;
  std::unordered_map<std::string, uint64_t> grid_digits_;
  std::vector<Dimension> all_;
  std::vector<Scale> scales_;
  std::unordered_map<std::string, size_t> by_key_;
  Group root_;
  std::vector<std::vector<Group>> options_;  // By dimension; empty except for choices.
  std::optional<uint64_t> count_;
  bool discrete_ = true;
};

// Returns the z below which a standard normal deviate lies with probability p in (0, 1).
double normal_quantile(double p);

}  // namespace volador::tune
