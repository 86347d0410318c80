#include "tune/schedulers/wilcoxon.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

namespace volador::tune {
namespace {

constexpr size_t kExactMax = 50;
constexpr size_t kExactMaxWithTies = 13;

struct Ranks {
  double positive = 0;          // Rank sum of the positive differences, plus half of each zero's rank.
  std::vector<size_t> doubled;  // Twice the rank of each nonzero difference.
  size_t doubled_positive = 0;  // Their sum over the positive differences.
  double ties = 0;              // Sum of t³ - t over groups of t equal values.
  bool plain = true;            // No two are equal and none is 0.
};

Ranks rank(const std::vector<double>& differences) {
  std::vector<size_t> order(differences.size());
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.end(),
            [&](size_t a, size_t b) { return std::abs(differences[a]) < std::abs(differences[b]); });
  Ranks out;
  for (size_t begin = 0; begin < order.size();) {
    size_t end = begin + 1;
    while (end < order.size() && std::abs(differences[order[end]]) == std::abs(differences[order[begin]])) ++end;
    const auto count = static_cast<double>(end - begin);
    const double middle = (static_cast<double>(begin + 1) + static_cast<double>(end)) / 2;
    for (size_t i = begin; i < end; ++i) {
      const double difference = differences[order[i]];
      out.positive += difference > 0 ? middle : difference == 0 ? middle / 2 : 0;
      out.plain = out.plain && difference != 0;
      if (difference == 0) continue;
      out.doubled.push_back(begin + 1 + end);
      if (difference > 0) out.doubled_positive += begin + 1 + end;
    }
    out.ties += count * count * count - count;
    out.plain = out.plain && count == 1;
    begin = end;
  }
  return out;
}

// Returns the fraction of the 2^n sign assignments with a sum at least as large.
double exact(const Ranks& ranks) {
  size_t most = 0;
  for (const size_t rank : ranks.doubled) most += rank;
  std::vector<double> ways(most + 1, 0);  // Fractions, by the doubled sum.
  ways[0] = 1;
  for (const size_t rank : ranks.doubled) {
    for (size_t sum = most + 1; sum-- > 0;) ways[sum] = 0.5 * ways[sum] + (sum >= rank ? 0.5 * ways[sum - rank] : 0);
  }
  double share = 0;
  for (size_t sum = ranks.doubled_positive; sum <= most; ++sum) share += ways[sum];
  return std::min(share, 1.0);
}

}  // namespace

double wilcoxon_greater(const std::vector<double>& differences) {
  if (differences.empty()) return 1;
  const Ranks ranks = rank(differences);
  const auto n = static_cast<double>(differences.size());
  if (differences.size() <= (ranks.plain ? kExactMax : kExactMaxWithTies)) return exact(ranks);
  const double mean = n * (n + 1) / 4;
  const double deviation = std::sqrt((n * (n + 1) * (2 * n + 1) - ranks.ties / 2) / 24);
  if (!(deviation > 0)) return 1;
  return 0.5 * std::erfc((ranks.positive - mean) / deviation * M_SQRT1_2);
}

}  // namespace volador::tune
