#include "tune/searchers/candidates.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "tune/searchers/sobol_searcher.h"

namespace volador::tune {
namespace {

constexpr uint64_t kCountedMax = 1'000;
constexpr size_t kBestOnes = 5;  // Trials whose neighbours are candidates.

}  // namespace

std::optional<std::vector<Point>> counted_points(const SearchDimensions& dimensions) {
  const auto count = dimensions.count();
  if (!count || *count > kCountedMax) return std::nullopt;
  std::vector<Point> out;
  for (uint64_t number = 0; number < *count; ++number) out.push_back(dimensions.numbered(number));
  return out;
}

std::vector<Point> candidate_points(const SearchDimensions& dimensions, const std::vector<Point>& points,
                                    const std::vector<double>& values, size_t count, size_t near, Random& random) {
  std::vector<Point> out;
  const SobolSequence sequence(std::min(dimensions.size(), kSobolDimensionsMax), random.next());
  for (size_t i = 0; i < count - near; ++i) {
    Point point(dimensions.size());
    for (size_t d = 0; d < point.size(); ++d)
      point[d] = d < kSobolDimensionsMax ? sequence.coordinate(static_cast<int64_t>(i), d) : random.real();
    out.push_back(dimensions.settled(std::move(point)));
  }
  std::vector<size_t> order(points.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return values[a] < values[b]; });
  for (size_t i = 0; i < near; ++i) {
    Point point = points[order[i % std::min(kBestOnes, order.size())]];
    const double reach = std::pow(10, -0.5 - 2.5 * random.real());
    for (double& coordinate : point) {
      if (coordinate == kInactive || random.below(3) == 0) {
        coordinate = random.below(8) == 0 || coordinate == kInactive ? random.real() : coordinate;
        continue;
      }
      coordinate = std::clamp(coordinate + reach * (2 * random.real() - 1), 0.0, 1.0);
    }
    out.push_back(dimensions.settled(std::move(point)));
  }
  return out;
}

}  // namespace volador::tune
