#include "dashboard/json_text.h"

#include <array>
#include <charconv>
#include <cmath>

#include "runtime/protocol/volador/v1/cluster.pb.h"

namespace volador::dashboard {
namespace {

// Length of the valid UTF-8 character at the front; 0: none.
size_t character(std::string_view text) {
  const auto byte = [&](size_t at) { return static_cast<uint8_t>(text[at]); };
  const uint8_t first = byte(0);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xF0 && first <= 0xF4  ? 4
                        : first >= 0xE0 && first < 0xF0 ? 3
                        : first >= 0xC2 && first < 0xE0 ? 2
                                                        : 0;
  if (length == 0 || text.size() < length) return 0;
  for (size_t at = 1; at < length; ++at) {
    if ((byte(at) & 0xC0) != 0x80) return 0;
  }
  if (first == 0xE0 && byte(1) < 0xA0) return 0;  // Overlong encoding.
  if (first == 0xED && byte(1) > 0x9F) return 0;  // UTF-16 surrogate.
  if (first == 0xF0 && byte(1) < 0x90) return 0;
  if (first == 0xF4 && byte(1) > 0x8F) return 0;
  return length;
}

}  // namespace

void append_json_string(std::string& out, std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  out += '"';
  while (!text.empty()) {
    const char c = text.front();
    if (c == '"' || c == '\\') {
      out += '\\';
      out += c;
      text.remove_prefix(1);
    } else if (static_cast<uint8_t>(c) < 0x20 || c == 0x7F) {
      out += "\\u00";
      out += kHex[static_cast<uint8_t>(c) >> 4];
      out += kHex[static_cast<uint8_t>(c) & 15];
      text.remove_prefix(1);
    } else if (const size_t length = character(text); length > 0) {
      out += text.substr(0, length);
      text.remove_prefix(length);
    } else {
      out += "\xEF\xBF\xBD";
      text.remove_prefix(1);
    }
  }
  out += '"';
}

namespace {

template <class Number>
void append_number(std::string& out, Number value) {
  if (!std::isfinite(value)) {
    out += "null";
    return;
  }
  std::array<char, 32> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  out.append(digits.data(), static_cast<size_t>(end - digits.data()));
}

// Facts stated in the line itself; nothing if there are none.
template <class Line>
void append_line_facts(JsonObject& row, const Line& line) {
  if (line.time_ms() != 0) row.integer("time_ms", line.time_ms());
  if (!line.level().empty()) row.text("level", line.level());
}

}  // namespace

void append_json_number(std::string& out, double value) { append_number(out, value); }
void append_json_number(std::string& out, float value) { append_number(out, value); }

std::string line_json(const v1::LogLine& line, std::string_view id) {
  std::string text;
  JsonObject row(text);
  if (!id.empty()) row.text("id", id);
  row.text("source", line.source());
  row.text("node", line.node());
  row.boolean("stderr", line.is_stderr());
  row.text("text", line.text());
  append_line_facts(row, line);
  row.end();
  return text;
}

std::string log_part_json(const v1::ReadLogReply& reply) {
  std::string lines = "[", runs = "[", text;
  for (const v1::NumberedLine& line : reply.lines()) {
    if (lines.size() > 1) lines += ',';
    JsonObject row(lines);
    row.integer("line", line.line());
    row.text("text", line.text());
    append_line_facts(row, line);
    row.end();
  }
  for (const v1::LogRun& run : reply.runs()) {
    if (runs.size() > 1) runs += ',';
    JsonObject row(runs);
    row.integer("run", run.run());
    row.integer("out_bytes", run.out_bytes());
    row.integer("err_bytes", run.err_bytes());
    row.end();
  }
  JsonObject part(text);
  part.text("node", reply.node());
  part.integer("first", reply.first());
  part.integer("last", reply.last());
  part.integer("next", reply.next());
  part.integer("run", reply.run());
  part.raw("lines", lines + "]");
  part.raw("runs", runs + "]");
  part.end();
  return text;
}

}  // namespace volador::dashboard
