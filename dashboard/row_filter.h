// Which rows of a list are wanted and in which order: the `filter` and `order` of a request. Pure.
#pragma once

#include <nlohmann/json_fwd.hpp>
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
  bool needs_members() const;
  // `row` is the parsed text where needs_members(), else it is not looked at.
  bool holds(std::string_view text, const nlohmann::json& row) const;

 private:
  struct Term {
    char comparison = 0;  // '=', '<', '>'; 0: a word.
    std::string member;
    std::string value;  // Words in lower case.
    double number = 0;
  };
  std::vector<Term> terms_;
};

// A member by its dotted path ("metrics.loss"; a name that has dots itself counts too); null where there is none.
const nlohmann::json* member_of(const nlohmann::json& row, std::string_view path);
// Numbers before texts, absent members last.
bool comes_before(const nlohmann::json* left, const nlohmann::json* right);

}  // namespace volador::dashboard
