// Names of runs as tune::run makes them: "digits_2026-11-25_01-23-55", "digits_2026-11-25_01-23-55_2". Pure.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace volador::head {

// "digits". A name without a date is its own stem.
std::string_view stem_of_run(std::string_view name);
// Whether `a` is of a later run than `b`, where both have one stem: by the date and the number after it.
bool is_later_run(std::string_view a, std::string_view b);
// Which of the runs `text` names, all of whose names start with it: the one of exactly this name, else the newest of those whose stem it is, else
// the newest of all where they have one stem. None: there is none, or they have several stems.
std::optional<size_t> named_run(std::span<const std::string_view> names, std::string_view text);
// "a, b, c": of several matches the first ones, and how many more there are.
std::string listed(const std::vector<std::string>& names);

}  // namespace volador::head
