// UTF-8 validation and sanitizing of text.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace volador {

// Returns the length of the UTF-8 sequence at `at`, 0 if invalid (including overlong forms and surrogates).
size_t utf8_sequence(std::string_view text, size_t at);
// Returns one line of at most `bytes_max` bytes: control characters and invalid UTF-8 become '?'.
std::string plain_text(std::string_view text, size_t bytes_max);

}  // namespace volador
