// Points among which a searcher with a model looks for the most promising one. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "runtime/random.h"
#include "tune/space/search_dimensions.h"

namespace volador::tune {

// Returns all configurations of a discrete space of at most 1,000; no value: there are more.
std::optional<std::vector<Point>> counted_points(const SearchDimensions& dimensions);

// Returns `count` points: those of a scrambled Sobol sequence, the last `near` ones instead neighbours of the best five of
// `points`, which is not empty if `near` is above 0.
std::vector<Point> candidate_points(const SearchDimensions& dimensions, const std::vector<Point>& points,
                                    const std::vector<double>& values, size_t count, size_t near, Random& random);

}  // namespace volador::tune
