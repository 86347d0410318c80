// A page of a list: filters, sorts and limits rows as requested. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "dashboard/row_filter.h"
#include "runtime/result.h"

namespace volador::dashboard {

using Query = std::map<std::string, std::string>;

// Empty if the query lacks it.
std::string text_in(const Query& query, const std::string& name);
// The non-empty parts of a comma-separated list.
std::vector<std::string> texts_in(const Query& query, const std::string& name);
// kInvalidArgument: not an integer in this range. `otherwise`: value if the query lacks it.
Result<int64_t> integer_in(const Query& query, const std::string& name, int64_t otherwise, int64_t least, int64_t most);

// {"rows":[…],"total":n,"next_page_token":"…"}
std::string rows_json(const std::vector<std::string_view>& rows, int64_t total, const std::string& next);

class RowList {
 public:
  static constexpr int64_t kPageDefault = 1000;
  static constexpr int64_t kPageMax = 20'000;
  static constexpr int64_t kTokenMax = int64_t{1} << 40;
  static constexpr size_t kFieldsMax = 64;

  // Parses the members filter, order, fields, page_size and page_token. kInvalidArgument names the invalid one.
  [[nodiscard]] static Result<RowList> parse(const Query& query);
  // `rows`: all rows as JSON objects, in default order.
  std::string page(const std::vector<std::string_view>& rows) const;

 private:
  RowFilter filter_;
  std::string order_;
  std::vector<std::string> fields_;  // Empty: all fields.
  bool descending_ = false;
  size_t size_ = 0, from_ = 0;
};

}  // namespace volador::dashboard
