// Reports of jobs: who gets one, and what it says to people. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/protocol/jobs.pb.h"
#include "runtime/protocol/volador/v1/jobs.pb.h"

namespace volador::jobs {

// The targets of an event of a job: names of notifications of the settings, and mail addresses of JobSpec.notify, which
// get all events but preempted. Each once.
std::vector<std::string> notice_targets(const v1::QueueSettings& settings, const v1::JobSpec& spec,
                                        std::string_view event);

// What a report of the job needs of it.
v1::Job job_for_notice(const v1::Job& job);

// The cluster that reports name.
struct NoticeContext {
  std::string cluster;
  std::string cluster_id;
  std::string page;  // URL of the dashboard; empty: none.
};

// "job-7 train failed: on node west: exited with code 3"; of several: "5 jobs ended: 3 failed, 2 expired".
std::string notice_title(const std::vector<protocol::JobNotice>& notices);
// The title and what else is known, in lines. At most `bytes_max` bytes.
std::string notice_text(const std::vector<protocol::JobNotice>& notices, const NoticeContext& context,
                        size_t bytes_max);
// URL of the job's page; empty: there is none.
std::string notice_page(const protocol::JobNotice& notice, const NoticeContext& context);
// Distinguishes the report from all others, also in later copies of it.
std::string notice_id(const protocol::JobNotice& notice, const NoticeContext& context);

}  // namespace volador::jobs
