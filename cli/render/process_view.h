// Text output of processes, stacks and timelines.
#pragma once

#include <string>

#include "cli/render/terminal.h"

namespace volador::v1 {
class NodeProcesses;
class StackReply;
class TimelineReply;
}  // namespace volador::v1

namespace volador::cli {

// Sorts by node, then by role: head, worker, programs, actors, spare processes, templates.
void sort_processes(v1::NodeProcesses& found);
std::string processes_text(const v1::NodeProcesses& found, int limit, const Terminal& terminal);
std::string processes_json(const v1::NodeProcesses& found, int limit);

std::string stack_text(const v1::StackReply& stack);
std::string stack_json(const v1::StackReply& stack);

// Describes the saved file.
std::string timeline_text(const v1::TimelineReply& timeline, const std::string& file);

}  // namespace volador::cli
