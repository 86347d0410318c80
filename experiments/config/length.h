// Lengths of training in batches, records or epochs, and their conversion to batches.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/result.h"

namespace volador::experiments {

enum class LengthUnit : uint8_t { kBatches, kRecords, kEpochs, kUnitless };

struct Length {
  LengthUnit unit = LengthUnit::kBatches;
  int64_t amount = 0;

  bool operator==(const Length&) const = default;
};

// What records and epochs are converted with; 0: unknown.
struct BatchSizes {
  int64_t global_batch_size = 0;
  int64_t records_per_epoch = 0;
};

// "batches", "records", "epochs"; empty without a unit.
std::string_view name_of(LengthUnit unit);
// "64 epochs", "100".
std::string to_string(const Length& length);

// Number of whole batches: an incomplete last batch is dropped, but what is less than one batch is one. 0 stays 0. A length
// without a unit is taken as batches.
//
// kInvalidArgument: the batch size or the records per epoch are needed and not above 0, or the result has more than 63
// bits.
[[nodiscard]] Result<int64_t> batches_of(const Length& length, const BatchSizes& sizes);

}  // namespace volador::experiments
