// The known word that a misspelt one was meant to be.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace volador {

// Insertions, deletions, replacements and swaps of neighbours (optimal string alignment) that turn one into the other.
size_t edit_distance(std::string_view a, std::string_view b);

// The candidate at the smallest distance, the first of several; none where even that one is too far to have been meant
// (more than 2 for words up to 5 letters, 3 up to 8, a third of the length above).
std::optional<std::string> nearest_word(std::string_view word, std::span<const std::string> candidates);

// "; did you mean --port?" or nothing.
std::string did_you_mean(std::string_view word, std::span<const std::string> candidates);

}  // namespace volador
