// Learning-rate schedules: the rate of a parameter group from its initial rate and the number of scheduler steps alone.
// Pure: no torch, clock, thread, I/O or randomness.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace volador::train {

// Immutable function of the step. No value depends on an earlier call, so a run resumes exactly from the step count.
// Values equal those of PyTorch's scheduler of that kind but for rounding, which PyTorch accumulates from step to step;
// each factory names its exceptions.
class Schedule {
 public:
  virtual ~Schedule();

  // Returns the learning rate, after `step` scheduler steps (0: before the first), of a parameter group whose initial
  // rate is base_rate. Throws kInvalidArgument for a negative step.
  [[nodiscard]] virtual double rate(double base_rate, int64_t step) const = 0;

  // Returns the momentum (SGD) or first beta (Adam) of every group at that step; none if the schedule does not set it.
  // Only one_cycle and cyclic set it. Throws kInvalidArgument for a negative step.
  [[nodiscard]] virtual std::optional<double> momentum(int64_t step) const;
};

using SchedulePtr = std::shared_ptr<const Schedule>;

// Factories. Each throws kInvalidArgument if an option is out of range; the message names option, rule and value.
// Options whose default is out of range must be given.
namespace schedules {

struct ConstantOptions {
  double factor = 1.0 / 3;  // Multiplies the initial rate before total_iters; from 0 to 1.
  int64_t total_iters = 5;  // Step from which the initial rate holds; at least 1.
};
// ConstantLR. constant({.factor = 1}) never changes the rate.
[[nodiscard]] SchedulePtr constant(const ConstantOptions& options = {});

struct LinearOptions {
  double start_factor = 1.0 / 3;  // Factor at step 0; above 0, at most 1.
  double end_factor = 1;          // Factor from total_iters on; from 0 to 1.
  int64_t total_iters = 5;        // Steps of the change; at least 1.
};
// LinearLR: linear warm-up, or linear decay with an end_factor below start_factor.
[[nodiscard]] SchedulePtr linear(const LinearOptions& options = {});

struct StepOptions {
  int64_t step_size = 0;  // Steps between decays; at least 1.
  double gamma = 0.1;     // Factor of a decay; above 0.
};
// StepLR.
[[nodiscard]] SchedulePtr step(const StepOptions& options);

struct MultiStepOptions {
  std::vector<int64_t> milestones = {};  // Steps that decay the rate, ascending; a repeated step decays it again.
  double gamma = 0.1;                    // Factor of a decay; above 0.
};
// MultiStepLR.
[[nodiscard]] SchedulePtr multi_step(MultiStepOptions options);

struct ExponentialOptions {
  double gamma = 0;  // Factor of each step; above 0.
};
// ExponentialLR.
[[nodiscard]] SchedulePtr exponential(const ExponentialOptions& options);

struct CosineOptions {
  int64_t t_max = 0;   // Steps from the initial rate to eta_min; at least 1.
  double eta_min = 0;  // Lowest rate; at least 0.
};
// CosineAnnealingLR. The rate rises again after t_max and has period 2 × t_max.
[[nodiscard]] SchedulePtr cosine(const CosineOptions& options);

struct CosineWarmRestartsOptions {
  int64_t t_0 = 0;     // Steps before the first restart; at least 1.
  int64_t t_mult = 1;  // Each period is t_mult times as long as the one before; at least 1.
  double eta_min = 0;  // Lowest rate; at least 0.
};
// CosineAnnealingWarmRestarts (Loshchilov and Hutter, SGDR, ICLR 2017).
[[nodiscard]] SchedulePtr cosine_warm_restarts(const CosineWarmRestartsOptions& options);

struct PolynomialOptions {
  int64_t total_iters = 5;  // Step from which the rate is 0; at least 1.
  double power = 1;         // Above 0.
};
// PolynomialLR.
[[nodiscard]] SchedulePtr polynomial(const PolynomialOptions& options = {});

enum class Anneal : uint8_t { kCosine, kLinear };

struct OneCycleOptions {
  std::optional<double> max_lr = {};  // Highest rate, above 0; default: each group's initial rate.
  int64_t total_steps = 0;            // Steps of the cycle; at least 1.
  double pct_start = 0.3;           // Part of the cycle in which the rate rises; from 0 to 1, with three_phase to 0.5.
  Anneal anneal = Anneal::kCosine;  // Shape of each phase.
  bool cycle_momentum = true;       // Whether momentum falls while the rate rises, and the reverse.
  double base_momentum = 0.85;      // Momentum at the highest rate; at least 0, below 1.
  double max_momentum = 0.95;       // Momentum at the first and the last step; at least 0, below 1.
  double div_factor = 25;           // The first rate is max_lr / div_factor; above 0.
  double final_div_factor = 1e4;    // The last rate is the first rate / final_div_factor; above 0.
  bool three_phase = false;         // Whether the rate returns to the first rate before it falls to the last one.
};
// OneCycleLR (Smith and Topin, 2018). The last rate holds from total_steps - 1 on, where PyTorch extrapolates one step
// and then raises an error. A phase of length 0 counts as finished, where PyTorch divides by zero.
[[nodiscard]] SchedulePtr one_cycle(const OneCycleOptions& options);

enum class CyclicMode : uint8_t {
  kTriangular,   // Every cycle reaches max_lr.
  kTriangular2,  // Each cycle has half the amplitude of the one before.
  kExpRange,     // The amplitude is multiplied by gamma at every step.
};

struct CyclicOptions {
  std::optional<double> base_lr = {};          // Lowest rate, at least 0; default: each group's initial rate.
  double max_lr = 0;                           // Highest rate; above 0.
  int64_t step_size_up = 2000;                 // Steps of the rising part; at least 1.
  std::optional<int64_t> step_size_down = {};  // Steps of the falling part, at least 1; default: step_size_up.
  CyclicMode mode = CyclicMode::kTriangular;   // Change of the amplitude.
  double gamma = 1;                            // For kExpRange; above 0.
  bool cycle_momentum = true;                  // Whether momentum falls while the rate rises, and the reverse.
  double base_momentum = 0.8;                  // Momentum at the highest rate; at least 0, below 1.
  double max_momentum = 0.9;                   // Momentum at the lowest rate; at least 0, below 1.
};
// CyclicLR (Smith, WACV 2017).
[[nodiscard]] SchedulePtr cyclic(const CyclicOptions& options);

struct InverseSqrtOptions {
  int64_t warmup_steps = 0;  // Steps of the linear warm-up; at least 1.
};
// Rises linearly to the initial rate, which update number warmup_steps uses, then falls with the inverse square root of
// the number of updates. Step s is update number s + 1, so the first rate is not 0.
[[nodiscard]] SchedulePtr inverse_sqrt(const InverseSqrtOptions& options);

struct NoamOptions {
  int64_t model_size = 0;       // Width of the model (d_model); at least 1.
  int64_t warmup_steps = 4000;  // At least 1.
};
// Multiplies the initial rate by model_size^-0.5 · min(n^-0.5, n · warmup_steps^-1.5), n = step + 1 (Vaswani et al.,
// NeurIPS 2017, section 5.3). The paper's rate results from an initial rate of 1.
[[nodiscard]] SchedulePtr noam(const NoamOptions& options);

// LambdaLR: multiplies the initial rate by factor(step), which must depend on the step alone and may be called from any
// thread. An exception from it leaves rate().
[[nodiscard]] SchedulePtr lambda(std::function<double(int64_t step)> factor);

// Chains schedules: each takes the rate from the one before it as its initial rate, so factors multiply. Momentum is
// that of the last schedule that has one. Equals ChainedScheduler for schedules that PyTorch computes as factors:
// constant, linear, step, multi_step, exponential, polynomial, and cosine with eta_min 0 up to t_max. After t_max
// PyTorch's cosine adds to the rate, and its LambdaLR and CosineAnnealingWarmRestarts discard the rate of the schedules
// before them.
[[nodiscard]] SchedulePtr chained(std::vector<SchedulePtr> schedules);

struct SequentialOptions {
  std::vector<SchedulePtr> schedules = {};  // At least one.
  std::vector<int64_t> milestones = {};     // First step of the second schedule, of the third, …; strictly ascending.
};
// SequentialLR: each schedule starts at its own step 0 with the group's initial rate.
[[nodiscard]] SchedulePtr sequential(SequentialOptions options);

}  // namespace schedules

