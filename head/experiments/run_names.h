// Names of runs as created by tune::run: "digits_2026-11-25_01-23-55", "digits_2026-11-25_01-23-55_2". Pure.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace volador::head {

// Returns "digits". A name without a date is its own stem.
std::string_view stem_of_run(std::string_view name);
// Whether run `a` is later than `b` with the same stem, by date and then number.
bool is_later_run(std::string_view a, std::string_view b);
// Chooses among runs whose names start with `text`: the exact name, else the newest with the stem `text`, else the
// newest if all have one stem. nullopt: no runs, or several stems.
std::optional<size_t> named_run(std::span<const std::string_view> names, std::string_view text);
// Returns "a, b, c" for the first matches, and the number of further ones.
std::string listed(const std::vector<std::string>& names);

}  // namespace volador::head
