// Which rows of a list are wanted and in which order: the `filter` and `order` of a request. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/result.h"

namespace volador::dashboard {

// Terms joined by spaces, all of which must hold: `state=alive`, `metrics.loss<0.1`, `config.lr>0.01`, `tags=baseline` (one of
// a list), or a word that the row contains.
class RowFilter {
 public:
  // kInvalidArgument: more than 16 terms, or a comparison with something that is no number.
  [[nodiscard]] static Result<RowFilter> parse(std::string_view text);

  bool empty() const { return terms_.empty(); }
  // Paths of the members that it compares.
  std::vector<std::string> members() const;
  // `text` is a row, `values` the JSON of its members() as RowScan reads them (more may follow).
  bool holds(std::string_view text, const std::vector<std::string_view>& values) const;

 private:
  struct Term {
    char comparison = 0;  // '=', '<', '>'; 0: a word.
    std::string member;
    std::string value;  // Words in lower case.
    std::optional<double> number;  // That the value says; of '<' and '>' always.
  };
  std::vector<Term> terms_;
};

// What rows are sorted by: numbers before texts (and all else), null and absent members (empty) last.
struct SortKey {
  enum class Kind : uint8_t { kNumber, kText, kAbsent } kind = Kind::kAbsent;
  double number = 0;
  std::string text;

  static SortKey of(std::string_view json);
  bool operator<(const SortKey& other) const;
};

}  // namespace volador::dashboard
