#include "tune/searchers/panel_factor.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "tune/space/search_dimensions.h"

namespace volador::tune {
namespace {

constexpr double kPivotLeast = 1e-12;  // For a matrix that is singular up to rounding.

// ---- The dominant loop: `Rows` rows of a panel minus the sum over j of left(j, r) × panel row j.

struct Left {
  const double* at;
  size_t by_term, by_row;
};

// Does not use aligned loads: panels are vectors of the standard library.
template <int Lanes>
struct Vector {
  typedef double type __attribute__((vector_size(Lanes * sizeof(double)), aligned(sizeof(double)), may_alias));
};

template <int Lanes, int Rows>
[[gnu::always_inline]] inline void subtract_products(const Left& left, const double* panel, size_t terms, double* out) {
  using V = typename Vector<Lanes>::type;
  constexpr int kParts = static_cast<int>(kPanel) / Lanes;
  V sums[Rows][kParts];
  for (int r = 0; r < Rows; ++r)
    for (int p = 0; p < kParts; ++p)
      sums[r][p] = *reinterpret_cast<const V*>(out + r * static_cast<int>(kPanel) + p * Lanes);
  for (size_t j = 0; j < terms; ++j) {
    const double* one = panel + j * kPanel;
    const double* factors = left.at + j * left.by_term;
    V parts[kParts];
    for (int p = 0; p < kParts; ++p) parts[p] = *reinterpret_cast<const V*>(one + p * Lanes);
    for (int r = 0; r < Rows; ++r) {
      const double factor = factors[static_cast<size_t>(r) * left.by_row];
      for (int p = 0; p < kParts; ++p) sums[r][p] -= factor * parts[p];
    }
  }
  for (int r = 0; r < Rows; ++r)
    for (int p = 0; p < kParts; ++p) *reinterpret_cast<V*>(out + r * static_cast<int>(kPanel) + p * Lanes) = sums[r][p];
}

// Eight rows, as callers use.
constexpr size_t kRows = 8;
template <int Lanes, int Rows>
[[gnu::always_inline]] inline void subtract_eight(const Left& left, const double* panel, size_t terms, double* out) {
  for (size_t r = 0; r < kRows; r += Rows)
    subtract_products<Lanes, Rows>({left.at + r * left.by_row, left.by_term, left.by_row}, panel, terms,
                                   out + r * kPanel);
}

// Then optionally solves for these rows by the triangle among themselves: the rows of a factor, whose left part is
// before its terms (`before`) or after them.
struct Block {
  Left left;            // At row 0 and term 0.
  const double* panel;  // Term 0.
  size_t terms;
  double* out;
  const double* triangle = nullptr;  // First number of the triangle; null: do not solve.
  size_t stride = 0;
  bool upper = false;  // By the transpose, starting from the last row.
};

[[gnu::always_inline]] inline void solve_rows(const Block& block, size_t count) {
  for (size_t step = 0; step < count; ++step) {
    const size_t r = block.upper ? count - 1 - step : step;
    double* own = block.out + r * kPanel;
    for (size_t other = 0; other < step; ++other) {
      const size_t j = block.upper ? count - 1 - other : other;
      const double factor = block.upper ? block.triangle[j * block.stride + r] : block.triangle[r * block.stride + j];
      const double* from = block.out + j * kPanel;
      for (size_t c = 0; c < kPanel; ++c) own[c] -= factor * from[c];
    }
    const double by = block.triangle[r * block.stride + r];
    for (size_t c = 0; c < kPanel; ++c) own[c] /= by;
  }
}

template <int Lanes, int Rows>
[[gnu::always_inline]] inline void block_lanes(const Block& block) {
  subtract_eight<Lanes, Rows>(block.left, block.panel, block.terms, block.out);
  if (block.triangle != nullptr) solve_rows(block, kRows);
}
void block_plain(const Block& block) { block_lanes<2, 1>(block); }

// e^-x for x from 0 to 700, within two units in the last place: by 2^k × e^r, |r| ≤ ln 2 / 2.
[[gnu::always_inline]] inline double exp_of_minus(double x) {
  constexpr double kShift = 6755399441055744.0;  // 1.5 × 2^52: adding it rounds to an integer, in the low bits.
  const double shifted = x * -1.4426950408889634 + kShift;
  const double whole = shifted - kShift;
  const double rest = (-x - whole * 0.693147180369123816490) - whole * 1.90821492927058770002e-10;
  double series = 1.0 / 479001600;
  series = series * rest + 1.0 / 39916800;
  series = series * rest + 1.0 / 3628800;
  series = series * rest + 1.0 / 362880;
  series = series * rest + 1.0 / 40320;
  series = series * rest + 1.0 / 5040;
  series = series * rest + 1.0 / 720;
  series = series * rest + 1.0 / 120;
  series = series * rest + 1.0 / 24;
  series = series * rest + 1.0 / 6;
  series = series * rest + 0.5;
  series = series * rest + 1;
  series = series * rest + 1;
  return series * std::bit_cast<double>((std::bit_cast<uint64_t>(shifted) + 1023U) << 52);
}

[[gnu::always_inline]] inline void matern_lanes(const double* squared, double signal, double* kernel, double* slope) {
  for (size_t c = 0; c < kPanel; ++c) {
    const double r = 2.23606797749979 * std::sqrt(squared[c]);
    const double power = signal * exp_of_minus(r < 700 ? r : 700);
    kernel[c] = (1 + r + r * r / 3) * power;
    slope[c] = -5.0 / 6 * (1 + r) * power;
  }
}
void matern_plain(const double* squared, double signal, double* kernel, double* slope) {
  matern_lanes(squared, signal, kernel, slope);
}

struct Distances {
  const Panel& points;
  const double* one;
  const Apartness* apart;
  const double* weights;
  size_t count;
};

[[gnu::always_inline]] inline void distance_lanes(const Distances& of, double* out) {
  double sums[kPanel] = {};
  for (size_t d = 0; d < of.count; ++d) {
    const double* a = of.points.row(d);
    const double b = of.one[d], weight = of.weights[d];
    if (of.apart[d] == Apartness::kOptions) {
      for (size_t c = 0; c < kPanel; ++c) sums[c] += a[c] == b ? 0 : weight;
    } else if (of.apart[d] == Apartness::kNumbers) {
      for (size_t c = 0; c < kPanel; ++c) sums[c] += weight * ((a[c] - b) * (a[c] - b));
    } else if (b == kInactive) {
      for (size_t c = 0; c < kPanel; ++c) sums[c] += a[c] == kInactive ? 0 : weight;
    } else {
      for (size_t c = 0; c < kPanel; ++c) sums[c] += a[c] == kInactive ? weight : weight * ((a[c] - b) * (a[c] - b));
    }
  }
  for (size_t c = 0; c < kPanel; ++c) out[c] = sums[c];
}
void distance_plain(const Distances& of, double* out) { distance_lanes(of, out); }

struct Instructions {
  void (*block)(const Block&) = block_plain;
  void (*matern)(const double*, double, double*, double*) = matern_plain;
  void (*distance)(const Distances&, double*) = distance_plain;
};

#if defined(__x86_64__)
[[gnu::target("avx2,fma")]] void block_avx2(const Block& block) { block_lanes<4, 2>(block); }
[[gnu::target("avx2,fma")]] void matern_avx2(const double* squared, double signal, double* kernel, double* slope) {
  matern_lanes(squared, signal, kernel, slope);
}
[[gnu::target("avx2,fma")]] void distance_avx2(const Distances& of, double* out) { distance_lanes(of, out); }

[[gnu::target("avx512f,avx512dq,avx512vl,fma")]] void block_avx512(const Block& block) { block_lanes<8, 8>(block); }
[[gnu::target("avx512f,avx512dq,avx512vl,fma")]] void matern_avx512(const double* squared, double signal,
                                                                    double* kernel, double* slope) {
  matern_lanes(squared, signal, kernel, slope);
}
[[gnu::target("avx512f,avx512dq,avx512vl,fma")]] void distance_avx512(const Distances& of, double* out) {
  distance_lanes(of, out);
}

constexpr Instructions kAvx2Instructions{block_avx2, matern_avx2, distance_avx2};
constexpr Instructions kAvx512Instructions{block_avx512, matern_avx512, distance_avx512};
bool has_avx2() { return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0; }
bool has_avx512() {
  return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512dq") != 0 &&
         __builtin_cpu_supports("avx512vl") != 0;
}
#else
constexpr Instructions kAvx2Instructions{}, kAvx512Instructions{};
bool has_avx2() { return false; }
bool has_avx512() { return false; }
#endif

constexpr Instructions kPlainInstructions{};

const Instructions* best_instructions() {
  return has_avx512() ? &kAvx512Instructions : has_avx2() ? &kAvx2Instructions : &kPlainInstructions;
}

std::atomic<const Instructions*>& chosen_instructions() {
  static std::atomic<const Instructions*> chosen{best_instructions()};
  return chosen;
}
const Instructions& instructions() { return *chosen_instructions().load(std::memory_order_relaxed); }

// For fewer rows than a block has: the last rows of a factor.
void subtract_few(const double* factors, const double* panel, size_t terms, double* out) {
  for (size_t j = 0; j < terms; ++j)
    for (size_t c = 0; c < kPanel; ++c) out[c] -= factors[j] * panel[j * kPanel + c];
}

}  // namespace

bool use_panel_instructions(PanelInstructions which) {
  if (which == PanelInstructions::kAvx2 && !has_avx2()) return false;
  chosen_instructions() = which == PanelInstructions::kPlain  ? &kPlainInstructions
                          : which == PanelInstructions::kAvx2 ? &kAvx2Instructions
                                                              : best_instructions();
  return true;
}

void PanelFactor::truncate(size_t size) { size_ = std::min(size_, size); }

void PanelFactor::reserve(size_t size) {
  const size_t needed = (size + kPanel - 1) / kPanel * kPanel;
  if (needed <= stride_) return;
  const size_t stride = needed + needed / 4 / kPanel * kPanel;
  std::vector<double> rows(stride * stride);
  for (size_t i = 0; i < size_; ++i) std::memcpy(rows.data() + i * stride, row(i), (i + 1) * sizeof(double));
  rows_ = std::move(rows);
  stride_ = stride;
}

void PanelFactor::extend(size_t size, const std::function<void(size_t first, Panel& panel)>& fill) {
  if (size <= size_) return;
  reserve(size);
  Panel panel(stride_);
  // Recomputes an incomplete panel, so that each row is computed in the same way regardless of when.
  for (size_t first = size_ / kPanel * kPanel; first < size; first += kPanel) {
    fill(first, panel);
    size_ = first;
    solve_lower(panel);
    // Subtract the contribution of the previous rows from the diagonal block.
    for (size_t r = 0; r < kPanel; r += kRows)
      instructions().block({{panel.row(0) + r, kPanel, 1}, panel.row(0), first, panel.row(first + r)});
    const size_t count = std::min(kPanel, size - first);
    for (size_t c = 0; c < count; ++c) {
      double* own = rows_.data() + (first + c) * stride_;
      for (size_t j = 0; j < first; ++j) own[j] = panel.row(j)[c];
      for (size_t j = 0; j <= c; ++j) {
        const double* other = rows_.data() + (first + j) * stride_ + first;
        double left = panel.row(first + j)[c];
        for (size_t k = 0; k < j; ++k) left -= own[first + k] * other[k];
        own[first + j] = j < c ? left / other[j] : std::sqrt(std::max(left, kPivotLeast));
      }
    }
  }
  size_ = size;
}

void PanelFactor::solve_lower(Panel& panel) const {
  size_t first = 0;
  for (; first + kRows <= size_; first += kRows)
    instructions().block(
        {{row(first), 1, stride_}, panel.row(0), first, panel.row(first), row(first) + first, stride_});
  for (size_t r = first; r < size_; ++r) subtract_few(row(r), panel.row(0), first, panel.row(r));
  if (first < size_)
    solve_rows({.out = panel.row(first), .triangle = row(first) + first, .stride = stride_}, size_ - first);
}

void PanelFactor::solve_upper(Panel& panel) const {
  size_t end = size_ / kRows * kRows;
  if (end < size_)
    solve_rows({.out = panel.row(end), .triangle = row(end) + end, .stride = stride_, .upper = true}, size_ - end);
  for (; end > 0; end -= kRows) {
    const size_t first = end - kRows;
    const Left left{end < size_ ? row(end) + first : nullptr, stride_, 1};
    instructions().block(
        {left, panel.row(0) + end * kPanel, size_ - end, panel.row(first), row(first) + first, stride_, true});
  }
}

double PanelFactor::log_determinant() const {
  double sum = 0;
  for (size_t i = 0; i < size_; ++i) sum += 2 * std::log(row(i)[i]);
  return sum;
}

void squared_distances(const Panel& points, const double* one, const std::vector<Apartness>& apart,
                       const std::vector<double>& weights, double* squared) {
  instructions().distance({points, one, apart.data(), weights.data(), apart.size()}, squared);
}

void matern_kernel(const double* squared, double signal, double* kernel, double* slope) {
  instructions().matern(squared, signal, kernel, slope);
}

}  // namespace volador::tune
