// Wilcoxon's signed-rank test, one-sided.
#pragma once

#include <vector>

namespace volador::tune {

// Returns the probability of differences at least this large if they are in truth distributed symmetrically around 0.
// Exact for up to 50 differences if all are distinct and not 0, and otherwise for up to 13; beyond that by the normal
// approximation with the correction for ties. Half of the zeros count on each side. Returns 1 for no differences.
// Matches scipy.stats.wilcoxon with alternative="greater" and zero_method="zsplit".
double wilcoxon_greater(const std::vector<double>& differences);

}  // namespace volador::tune
