// Steps of one level of a series, kept small: a step whose least, mean and greatest value are the same takes two
// bytes, any other six; a minute in which nothing changes takes none. What is older than the newest run of 64 (that one too, once it rests) is
// exact to 1/65,000 of its run's range, and whole where its values are multiples of that. Pure. One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
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
  // No step came for so long that the next one begins a new run: the last one is packed, too. Changes nothing else.
  void rest(int64_t now_s);
  // The oldest go until `count` (at least 1) are left.
  void keep(size_t count);
  // Those from `from_s` to before `to_s`, oldest first.
  std::vector<SeriesStep> read(int64_t from_s, int64_t to_s) const;

 private:
  static constexpr size_t kRunSlots = 64;
  static constexpr size_t kGapSlots = 8;  // A longer gap begins a new run.

  // Steps one after the other; a slot may be without one. Three values a slot where they are spread: least, mean, greatest; else one.
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
  // One that is whole: base + code × 2^exponent.
  struct Packed : Slots {
    int8_t exponent = 0;
    float base = 0;
    std::unique_ptr<uint16_t[]> codes;  // None: every slot is a step of `base`.

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
  std::unique_ptr<Open> open_;  // Null: none, where it rests or has one step. The newest step of all is not in it.
  SeriesStep newest_;
  uint32_t first_run_ = 0;                    // Those before it are gone,
  uint16_t gone_slots_ = 0, gone_steps_ = 0;  // and these of it, or of the open one after the last.
  uint32_t step_s_;
  uint32_t count_ = 0;
  uint32_t bytes_ = 0;
};

}  // namespace volador::dashboard
