#include "train/core/bucket_plan.h"

#include <algorithm>

namespace volador::train {
namespace {

constexpr int64_t kAlignmentBytes = 64;

int64_t aligned(int64_t elements, int64_t element_bytes) {
  const int64_t unit = std::max<int64_t>(1, kAlignmentBytes / element_bytes);
  return (elements + unit - 1) / unit * unit;
}

}  // namespace

BucketPlan plan_buckets(const std::vector<ParameterShape>& parameters, const BucketOptions& options) {
  BucketPlan plan;
  for (size_t i = parameters.size(); i-- > 0;) {
    const ParameterShape& parameter = parameters[i];
    const int64_t limit = plan.buckets.size() <= 1 ? options.first_bytes : options.bytes;
    const int64_t bytes = parameter.elements * parameter.element_bytes;
    if (plan.buckets.empty() || plan.buckets.back().kind != parameter.kind ||
        (!plan.buckets.back().slots.empty() && plan.buckets.back().bytes() + bytes > limit)) {
      plan.buckets.push_back(
          {.kind = parameter.kind, .element_bytes = parameter.element_bytes, .elements = 0, .slots = {}});
    }
    Bucket& bucket = plan.buckets.back();
    bucket.slots.push_back({.parameter = i, .offset = bucket.elements, .elements = parameter.elements});
    bucket.elements += aligned(parameter.elements, parameter.element_bytes);
  }
  if (plan.buckets.empty() || options.control_apart) plan.buckets.emplace_back();
  Bucket& last = plan.buckets.back();
  plan.control_offset = last.elements;
  if (options.control_words > 0) last.elements += aligned(options.control_words, last.element_bytes);
  return plan;
}

}  // namespace volador::train
