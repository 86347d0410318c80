// Checks a job's specification and fills in its defaults. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "runtime/protocol/volador/v1/jobs.pb.h"
#include "runtime/resources.h"
#include "runtime/result.h"

namespace volador::jobs {

inline constexpr int kNodesMax = 1000;
inline constexpr int kBatchMax = 10'000;  // Jobs of a batch.
inline constexpr int64_t kDurationMaxS = int64_t{366} * 24 * 3600;
inline constexpr int64_t kGracefulDefaultS = 30;
inline constexpr int64_t kGracefulMaxS = 24 * 3600;
inline constexpr int64_t kDebugMaxS = int64_t{30} * 24 * 3600;
inline constexpr int kRestartsMax = 1000;
inline constexpr int kResumesMax = 1000;
inline constexpr size_t kSpecBytesMax = 256 << 10;
inline constexpr std::string_view kDefaultProject = "default";
// Limit of the archive of a code folder, as Determined's.
inline constexpr int64_t kFilesBytesMax = int64_t{95} << 20;

// The specification with its defaults. kInvalidArgument: a field breaks its rule; the message names the field, the
// value and the rule.
Result<v1::JobSpec> checked_spec(const v1::JobSpec& spec);

// The number of a stop signal, such as "USR1"; a leading "SIG" is allowed. kInvalidArgument: not one of those that
// JobSpec.stop_signal allows.
Result<int> stop_signal_number(std::string_view name);

// Numbers of nodes: "4", or "2-4" for an elastic job.
struct NodeCounts {
  int nodes = 0;
  int min_nodes = 0;  // 0: the text has one number.
};
// kInvalidArgument: another text.
Result<NodeCounts> parse_node_counts(std::string_view text);
// Whether the job may start on fewer than its nodes; `spec` was checked.
bool is_elastic(const v1::JobSpec& spec);
// Whether its ranks report to the head while they run: matches of log policies, and failures after which they are kept.
bool is_watched(const v1::JobSpec& spec);

// Resources that each node of the job uses. kInvalidArgument: as ResourceSet::from.
Result<ResourceSet> resources_of(const v1::JobSpec& spec);

}  // namespace volador::jobs
