// Bytes that may be text, and what of them may be shown and sent as text.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace volador {

// Length of the UTF-8 sequence at `at`, 0 where there is none (overlong forms and surrogates included).
size_t utf8_sequence(std::string_view text, size_t at);
// One line of at most `bytes_max` bytes: control characters and bytes that are not UTF-8 become '?'.
std::string plain_text(std::string_view text, size_t bytes_max);

}  // namespace volador
