#include "jobs/job_set.h"

#include <fmt/format.h>

#include "jobs/job_spec.h"
#include "jobs/job_yaml.h"

namespace volador::jobs {

Result<std::vector<v1::JobSpec>> jobs_of(const JobSet& set, const std::string& unique) {
  const int kinds = (set.alternatives.empty() ? 0 : 1) + (set.tasks.empty() ? 0 : 1) + (set.array > 0 ? 1 : 0);
  if (kinds == 0) return std::vector<v1::JobSpec>{set.base};
  if (kinds > 1) {
    return make_error(ErrorCode::kInvalidArgument,
                      "jobs: expected alternatives, tasks or an array, and got more than one of them");
  }
  const std::vector<std::string>& given = set.alternatives.empty() ? set.tasks : set.alternatives;
  const size_t count = set.array > 0 ? static_cast<size_t>(set.array) : given.size();
  if (count > static_cast<size_t>(kBatchMax)) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("jobs: expected at most {} in a batch, got {}", kBatchMax, count));
  }
  std::vector<v1::JobSpec> out;
  out.reserve(count);
  const std::string name = set.base.name().empty() ? "batch-" + unique : set.base.name();
  for (size_t i = 0; i < count; ++i) {
    v1::JobSpec job = set.base;
    if (set.alternatives.empty()) {
      job.set_name(fmt::format("{}-{}", name, i));
      job.set_batch(name);
      job.set_batch_index(static_cast<int>(i));
      job.set_batch_size(static_cast<int>(count));
      if (!job.output().empty()) job.set_output(job.output() + "/" + job.name());
    } else {
      job.set_one_of(set.base.one_of().empty() ? unique : set.base.one_of());
    }
    if (set.array == 0) {
      auto changed =
          with_fields(job, given[i], fmt::format("{} {}", set.alternatives.empty() ? "task" : "alternative", i));
      if (!changed) return make_error(changed.error());
      job = std::move(*changed);
    }
    out.push_back(std::move(job));
  }
  return out;
}

}  // namespace volador::jobs
