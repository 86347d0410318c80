// Stacks and timelines of processes as JSON, for the HTTP API and the command line.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace volador::v1 {
class NodeProcesses;
class StackReply;
class TimelineReply;
}  // namespace volador::v1

namespace volador::dashboard {

nlohmann::ordered_json stack_object(const v1::StackReply& stack);
// Chrome's trace event format, which Perfetto also reads: one process per host, complete events in microseconds of Unix
// time. `missing` next to the events lists processes without a reply.
std::string chrome_trace(const v1::TimelineReply& timeline);

// [{"pid":31,"kind":"actors","actors":["3f2a…"],"cpu_cores":0.2,"memory_bytes":1,"node":"a","program":"train","started_ms":1}];
// an idle template also has "ends_in_s".
std::string process_rows_text(const v1::NodeProcesses& found);
// {"processes": those rows}
std::string processes_text(const v1::NodeProcesses& found);

}  // namespace volador::dashboard
