// Steps of one level of a series, kept small: a step whose least, mean and greatest value are the same takes four
// bytes, any other twelve. Pure. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace volador::dashboard {

struct SeriesStep {
  int64_t seconds = 0;  // Of Unix time: the beginning of the step.
  float min = 0, mean = 0, max = 0;
};

class SeriesSteps {
 public:
  // `step_s`: from one step to the next.
  explicit SeriesSteps(int64_t step_s) : step_s_(static_cast<uint32_t>(step_s)) {}

  bool empty() const { return count_ == 0; }
  size_t size() const { return count_; }
  size_t bytes() const { return bytes_; }
  int64_t newest_s() const { return empty() ? 0 : newest_.seconds; }  // 0: there is none.
  int64_t oldest_s() const;

  // Later than all others, by a multiple of step_s; no NaN.
  void push(const SeriesStep& step);
  SeriesStep& newest() { return newest_; }  // Not of none.
  // The oldest go until `count` (at least 1) are left.
  void keep(size_t count);
  // Those from `from_s` to before `to_s`, oldest first.
  std::vector<SeriesStep> read(int64_t from_s, int64_t to_s) const;

 private:
  static constexpr size_t kRunSlots = 64;
  static constexpr size_t kGapSlots = 8;  // A longer gap begins a new run.

  // Steps one after the other, the newest one of all left out. A slot without a step holds NaN.
  struct Run {
    uint32_t first_s = 0;
    uint16_t slots = 0, steps = 0;
    bool spread = false;  // Three values a slot: least, mean, greatest; else one.
    std::vector<float> values;

    bool is_step(size_t slot) const;
    SeriesStep at(size_t slot, int64_t step_s) const;
    void append(size_t slot, const SeriesStep& step);
    size_t bytes() const { return sizeof(Run) + values.capacity() * sizeof(float); }
  };

  void settle();
  void forget_first_run();

  std::vector<Run> runs_;
  SeriesStep newest_;
  uint32_t first_run_ = 0;                    // Those before it are gone,
  uint16_t gone_slots_ = 0, gone_steps_ = 0;  // and these of it.
  uint32_t step_s_;
  uint32_t count_ = 0;
  uint32_t bytes_ = 0;
};

}  // namespace volador::dashboard
