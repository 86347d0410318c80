// Appends JSON to a string: rows are created once and copied often, so they are text from the start.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace volador::v1 {
class LogLine;
class ReadLogReply;
}  // namespace volador::v1

namespace volador::dashboard {

// Adds quotes, escapes control characters, and replaces invalid UTF-8 by U+FFFD.
void append_json_string(std::string& out, std::string_view text);
// The shortest decimal that round-trips; null for NaN and infinities.
void append_json_number(std::string& out, double value);
void append_json_number(std::string& out, float value);

// Builds an object like {"a":1,"b":"x"}, member by member.
class JsonObject {
 public:
  explicit JsonObject(std::string& out) : out_(out) { out_ += '{'; }
  void text(std::string_view key, std::string_view value) { name(key), append_json_string(out_, value); }
  void number(std::string_view key, double value) { name(key), append_json_number(out_, value); }
  void integer(std::string_view key, int64_t value) { name(key), out_ += std::to_string(value); }
  void boolean(std::string_view key, bool value) { name(key), out_ += value ? "true" : "false"; }
  // `json` must be valid JSON.
  void raw(std::string_view key, std::string_view json) { name(key), out_ += json; }
  std::string& value_of(std::string_view key) { return name(key), out_; }
  void end() { out_ += '}'; }

 private:
  void name(std::string_view key) {
    if (!first_) out_ += ',';
    first_ = false;
    append_json_string(out_, key);
    out_ += ':';
  }

  std::string& out_;
  bool first_ = true;
};

// A log line in the format of lists and watches; `id`: id of its row, if any.
std::string line_json(const v1::LogLine& line, std::string_view id = {});
// Lines of a complete log, and the available range.
std::string log_part_json(const v1::ReadLogReply& reply);

}  // namespace volador::dashboard
