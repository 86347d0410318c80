// Terminal columns of UTF-8 text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace volador {

// Returns the first code point of a non-empty text and its length in bytes. An invalid byte counts as itself.
std::pair<uint32_t, size_t> front_code_point(std::string_view text);

// Width of a code point: 2 for wide East Asian characters, 0 for combining ones, otherwise 1.
size_t columns_of(uint32_t code_point);

// Truncates a text without escape sequences to `columns` by replacing its middle with "…", so that the start of a name
// and its end, often a number, stay readable. Code points are not split.
std::string cut_middle(std::string_view text, size_t columns);

}  // namespace volador
