#include "tune/space/search_dimensions.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <numbers>

#include "tune/space/drawing.h"

namespace volador::tune {
namespace {

constexpr double kCountMax = 0x1.0p62;

uint64_t bits_of(double unit) { return static_cast<uint64_t>(unit * 0x1.0p53) << 11; }

// Random source that returns the coordinate first and random numbers after that. A normal deviate takes a radius and an
// angle; here the angle is one of two values.
class CoordinateRandom final : public Random {
 public:
  CoordinateRandom(double coordinate, bool normal, uint64_t seed) : rest_(seed) {
    first_[0] = coordinate;
    if (!normal) return;
    const double z = normal_quantile(std::clamp(coordinate, 0x1.0p-53, kBelowOne));
    first_[0] = std::min(-std::expm1(-z * z / 2), kBelowOne);
    first_[1] = z < 0 ? 0.5 : 0;
    count_ = 2;
  }
  uint64_t next() override { return given_ < count_ ? bits_of(first_[given_++]) : rest_.next(); }

 private:
  double first_[2] = {0, 0};
  int count_ = 1, given_ = 0;
  SeededRandom rest_;
};

std::map<std::string, uint64_t> grid_sizes(const Space& space) {
  std::map<std::string, uint64_t> sizes;
  for (const Space::Variable& variable : space.variables()) {
    if (const auto* grid = std::get_if<GridDomain>(variable.domain)) sizes[variable.path] = grid->options.size();
  }
  return sizes;
}

}  // namespace

double normal_quantile(double p) {
  // Abramowitz and Stegun 26.2.23, then two steps of Halley's method, each of which triples the number of digits.
  const double tail = std::min(p, 1 - p);
  const double t = std::sqrt(-2 * std::log(tail));
  double z = t - (2.515517 + t * (0.802853 + t * 0.010328)) / (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
  for (int i = 0; i < 2; ++i) {
    const double density = std::exp(-z * z / 2) / std::sqrt(2 * std::numbers::pi);
    const double step = (std::erfc(z / std::numbers::sqrt2) / 2 - tail) / density;
    z += step / (1 - z * step / 2);
  }
  return p < 0.5 ? -z : z;
}

SearchDimensions::SearchDimensions(const Space& space, int64_t grid_point) : space_(space), grid_point_(grid_point) {
  int64_t rest = grid_point;
  for (const auto& [path, options] : grid_sizes(space_)) {
    grid_digits_[path] = static_cast<uint64_t>(rest) % options;
    rest /= static_cast<int64_t>(options);
  }
  for (const Space::DrawKey& drawn : space_.draw_keys()) add(drawn);
  count_up();
}

// If doubles cannot distinguish the cells, the dimension is treated as continuous.
void SearchDimensions::order(double cells, const Scale& scale, Dimension& dimension) {
  if (scale.log ? scale.first + cells > 0x1.0p40 : cells > 0x1.0p50) return;
  dimension.kind = Kind::kOrdered;
  dimension.cells = static_cast<uint64_t>(cells);
}

bool SearchDimensions::below_another_option_of_the_grid(const std::string& key) const {
  const size_t mark = key.find('#');
  const auto grid = grid_digits_.find(key.substr(0, mark));
  if (mark == std::string::npos || grid == grid_digits_.end()) return false;
  uint64_t option = 0;
  (void)std::from_chars(key.data() + mark + 1, key.data() + key.size(), option);
  return option != grid->second;
}

// Cells of [0, 1), as Space draws from them: of equal width, or for rounded numbers with half-width first and last
// cells, on the scale of the values or of their logarithms.
void SearchDimensions::add(const Space::DrawKey& drawn) {
  Dimension dimension{.key = drawn.key, .domain = drawn.domain};
  Scale scale;
  const size_t mark = drawn.key.rfind('#');
  if (mark != std::string::npos) {
    const std::string above = drawn.key.substr(0, mark);
    (void)std::from_chars(drawn.key.data() + mark + 1, drawn.key.data() + drawn.key.size(), dimension.option);
    if (below_another_option_of_the_grid(drawn.key)) return;
    if (const auto choice = by_key_.find(above); choice != by_key_.end()) dimension.parent = choice->second;
  }
  if (const auto* choice = std::get_if<ChoiceDomain>(drawn.domain)) {
    dimension.kind = Kind::kCategorical;
    dimension.cells = choice->options.size();
  } else if (const auto* integer = std::get_if<IntegerDomain>(drawn.domain)) {
    const int64_t q = integer->q.value_or(1);
    const int64_t first = integer->q ? ceil_divide(integer->low, q) : integer->low;
    const int64_t last = integer->q ? floor_divide(integer->high, q) : integer->high - 1;
    const double cells = static_cast<double>(last) - static_cast<double>(first) + 1;
    scale = {.log = integer->log, .rounded = integer->log && q != 1, .first = static_cast<double>(first)};
    order(cells, scale, dimension);
  } else if (const auto* real = std::get_if<RealDomain>(drawn.domain); real != nullptr && real->q) {
    const double first = std::round(real->low / *real->q);
    const double cells = std::round(real->high / *real->q) - first + 1;
    scale = {.log = real->log, .rounded = true, .first = first};
    order(cells, scale, dimension);
  }
  by_key_[drawn.key] = all_.size();
  all_.push_back(std::move(dimension));
  scales_.push_back(scale);
}

void SearchDimensions::count_up() {
  options_.resize(all_.size());
  for (size_t i = 0; i < all_.size(); ++i) {
    const Dimension& dimension = all_[i];
    if (dimension.kind == Kind::kCategorical) options_[i].resize(dimension.cells);
    discrete_ = discrete_ && dimension.kind != Kind::kContinuous;
    Group& group = dimension.parent ? options_[*dimension.parent][dimension.option] : root_;
    group.dimensions.push_back(i);
  }
  // Options come after their choice, so that iterating backwards has their counts when it reaches the choice.
  std::vector<double> own(all_.size(), 1);
  const auto fill = [&](Group& group) {
    for (const size_t i : group.dimensions) group.count *= own[i];
  };
  for (size_t i = all_.size(); i-- > 0;) {
    const Dimension& dimension = all_[i];
    own[i] = dimension.kind == Kind::kOrdered ? static_cast<double>(dimension.cells) : 0;
    for (Group& option : options_[i]) {
      fill(option);
      own[i] += option.count;
    }
  }
  fill(root_);
  if (discrete_ && root_.count <= kCountMax) count_ = static_cast<uint64_t>(root_.count);
}

bool SearchDimensions::is_active(size_t dimension, const Point& point) const {
  const Dimension& one = all_[dimension];
  if (!one.parent) return true;
  const double above = point[*one.parent];
  return above != kInactive && cell_of(*one.parent, above) == one.option;
}

Point SearchDimensions::settled(Point point) const {
  point.resize(all_.size(), 0);
  for (size_t i = 0; i < all_.size(); ++i) {
    if (!is_active(i, point)) {
      point[i] = kInactive;
      continue;
    }
    const double inside = point[i] >= 0 ? std::min(point[i], kBelowOne) : 0;  // Also for NaN.
    point[i] = all_[i].cells > 0 ? middle(i, cell_of(i, inside)) : inside;
  }
  return point;
}

Point SearchDimensions::random_point(Random& random) const {
  Point point(all_.size());
  for (double& coordinate : point) coordinate = random.real();
  return settled(std::move(point));
}

uint64_t SearchDimensions::cell_of(size_t dimension, double coordinate) const {
  const uint64_t cells = all_[dimension].cells;
  const Scale& scale = scales_[dimension];
  if (cells <= 1) return 0;
  const auto n = static_cast<double>(cells);
  double index = 0;
  if (!scale.log) {
    index = scale.rounded ? std::floor(coordinate * (n - 1) + 0.5) : std::floor(coordinate * n);
  } else {
    const double low = std::log(scale.first);
    const double high = std::log(scale.rounded ? scale.first + n - 1 : scale.first + n);
    const double value = std::exp(low + coordinate * (high - low));
    index = (scale.rounded ? std::round(value) : std::floor(value)) - scale.first;
  }
  return index <= 0 ? 0 : std::min(static_cast<uint64_t>(std::min(index, 0x1.0p63)), cells - 1);
}

SearchDimensions::Cell SearchDimensions::cell(size_t dimension, uint64_t index) const {
  const uint64_t cells = all_[dimension].cells;
  const Scale& scale = scales_[dimension];
  if (cells <= 1) return {};
  const auto n = static_cast<double>(cells);
  const double shift = scale.rounded ? 0.5 : 0;
  const auto edge = [&](double at) {
    if (!scale.log) return (at - shift) / (scale.rounded ? n - 1 : n);
    const double low = std::log(scale.first);
    const double high = std::log(scale.rounded ? scale.first + n - 1 : scale.first + n);
    return (std::log(scale.first + at - shift) - low) / (high - low);
  };
  const auto at = static_cast<double>(index);
  return {edge(at), edge(at + 1)};
}

SearchDimensions::Cell SearchDimensions::range(size_t dimension) const {
  const uint64_t cells = all_[dimension].cells;
  if (cells <= 1) return {};
  return {cell(dimension, 0).low, cell(dimension, cells - 1).high};
}

double SearchDimensions::middle(size_t dimension, uint64_t index) const {
  const uint64_t cells = all_[dimension].cells;
  const Scale& scale = scales_[dimension];
  if (cells <= 1) return 0.5;
  const auto n = static_cast<double>(cells);
  const double at = static_cast<double>(index) + (scale.rounded ? 0 : 0.5);
  double coordinate = 0;
  if (!scale.log) {
    coordinate = at / (scale.rounded ? n - 1 : n);
  } else {
    const double low = std::log(scale.first);
    const double high = std::log(scale.rounded ? scale.first + n - 1 : scale.first + n);
    coordinate = (std::log(scale.first + at) - low) / (high - low);
  }
  return std::clamp(coordinate, 0.0, kBelowOne);
}

Result<Config> SearchDimensions::config(const Space::Draw& draw, const Point& settled) const {
  Space::Draw here = draw;
  here.grid_point = grid_point_;
  return space_.sample(here, [&](const std::string& key) -> std::unique_ptr<Random> {
    const auto found = by_key_.find(key);
    if (found == by_key_.end()) return std::make_unique<SeededRandom>(mixed(draw.seed));
    const bool normal = std::holds_alternative<NormalDomain>(*all_[found->second].domain);
    return std::make_unique<CoordinateRandom>(settled[found->second], normal, mixed(draw.seed ^ found->second));
  });
}

std::optional<Point> SearchDimensions::point_of(const Config& config) const {
  Point point(all_.size(), 0);
  for (const SpaceEntry& entry : space_.entries()) {
    const Config* value = config.find(entry.name);
    if (value == nullptr || !read(entry.name, entry.value, *value, point)) return std::nullopt;
  }
  return settled(std::move(point));
}

bool SearchDimensions::read(const std::string& key, const SpaceNode& node, const Config& value, Point& point) const {
  if (node.constant() != nullptr) return value == *node.constant();
  if (node.map() != nullptr) {
    return value.is_map() && std::all_of(node.map()->begin(), node.map()->end(), [&](const SpaceEntry& entry) {
             const Config* inner = value.find(entry.name);
             return inner != nullptr && read(key + "." + entry.name, entry.value, *inner, point);
           });
  }
  if (node.list() != nullptr) {
    if (!value.is_list() || value.size() != node.list()->size()) return false;
    for (size_t i = 0; i < value.size(); ++i) {
      if (!read(fmt::format("{}.{}", key, i), (*node.list())[i], value.items()[i], point)) return false;
    }
    return true;
  }
  return read(key, *node.domain(), value, point);
}

bool SearchDimensions::read(const std::string& key, const Domain& domain, const Config& value, Point& point) const {
  if (std::holds_alternative<FunctionDomain>(domain)) return true;
  if (const auto* grid = std::get_if<GridDomain>(&domain)) {
    const uint64_t digit = grid_digits_.at(key);
    return read(fmt::format("{}#{}", key, digit), grid->options[digit], value, point);
  }
  const size_t dimension = by_key_.at(key);
  if (const auto* choice = std::get_if<ChoiceDomain>(&domain)) {
    for (size_t i = 0; i < choice->options.size(); ++i) {
      if (!read(fmt::format("{}#{}", key, i), choice->options[i], value, point)) continue;
      point[dimension] = middle(dimension, i);
      return true;
    }
    return false;
  }
  if (value.kind() != Config::Kind::kReal && value.kind() != Config::Kind::kInteger) return false;
  const double real = value.real();
  double& coordinate = point[dimension];
  if (const auto* normal = std::get_if<NormalDomain>(&domain)) {
    coordinate = std::erfc((normal->mean - real) / normal->sd / std::numbers::sqrt2) / 2;
    return std::isfinite(real);
  }
  if (const auto* integer = std::get_if<IntegerDomain>(&domain)) {
    const bool inside = real >= static_cast<double>(integer->low) && real <= static_cast<double>(integer->high);
    const double multiple = std::round(real / static_cast<double>(integer->q.value_or(1))) - scales_[dimension].first;
    const auto last = static_cast<double>(all_[dimension].cells - 1);
    if (inside) coordinate = middle(dimension, static_cast<uint64_t>(std::clamp(multiple, 0.0, last)));
    return inside;
  }
  const auto& range = std::get<RealDomain>(domain);
  if (!(real >= range.low && real <= range.high)) return false;
  coordinate = range.log ? std::log(real / range.low) / std::log(range.high / range.low)
                         : (real - range.low) / (range.high - range.low);
  return true;
}

uint64_t SearchDimensions::number(const Point& settled) const {
  if (count_) return number(root_, settled);
  uint64_t hash = 0;
  for (size_t i = 0; i < all_.size(); ++i) hash = mixed(hash ^ std::bit_cast<uint64_t>(settled[i]));
  return hash >> 2;  // Below 2^62, as are point numbers.
}

uint64_t SearchDimensions::number(const Group& group, const Point& point) const {
  uint64_t sum = 0;
  for (const size_t i : group.dimensions) {
    const uint64_t taken = cell_of(i, point[i]);
    uint64_t base = all_[i].cells;
    uint64_t digit = taken;
    if (!options_[i].empty()) {
      base = digit = 0;
      for (size_t option = 0; option < options_[i].size(); ++option) {
        if (option == taken) digit = base + number(options_[i][option], point);
        base += static_cast<uint64_t>(options_[i][option].count);
      }
    }
    sum = sum * base + digit;
  }
  return sum;
}

Point SearchDimensions::numbered(uint64_t number) const {
  VOLADOR_CHECK(count_ && number < *count_);
  Point point(all_.size(), kInactive);
  unnumber(root_, number, point);
  return point;
}

void SearchDimensions::unnumber(const Group& group, uint64_t number, Point& point) const {
  for (auto it = group.dimensions.rbegin(); it != group.dimensions.rend(); ++it) {
    const size_t i = *it;
    uint64_t base = all_[i].cells;
    if (!options_[i].empty()) {
      base = 0;
      for (const Group& option : options_[i]) base += static_cast<uint64_t>(option.count);
    }
    uint64_t digit = number % base;
    number /= base;
    for (size_t option = 0; option < options_[i].size(); ++option) {
      const auto below = static_cast<uint64_t>(options_[i][option].count);
      if (digit < below) {
        unnumber(options_[i][option], digit, point);
        digit = option;
        break;
      }
      digit -= below;
    }
    point[i] = middle(i, digit);
  }
}

std::string SearchDimensions::to_text(const Point& point) {
  std::string text;
  text.reserve(point.size() * 16);
  for (const double coordinate : point)
    fmt::format_to(std::back_inserter(text), "{:016x}", std::bit_cast<uint64_t>(coordinate));
  return text;
}

std::optional<std::vector<double>> SearchDimensions::reals_from_text(std::string_view text) {
  if (text.size() % 16 != 0) return std::nullopt;
  std::vector<double> out(text.size() / 16);
  for (size_t i = 0; i < out.size(); ++i) {
    uint64_t bits = 0;
    const char* end = text.data() + (i + 1) * 16;
    if (std::from_chars(text.data() + i * 16, end, bits, 16).ptr != end) return std::nullopt;
    out[i] = std::bit_cast<double>(bits);
    if (!std::isfinite(out[i])) return std::nullopt;
  }
  return out;
}

std::optional<Point> SearchDimensions::from_text(std::string_view text) const {
  const auto point = reals_from_text(text);
  return point && point->size() == all_.size() && settled(*point) == *point ? point : std::nullopt;
}

}  // namespace volador::tune
