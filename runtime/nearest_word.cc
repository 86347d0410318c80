#include "runtime/nearest_word.h"

#include <algorithm>
#include <vector>

namespace volador {

size_t edit_distance(std::string_view a, std::string_view b) {
  const size_t width = b.size() + 1;
  std::vector<size_t> before_last(width), last(width), row(width);
  for (size_t j = 0; j < width; ++j) last[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j < width; ++j) {
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before_last[j - 2] + 1);
    }
    std::swap(before_last, last);
    std::swap(last, row);
  }
  return last[b.size()];
}

std::optional<std::string> nearest_word(std::string_view word, std::span<const std::string> candidates) {
  constexpr size_t kLettersMax =
      100;  // Longer input is not a misspelled word, and the cost is the product of the lengths.
  if (word.size() > kLettersMax) return std::nullopt;
  const size_t tolerated = word.size() <= 5 ? 2 : word.size() <= 8 ? 3 : word.size() / 3;
  std::optional<std::string> best;
  size_t best_distance = tolerated + 1;
  for (const std::string& candidate : candidates) {
    const size_t distance = edit_distance(word, candidate);
    if (distance < best_distance && distance < std::max(word.size(), candidate.size())) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view word, std::span<const std::string> candidates) {
  auto nearest = nearest_word(word, candidates);
  return nearest ? "; did you mean " + *nearest + "?" : std::string();
}

}  // namespace volador
