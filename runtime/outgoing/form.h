// Names and values as application/x-www-form-urlencoded, for forms and for the query of an address. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace volador::outgoing {

// "a%20b": all but letters, digits and -._~ is escaped.
std::string percent_encoded(std::string_view text);
// "a=1&b=x%20y", in this order.
std::string form_text(const std::vector<std::pair<std::string, std::string>>& fields);
// The reverse; for a repeated name the first value counts. nullopt: an invalid escape, or more than 32 fields.
std::optional<std::map<std::string, std::string>> parse_form(std::string_view text);

}  // namespace volador::outgoing
