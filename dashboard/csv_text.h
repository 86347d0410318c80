// Rows of comma-separated values. Pure.
#pragma once

#include <string>
#include <string_view>

#include "runtime/csv_text.h"

namespace volador::dashboard {

// Adds a comma before each value except the first of a row.
class CsvRow {
 public:
  explicit CsvRow(std::string& out) : out_(out) {}
  CsvRow& cell(std::string_view text) { return sep(), append_csv_text(out_, text), *this; }
  // The shortest decimal that round-trips; "nan", "inf", "-inf".
  CsvRow& number(double value);
  CsvRow& number(float value);
  void end() { out_ += "\r\n"; }

 private:
  void sep() {
    if (!first_) out_ += ',';
    first_ = false;
  }
  std::string& out_;
  bool first_ = true;
};

}  // namespace volador::dashboard
