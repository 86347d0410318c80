// Suggestions for misspelled words.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace volador {

// Number of insertions, deletions, replacements and swaps of neighbors (optimal string alignment) between two words.
size_t edit_distance(std::string_view a, std::string_view b);

// Returns the candidate with the smallest distance, the first on a tie; nothing if the distance is too large (more than
// 2 for words up to 5 letters, 3 up to 8, a third of the length above).
std::optional<std::string> nearest_word(std::string_view word, std::span<const std::string> candidates);

// "; did you mean --port?" or nothing.
std::string did_you_mean(std::string_view word, std::span<const std::string> candidates);

}  // namespace volador
