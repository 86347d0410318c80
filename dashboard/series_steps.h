// Compact storage of one level of a series: a step whose minimum, mean and maximum are equal takes two bytes, any other
// six; a minute without changes takes none. Runs of 64 steps other than the newest (and that one once the series rests)
// are exact to 1/65,000 of the run's range, and lossless if the values are multiples of that. Pure. Single-threaded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace volador::dashboard {

// One step of a series.
struct SeriesStep {
  int64_t seconds = 0;  // Start of the step in Unix time.
  float min = 0, mean = 0, max = 0;
};

class SeriesSteps {
 public:
  // `step_s`: distance between steps.
  explicit SeriesSteps(int64_t step_s) : step_s_(static_cast<uint32_t>(step_s)) {}

  bool empty() const { return count_ == 0; }
  size_t size() const { return count_; }
  size_t bytes() const { return bytes_; }
  int64_t newest_s() const { return empty() ? 0 : newest_.seconds; }  // 0: there is none.
  int64_t oldest_s() const;

  // Requires a time after all other steps, at a multiple of step_s, and no NaN.
  void push(const SeriesStep& step);
  SeriesStep& newest() { return newest_; }  // Requires a non-empty series.
  // After a gap so long that the next step begins a new run, packs the last run. No other effect.
  void rest(int64_t now_s);
  // Drops the oldest steps until `count` (at least 1) are left.
  void keep(size_t count);
  // The steps from `from_s` to before `to_s`, oldest first.
  std::vector<SeriesStep> read(int64_t from_s, int64_t to_s) const;

 private:
  static constexpr size_t kRunSlots = 64;
  static constexpr size_t kGapSlots = 8;  // A longer gap begins a new run.

  // Consecutive steps; a slot may be empty. A slot has three values (minimum, mean, maximum) if the run is spread, else
  // one.
  struct Slots {
    uint32_t first_s = 0;
    uint16_t slots = 0, steps = 0;
    bool spread = false;

    size_t values() const { return (spread ? 3U : 1U) * size_t{slots}; }
  };
  // The run that grows. NaN: no step.
  struct Open : Slots {
    std::vector<float> values;

    float value(size_t at) const { return values[at]; }
    size_t bytes() const { return sizeof(Open) + values.capacity() * sizeof(float); }
    void append(size_t slot, const SeriesStep& step);
  };
  // A complete run: base + code × 2^exponent.
  struct Packed : Slots {
    int8_t exponent = 0;
    float base = 0;
    std::unique_ptr<uint16_t[]> codes;  // Null: every slot is a step with the value `base`.

    Packed() = default;
    explicit Packed(const Open& run);
    float value(size_t at) const;
    size_t bytes() const { return sizeof(Packed) + (codes ? Slots::values() * sizeof(uint16_t) : 0); }
  };

  template <class Run>
  void read(const Run& run, size_t from_slot, int64_t from_s, int64_t to_s, std::vector<SeriesStep>& found) const;
  void settle();
  void seal();
  void forget_first_run();

  std::vector<Packed> runs_;
  // Null if there is none, the series rests, or it has one step. Does not contain the newest step.
  std::unique_ptr<Open> open_;
  SeriesStep newest_;
  uint32_t first_run_ = 0;  // First run that is kept.
  // Dropped slots and steps at the start of that run, or of the open run if no packed run is left.
  uint16_t gone_slots_ = 0, gone_steps_ = 0;
  uint32_t step_s_;
  uint32_t count_ = 0;
  uint32_t bytes_ = 0;
};

}  // namespace volador::dashboard
