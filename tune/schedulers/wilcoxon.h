// Wilcoxon's signed-rank test, one-sided.
#pragma once

#include <vector>

namespace volador::tune {

// The probability of differences that are this large, or larger, where in truth they lie evenly around 0. Exact for up
// to 50 of them where all are different from each other and from 0, and for up to 13 else; beyond that by the normal
// approximation with the correction for ties. Zeros count half on each side. 1 for none. The numbers are those of
// scipy.stats.wilcoxon with alternative="greater" and zero_method="zsplit".
double wilcoxon_greater(const std::vector<double>& differences);

}  // namespace volador::tune
