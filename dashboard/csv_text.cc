#include "dashboard/csv_text.h"

#include <cmath>

#include "dashboard/json_text.h"

namespace volador::dashboard {
CsvRow& CsvRow::number(double value) {
  if (!std::isfinite(value)) return cell(std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
  return sep(), append_json_number(out_, value), *this;
}
CsvRow& CsvRow::number(float value) {
  if (!std::isfinite(value)) return number(static_cast<double>(value));
  return sep(), append_json_number(out_, value), *this;
}

}  // namespace volador::dashboard
