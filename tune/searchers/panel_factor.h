// The Cholesky factor of a symmetric, positive definite matrix that grows, and solutions for many right sides at once.
// Pure arithmetic; vector instructions are those that the processor has (AVX-512, AVX2 or none).
//
// What a row of the factor holds depends on the rows before it only: one that grew step by step is, bit for bit, the
// one that is made at once, on processors with the same instructions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace volador::tune {

inline constexpr size_t kPanel = 16;  // Right sides that are solved for together.

// A row for each of the matrix's, kPanel numbers each.
class Panel {
 public:
  explicit Panel(size_t rows = 0) : numbers_(rows * kPanel) {}
  void resize(size_t rows) { numbers_.resize(rows * kPanel); }
  double* row(size_t i) { return numbers_.data() + i * kPanel; }
  const double* row(size_t i) const { return numbers_.data() + i * kPanel; }
  size_t rows() const { return numbers_.size() / kPanel; }

 private:
  std::vector<double> numbers_;
};

class PanelFactor {
 public:
  size_t size() const { return size_; }
  // Forgets all rows from `size` on.
  void truncate(size_t size);
  // Up to `size` rows. `fill(first, panel)` gives columns first to first + kPanel of the matrix, of which only what
  // lies on and above its diagonal is read, rows 0 to first + kPanel; columns from `size` on may hold anything.
  void extend(size_t size, const std::function<void(size_t first, Panel& panel)>& fill);

  // By the lower factor, by its transpose: the panel has at least size() rows.
  void solve_lower(Panel& panel) const;
  void solve_upper(Panel& panel) const;

  double log_determinant() const;  // Of the matrix.

 private:
  const double* row(size_t i) const { return rows_.data() + i * stride_; }
  void reserve(size_t size);

  size_t size_ = 0, stride_ = 0;
  std::vector<double> rows_;  // stride_ numbers each; the upper part is not used.
};

// For tests: others than the best that the processor has. False: it does not have them, and nothing changes.
enum class PanelInstructions : uint8_t { kBest, kAvx2, kPlain };
bool use_panel_instructions(PanelInstructions which);

// ---- Kernels, a row of a panel at a time.

enum class Apartness : uint8_t {
  kNumbers,      // (a - b)²
  kOptions,      // 0 where they are equal, else 1.
  kConditional,  // As numbers, where both are active; 1 where one of them is not.
};
// Squared distances of the point `one` from the kPanel points whose coordinate d is in row d.
void squared_distances(const Panel& points, const double* one, const std::vector<Apartness>& apart,
                       const std::vector<double>& weights, double* squared);
// kernel[c] = signal × Matérn 5/2 at squared[c]; slope[c]: its derivative by the squared distance.
void matern_kernel(const double* squared, double signal, double* kernel, double* slope);

}  // namespace volador::tune
