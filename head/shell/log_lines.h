// Conversion of log lines to the API.
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

// Sets level and time; the time is the one in the line, else the time of reading.
v1::LogLine to_api(KeptLine line);
// Same for a line of the head's own log.
v1::LogLine head_line(std::string text);
// Sets level and time from the text.
void state_facts(v1::NumberedLine& line);

// Orders a node's log lines by time. Files have no times: lines that the head received earlier get their time and actor
// name; older ones come first, file by file.
std::vector<v1::LogLine> node_lines(const protocol::LogTails& answer, const std::string& node, const LogRings& rings);

}  // namespace volador::head