enum class PlateauMode : uint8_t { kMin, kMax };  // Whether a lower or a higher metric is better.

enum class PlateauThreshold : uint8_t {
  kRelative,  // Better: below best × (1 - threshold) with kMin, above best × (1 + threshold) with kMax.
  kAbsolute,  // Better: below best - threshold with kMin, above best + threshold with kMax.
};

struct PlateauOptions {
  PlateauMode mode = PlateauMode::kMin;
  double factor = 0.1;      // Multiplies the rate at a reduction; above 0, below 1.
  int64_t patience = 10;    // Steps in a row without improvement that cause no reduction; at least 0.
  double threshold = 1e-4;  // Smallest change that is an improvement; at least 0, below 1 with kMin and kRelative.
  PlateauThreshold threshold_mode = PlateauThreshold::kRelative;
  int64_t cooldown = 0;  // Steps after a reduction that do not count as bad; at least 0.
  double min_lr = 0;     // Lowest rate that a reduction gives; at least 0.
  double eps = 1e-8;     // A reduction by at most eps leaves the rate as it is; at least 0.
};

// Reduces the rate when a metric stops improving; decisions equal PyTorch's ReduceLROnPlateau. The rate depends on the
// metrics so far, so unlike a Schedule this class has state, which belongs in the checkpoint.
class PlateauSchedule {
 public:
  struct State {
    double best = 0;            // Best metric; infinity (kMin) or -infinity (kMax) before the first. Never NaN.
    int64_t bad_steps = 0;      // Steps without improvement in a row.
    int64_t cooldown_left = 0;  // Steps that still do not count as bad.
    int64_t reductions = 0;     // Reductions so far.

    bool operator==(const State&) const = default;
  };

  // Throws kInvalidArgument if an option is out of range.
  explicit PlateauSchedule(const PlateauOptions& options);

  // Records a metric, usually one an epoch, and returns whether this step reduces the rate. NaN is not an improvement.
  bool step(double metric);

  // Returns the rate after all reductions so far of a group whose initial rate is base_rate.
  [[nodiscard]] double rate(double base_rate) const;
  // Returns current_rate after one reduction, for rates that something else changes too: call it where step() returned
  // true.
  [[nodiscard]] double reduce(double current_rate) const;

  [[nodiscard]] State state() const { return state_; }
  // Throws kInvalidArgument for a negative count or a NaN; the state stays as it was.
  void load(const State& state);

 private:
  bool is_better(double metric) const;

  PlateauOptions options_;
  State state_;
};

}  // namespace volador::train
