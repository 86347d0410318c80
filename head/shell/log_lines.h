// Lines of logs as the API gives them.
#pragma once

#include <string>
#include <vector>

#include "head/shell/log_rings.h"

namespace volador::protocol {
class LogTails;
}
namespace volador::v1 {
class LogLine;
class NumberedLine;
}  // namespace volador::v1

namespace volador::head {

// With its level, and its time: the one that the line says, else when it was read.
v1::LogLine to_api(KeptLine line);
// As above, of a line of the head's own log.
v1::LogLine head_line(std::string text);
// Fills level and time from the text.
void state_facts(v1::NumberedLine& line);

// What a node answered of its logs in the order of time. Files keep no times: lines that the head has heard of have theirs and the name of
// their actor, older ones stand first, file by file.
std::vector<v1::LogLine> node_lines(const protocol::LogTails& answer, const std::string& node, const LogRings& rings);

}  // namespace volador::head
