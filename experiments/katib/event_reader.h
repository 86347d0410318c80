// Scalars of TensorBoard's event files.
// Pure: no clock, thread, I/O or randomness.
//
// A file is a series of records: length, masked CRC-32C of the length, an Event message, masked CRC-32C of the message.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/katib/metric_point.h"
#include "runtime/result.h"

namespace volador::experiments::katib {

inline constexpr size_t kEventBytesMax = 64 << 20;  // A longer record is not read, as one with images may be.

struct EventScalar {
  std::string tag;
  std::string value;   // As short as it is exact: "0.9349667" from 32 bits.
  double seconds = 0;  // Unix time.
  int64_t step = 0;
};

// Reads a file as it grows.
class EventReader {
 public:
  using Found = std::function<void(EventScalar scalar)>;

  // The next bytes of the file. Incomplete records wait for more.
  // kInvalidArgument: a checksum is wrong, so that what follows cannot be found; later calls fail likewise.
  Result<void> feed(std::string_view bytes, const Found& found);

 private:
  std::string rest_;
  uint64_t skip_ = 0;  // Bytes of a record that is too long.
  uint64_t read_ = 0;  // Before rest_.
  bool is_broken_ = false;
};

// The metric that a scalar with this tag is, in a file of this folder; "": none of them. A metric "train/accuracy" is the
// tag "accuracy" in a folder that ends with "train", or a tag of the whole name. Tags that TensorFlow made unique count
// too: "accuracy_1".
//
// as_katib: each metric whose last part the tag begins with is meant, and the folder is compared as a text; several
// metrics may be.
std::vector<std::string> metrics_of_tag(std::string_view tag, std::string_view folder,
                                        const std::vector<std::string>& metrics, bool as_katib);

}  // namespace volador::experiments::katib
