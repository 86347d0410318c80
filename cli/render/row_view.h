// Rows of the live lists (volador.v1.Live/List) as tables for people: queue, experiments, events, studies, tasks.
#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cli/render/terminal.h"

namespace volador::v1 {
class TimelineReply;
}  // namespace volador::v1

namespace volador::cli {

// "05-31 14:03:07" in the time zone of this machine; empty for 0 and less.
std::string day_and_second(int64_t unix_ms);

// `page`: {"rows": […], "total": n} with rows as docs/api/README.md describes them. Members that a row lacks show as empty cells: rows of another
// version of the head have others. now_ms: Unix time, for how long something waits.
std::string queue_text(const nlohmann::json& page, const Terminal& terminal, int64_t now_ms);
std::string experiments_text(const nlohmann::json& page, const Terminal& terminal);
std::string events_text(const nlohmann::json& page, const Terminal& terminal);
std::string study_rows_text(const nlohmann::json& page, const Terminal& terminal);

// What the processes of a cluster ran of a function lately.
struct FunctionCounts {
  std::string name;
  int64_t running = 0, ended = 0, failed = 0;
  std::chrono::nanoseconds time{0};  // Of those that ended, together.
};
// Most running first. `runners`: rows of the actors that run tasks; other actors' calls do not count.
std::vector<FunctionCounts> count_functions(const v1::TimelineReply& timeline, const nlohmann::json& runners);
std::string tasks_text(const std::vector<FunctionCounts>& functions, const nlohmann::json& runners, const Terminal& terminal);

}  // namespace volador::cli
