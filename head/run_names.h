// Names of runs as tune::run makes them: "digits_2026-11-25_01-23-55", "digits_2026-11-25_01-23-55_2". Pure.
#pragma once

#include <string_view>

namespace volador::head {

// "digits". A name without a date is its own stem.
std::string_view stem_of_run(std::string_view name);
// Whether `a` is of a later run than `b`, where both have one stem: by the date and the number after it.
bool is_later_run(std::string_view a, std::string_view b);

}  // namespace volador::head
