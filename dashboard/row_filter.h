// Filter and order of the rows of a list, from the `filter` and `order` of a request. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/result.h"

namespace volador::dashboard {

// Terms separated by spaces, which must all match: `state=alive`, `metrics.loss<0.1`, `config.lr>0.01`, `tags=baseline`
// (one of a list), or a word that the row contains.
class RowFilter {
 public:
  // kInvalidArgument: more than 16 terms, or a comparison with a non-number.
  [[nodiscard]] static Result<RowFilter> parse(std::string_view text);

  bool empty() const { return terms_.empty(); }
  // Paths of the compared members.
  std::vector<std::string> members() const;
  // `text` is a row, `values` the JSON of its members() as read by RowScan (further values may follow).
  bool holds(std::string_view text, const std::vector<std::string_view>& values) const;

 private:
  struct Term {
    char comparison = 0;  // '=', '<', '>'; 0: a word.
    std::string member;
    std::string value;             // Words are in lower case.
    std::optional<double> number;  // Numeric form of the value; always set for '<' and '>'.
  };
  std::vector<Term> terms_;
};

// Sort key of a row: numbers before texts and other values; null, empty and absent members last.
struct SortKey {
  enum class Kind : uint8_t { kNumber, kText, kAbsent } kind = Kind::kAbsent;
  double number = 0;
  std::string text;

  static SortKey of(std::string_view json);
  bool operator<(const SortKey& other) const;
};

}  // namespace volador::dashboard
