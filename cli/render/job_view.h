// Jobs as text.
#pragma once

#include <cstdint>
#include <string>

#include "cli/render/terminal.h"
#include "jobs/job_output.h"

namespace volador::v1 {
class Job;
class JobStart;
class ListJobsReply;
}  // namespace volador::v1

namespace volador::cli {

// `now_ms`: Unix time.
std::string jobs_text(const v1::ListJobsReply& reply, int64_t now_ms, const Terminal& terminal);
std::string job_text(const v1::Job& job, int64_t now_ms, const Terminal& terminal);
// "starts now", "starts about 14:20 (at the latest 15:10), behind 3 jobs"; "never with the present nodes".
std::string start_text(const v1::JobStart& start, int64_t now_ms, const Terminal& terminal);
// One line: "job-7 (digits) is queued: needs gpus 4 on each node; …".
std::string job_line(const v1::Job& job, int64_t now_ms, const Terminal& terminal);

// Prints a line of a job's output, also as JSON. `several`: the job has more ranks, so that each line names its own.
void print_output(const Terminal& terminal, bool json, bool several, const jobs::JobOutput::Line& line);

}  // namespace volador::cli
