// How stacks and timelines are shown.
#pragma once

#include <string>

namespace volador::v1 {
class StackReply;
class TimelineReply;
}  // namespace volador::v1

namespace volador::cli {

std::string stack_text(const v1::StackReply& stack);
std::string stack_json(const v1::StackReply& stack);

// What was saved.
std::string timeline_text(const v1::TimelineReply& timeline, const std::string& file);

}  // namespace volador::cli
