#include "jobs/job_output.h"

#include <algorithm>
#include <utility>

#include "runtime/control/cluster_api.h"
#include "runtime/protocol/volador/v1/cluster.pb.h"

namespace volador::jobs {
namespace {

constexpr int kLinesAtOnce = 1000;

}  // namespace

bool JobOutput::read_stream(const v1::JobRank& rank, bool is_stderr) {
  Place& place = places_[{rank.actor(), is_stderr}];
  bool any = false;
  while (true) {
    v1::ReadLogRequest request;
    request.set_id(rank.actor());
    request.set_is_stderr(is_stderr);
    request.set_lines(kLinesAtOnce);
    if (place.next == 0 && tail_ > 0) {
      request.set_lines(std::min(tail_, kLinesAtOnce));
    } else {
      request.set_from(std::max<int64_t>(place.next, 1));
    }
    const auto reply = api_.call<v1::ReadLogReply>("Cluster/ReadLog", request);
    if (!reply || reply->lines().empty()) return any;
    for (const v1::NumberedLine& line : reply->lines()) {
      if (line.line() < place.next) continue;
      print_({.rank = rank.rank(), .node = rank.node(), .is_stderr = is_stderr, .text = line.text()});
      place.next = line.line() + 1;
      any = true;
    }
    if (place.next > reply->last()) return any;
  }
}

Result<bool> JobOutput::read(const v1::Job& job) {
  bool any = false;
  for (const auto* ranks : {&job.earlier(), &job.ranks()}) {
    for (const v1::JobRank& rank : *ranks) {
      if (rank.actor().empty() || (rank_ >= 0 && rank.rank() != rank_)) continue;
      // What has ended writes nothing more.
      const bool over = rank.state() == "ended";
      if (over && !ended_.insert(rank.actor()).second) continue;
      any |= read_stream(rank, false);
      any |= read_stream(rank, true);
    }
  }
  return any;
}

}  // namespace volador::jobs
