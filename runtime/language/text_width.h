// Terminal columns of UTF-8 text.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace volador {

// The code point at the front of a text that is not empty, and its length in bytes. A byte that starts no code point stands for itself.
std::pair<uint32_t, size_t> front_code_point(std::string_view text);

// Columns of a code point: 2 for wide East Asian characters, 0 for combining ones, else 1.
size_t columns_of(uint32_t code_point);

// At most `columns` columns of a text without escape sequences; where it is wider, "…" stands for its middle: both the start of a name and its
// end, which is often a number, stay readable. Code points stay whole.
std::string cut_middle(std::string_view text, size_t columns);

}  // namespace volador
