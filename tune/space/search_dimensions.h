// A search space as models see it: a point has a coordinate in [0, 1) for each value that may be drawn, uniform where
// the space draws it.
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
inline constexpr double kInactive = -1;  // The coordinate of a value below an option that the point does not take.

class SearchDimensions {
 public:
  enum class Kind : uint8_t {
    kContinuous,
    kOrdered,      // One of `cells` values in order: integers and quantised reals.
    kCategorical,  // One of `cells` options.
  };
  struct Dimension {
    std::string key;  // As in Space::draw_keys.
    const Domain* domain = nullptr;
    Kind kind = Kind::kContinuous;
    uint64_t cells = 0;            // 0 where kContinuous.
    std::optional<size_t> parent;  // The choice below whose `option` the value is drawn.
    uint64_t option = 0;
  };
  struct Cell {
    double low = 0, high = 1;
  };

  // Of what is drawn at this point of the grid; the space must have passed validate().
  SearchDimensions(const Space& space, int64_t grid_point);
  // Dimensions refer to the space they keep.
  SearchDimensions(const SearchDimensions&) = delete;
  SearchDimensions& operator=(const SearchDimensions&) = delete;

  size_t size() const { return all_.size(); }
  const Dimension& operator[](size_t dimension) const { return all_[dimension]; }

  bool is_active(size_t dimension, const Point& point) const;
  // Inactive coordinates become kInactive; those with cells move to the middle of theirs, so that equal configurations
  // are equal points. Takes any numbers.
  Point settled(Point point) const;
  Point random_point(Random& random) const;

  // The value of a coordinate among `cells`, and the coordinates that give it. Where numbers are rounded, the first and the
  // last cell are as wide as the others and so reach beyond [0, 1]: coordinates are drawn from their inner halves only.
  uint64_t cell_of(size_t dimension, double coordinate) const;
  Cell cell(size_t dimension, uint64_t index) const;
  double middle(size_t dimension, uint64_t index) const;
  // From the first cell's lower end to the last one's upper end; [0, 1] without cells.
  Cell range(size_t dimension) const;

  // `draw` gives sample_from its randomness.
  [[nodiscard]] Result<Config> config(const Space::Draw& draw, const Point& settled) const;
  // No value: not a configuration of this space and grid point.
  std::optional<Point> point_of(const Config& config) const;

  // How many configurations there are; no value: a continuum, or more than 2^62.
  std::optional<uint64_t> count() const { return count_; }
  bool is_discrete() const { return discrete_; }
  // The number of a settled point, below count(), and back. Without count(): a hash that tells points apart.
  uint64_t number(const Point& settled) const;
  Point numbered(uint64_t number) const;

  // The point in 16 hexadecimal digits a coordinate, and back; no value where that is not a settled point.
  static std::string to_text(const Point& point);
  std::optional<Point> from_text(std::string_view text) const;
  // Any finite numbers, in the same form.
  static std::optional<std::vector<double>> reals_from_text(std::string_view text);

 private:
  // What is drawn together: the whole space, or an option of a choice.
  struct Group {
    std::vector<size_t> dimensions;
    double count = 1;
  };
  struct Scale {  // How cells lie; see the .cc file.
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
  std::vector<std::vector<Group>> options_;  // By dimension; empty but for choices.
  std::optional<uint64_t> count_;
  bool discrete_ = true;
};

// The z below which a standard normal deviate lies with probability p in (0, 1).
double normal_quantile(double p);

}  // namespace volador::tune
