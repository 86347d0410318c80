// The members that rows of a list may have, by its route: what a request can filter, sort and cut by. Pure.
#pragma once

#include <span>
#include <string_view>

#include "dashboard/row_list.h"
#include "runtime/result.h"

namespace volador::dashboard {

// Of "/api/v1/nodes"; empty: no list of rows. What lies below a member ("metrics.loss") depends on the row.
std::span<const std::string_view> row_members(std::string_view pattern);

// kInvalidArgument: `fields`, `order` or `filter` of the query name a member that no row of the list has.
[[nodiscard]] Result<void> check_members(std::string_view pattern, const Query& query);

}  // namespace volador::dashboard
