// The parameters of trials as columns of numbers, for axes and for the forest. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tune/loop/trial.h"

namespace volador::tune {

struct ParameterColumn {
  std::string path;
  bool log = false;                     // Searched, or spread, over powers of ten.
  double lo = 0, hi = 0;                // Of a number: of its domain where that is known, and of all values.
  std::vector<std::string> categories;  // Where there are any, values are their indices.
  std::vector<double> values;           // Beside the trials; NaN: the trial has no such parameter.
};

// Parameters of which the trials have different values, by path. `space`: as the run's journal describes it; may be
// empty, then a number is logarithmic where its values are above 0 and the largest is a thousand times the smallest,
// and what is no number is a category.
std::vector<ParameterColumn> parameter_columns(const std::vector<const Trial*>& trials, std::string_view space);

}  // namespace volador::tune
