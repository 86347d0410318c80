// Division of a model's gradients into buckets that are reduced one by one during the backward pass.
// Pure: no clock, thread, I/O or randomness.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace volador::train {

// A parameter as the plan sees it.
struct ParameterShape {
  std::string name;           // For messages.
  int64_t elements = 0;       // At least 0.
  int64_t element_bytes = 4;  // Size of one element of its type.
  int kind = 0;               // Type and device as one number: a bucket holds parameters of one kind.
};

// Elements [offset, offset + elements) of a bucket.
struct BucketSlot {
  size_t parameter = 0;  // Index in the list given to plan_buckets.
  int64_t offset = 0;    // In elements; a multiple of 64 bytes.
  int64_t elements = 0;
};

struct Bucket {
  int kind = 0;
  int64_t element_bytes = 4;
  int64_t elements = 0;           // With padding and, in the last bucket, the control words.
  std::vector<BucketSlot> slots;  // Empty: holds control words only, of float elements.
  int64_t bytes() const { return elements * element_bytes; }
};

struct BucketOptions {
  int64_t first_bytes = 1 << 20;  // Limit of the first bucket, so that the first reduction starts early.
  int64_t bytes = 4 << 20;        // Limit of the others; a larger parameter has a bucket of its own.
  int64_t control_words = 0;      // Elements added at the end of the last bucket.
  bool control_apart = false;     // Makes a last bucket for them alone, of float elements.
};

struct BucketPlan {
  std::vector<Bucket> buckets;
  int64_t control_offset = 0;  // First control word, in elements of the last bucket.
};

// Buckets in reverse order of the parameters, which is about the order in which their gradients become ready. The
// result depends on the arguments only, so that sums are equal on every rank and after a restart. Without parameters
// there is one bucket, for the control words.
BucketPlan plan_buckets(const std::vector<ParameterShape>& parameters, const BucketOptions& options);

}  // namespace volador::train
