// Cholesky factor of a growing symmetric positive definite matrix, and solutions for many right-hand sides at once.
// Pure arithmetic; uses the vector instructions of the processor (AVX-512, AVX2 or none).
//
// A row of the factor depends only on the rows before it: a factor built incrementally is bit-identical to one built at
// once, on processors with the same instructions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace volador::tune {

inline constexpr size_t kPanel = 16;  // Right-hand sides solved together.

// One row per matrix row, with kPanel numbers each.
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
  // Removes all rows from `size` on.
  void truncate(size_t size);
  // Extends to `size` rows. `fill(first, panel)` provides columns first to first + kPanel of the matrix, of which only
  // rows 0 to first + kPanel on and above the diagonal are read; columns from `size` on are ignored.
  void extend(size_t size, const std::function<void(size_t first, Panel& panel)>& fill);

  // Solve in place by the lower factor and by its transpose; the panel has at least size() rows.
  void solve_lower(Panel& panel) const;
  void solve_upper(Panel& panel) const;

  double log_determinant() const;  // Log determinant of the matrix.

 private:
  const double* row(size_t i) const { return rows_.data() + i * stride_; }
  void reserve(size_t size);

  size_t size_ = 0, stride_ = 0;
  std::vector<double> rows_;  // stride_ numbers per row; the upper part is unused.
};

// For tests: selects instructions other than the best available. Returns false, without effect, if the processor lacks
// them.
enum class PanelInstructions : uint8_t { kBest, kAvx2, kPlain };
bool use_panel_instructions(PanelInstructions which);

// ---- Kernels, computed one panel row at a time.

enum class Apartness : uint8_t {
  kNumbers,      // (a - b)²
  kOptions,      // 0 if equal, else 1.
  kConditional,  // As kNumbers if both are active, else 1.
};
// Squared distances between the point `one` and the kPanel points whose coordinate d is in row d.
void squared_distances(const Panel& points, const double* one, const std::vector<Apartness>& apart,
                       const std::vector<double>& weights, double* squared);
// kernel[c] = signal × Matérn 5/2 at squared[c]; slope[c]: its derivative by the squared distance.
void matern_kernel(const double* squared, double signal, double* kernel, double* slope);

}  // namespace volador::tune
