#include "tune/loop/trial.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace volador::tune {

TrialId TrialId::of(uint64_t run_key, int64_t index) {
  VOLADOR_CHECK(index >= 0 && index <= int64_t{UINT32_MAX});
  // Each step is a bijection on 32 bits, so that different indices stay different (the finaliser of MurmurHash3, twice,
  // keyed).
  auto x = static_cast<uint32_t>(index);
  const auto mix = [&x](uint32_t key) {
    x ^= key;
    x ^= x >> 16;
    x *= 0x85ebca6bU;
    x ^= x >> 13;
    x *= 0xc2b2ae35U;
    x ^= x >> 16;
  };
  mix(static_cast<uint32_t>(run_key) ^ 0x9e3779b9U);
  mix(static_cast<uint32_t>(run_key >> 32) ^ 0x7f4a7c15U);
  return TrialId(x);
}

Result<TrialId> TrialId::parse(std::string_view text) {
  uint32_t value = 0;
  const auto digit = [](char c) {
    return (c >= '0' && c <= '9') ? c - '0' : (c >= 'a' && c <= 'f') ? c - 'a' + 10 : -1;
  };
  bool good = text.size() == 8;
  for (size_t i = 0; good && i < text.size(); ++i) {
    good = digit(text[i]) >= 0;
    value = value << 4 | static_cast<uint32_t>(digit(text[i]) & 15);
  }
  if (!good)
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("trial id: expected 8 hex digits, got \"{}\"", text.substr(0, 64)));
  return TrialId(value);
}

std::string to_string(TrialId id) { return fmt::format("{:08x}", id.value()); }

std::string_view to_string(TrialStatus status) {
  switch (status) {
    case TrialStatus::kWaiting:
      return "waiting";
    case TrialStatus::kRunning:
      return "running";
    case TrialStatus::kPaused:
      return "paused";
    case TrialStatus::kFinished:
      return "finished";
    case TrialStatus::kStopped:
      return "stopped";
    case TrialStatus::kFailed:
      return "failed";
    case TrialStatus::kInterrupted:
      return "interrupted";
    case TrialStatus::kUnstarted:
      return "unstarted";
  }
  return "waiting";
}

void MetricSummary::add(double value, int64_t step) {
  last = value;
  last_step = step;
  if (!is_result(value)) {
    ++nan_count;
    return;
  }
  ++count;
  if (count == 1) {
    min = max = mean = value;
    min_step = max_step = step;
    return;
  }
  if (value < min) min = value, min_step = step;
  if (value > max) max = value, max_step = step;
  mean += (value - mean) / static_cast<double>(count);
}

const Checkpoint* Trial::best_checkpoint(Mode mode) const {
  const Checkpoint* best = nullptr;
  for (const Checkpoint& checkpoint : checkpoints) {
    if (best == nullptr || !better(best->score, checkpoint.score, mode))
      best = &checkpoint;  // Ties go to the later one.
  }
  return best;
}

}  // namespace volador::tune
