// Rows of the live lists (volador.v1.Live/List) as tables for users: queue, experiments, events, studies, tasks.
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

// `page`: {"rows": […], "total": n} with rows as described in docs/api/README.md. Missing members show as empty cells:
// heads of other versions have other members. now_ms: Unix time, for computing waiting times.
std::string queue_text(const nlohmann::json& page, const Terminal& terminal, int64_t now_ms);
std::string experiments_text(const nlohmann::json& page, const Terminal& terminal);
std::string events_text(const nlohmann::json& page, const Terminal& terminal);
std::string study_rows_text(const nlohmann::json& page, const Terminal& terminal);

// Recent executions of a function by the processes of a cluster.
struct FunctionCounts {
  std::string name;
  int64_t running = 0, ended = 0, failed = 0;
  std::chrono::nanoseconds time{0};  // Total time of finished executions.
};
// Most running executions first. `runners`: rows of the actors that run tasks; calls of other actors do not count.
std::vector<FunctionCounts> count_functions(const v1::TimelineReply& timeline, const nlohmann::json& runners);
std::string tasks_text(const std::vector<FunctionCounts>& functions, const nlohmann::json& runners,
                       const Terminal& terminal);

}  // namespace volador::cli
