// Parameters of trials as numeric columns, for axes and for the random forest. Pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tune/loop/trial.h"

namespace volador::tune {

struct ParameterColumn {
  std::string path;
  bool log = false;                     // Searched on a logarithmic scale, or values span powers of ten.
  double lo = 0, hi = 0;                // For numbers: range of the domain, if known, and of all values.
  std::vector<std::string> categories;  // If not empty, values are indices into it.
  std::vector<double> values;           // One per trial; NaN: the trial does not have the parameter.
};

// Returns the parameters in which the trials differ, by path. `space`: the description in the run's journal; may be
// empty. A number is then logarithmic if its values are above 0 and the largest is a thousand times the smallest, and
// anything else is a category.
std::vector<ParameterColumn> parameter_columns(const std::vector<const Trial*>& trials, std::string_view space);

}  // namespace volador::tune
