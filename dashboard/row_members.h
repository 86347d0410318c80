// The possible members of list rows, by route, for filter, order and fields. Pure.
#pragma once

#include <span>
#include <string_view>

#include "dashboard/row_list.h"
#include "runtime/result.h"

namespace volador::dashboard {

// `pattern`: "/api/v1/nodes". Empty: not a list of rows. Nested members ("metrics.loss") depend on the row.
std::span<const std::string_view> row_members(std::string_view pattern);

// kInvalidArgument: `fields`, `order` or `filter` of the query names a member that no row of the list has.
[[nodiscard]] Result<void> check_members(std::string_view pattern, const Query& query);

}  // namespace volador::dashboard
