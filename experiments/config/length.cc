#include "experiments/config/length.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace volador::experiments {

std::string_view name_of(LengthUnit unit) {
  switch (unit) {
    case LengthUnit::kBatches:
      return "batches";
    case LengthUnit::kRecords:
      return "records";
    case LengthUnit::kEpochs:
      return "epochs";
    case LengthUnit::kUnitless:
      break;
  }
  return "";
}

std::string to_string(const Length& length) {
  return length.unit == LengthUnit::kUnitless ? fmt::format("{}", length.amount)
                                              : fmt::format("{} {}", length.amount, name_of(length.unit));
}

Result<int64_t> batches_of(const Length& length, const BatchSizes& sizes) {
  if (length.unit == LengthUnit::kBatches || length.unit == LengthUnit::kUnitless || length.amount == 0)
    return length.amount;
  if (sizes.global_batch_size < 1) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{}: hyperparameters.global_batch_size must be at least 1, got {}", to_string(length),
                                  sizes.global_batch_size));
  }
  __int128 records = length.amount;  // At most 126 bits below.
  if (length.unit == LengthUnit::kEpochs) {
    if (sizes.records_per_epoch < 1) {
      return make_error(ErrorCode::kInvalidArgument, fmt::format("{}: records_per_epoch must be at least 1, got {}",
                                                                 to_string(length), sizes.records_per_epoch));
    }
    records *= sizes.records_per_epoch;
  }
  const __int128 batches = std::max<__int128>(records / sizes.global_batch_size, 1);
  if (batches > std::numeric_limits<int64_t>::max()) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{}: more batches than 63 bits can count", to_string(length)));
  }
  return static_cast<int64_t>(batches);
}

}  // namespace volador::experiments
