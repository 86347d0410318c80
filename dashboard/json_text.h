// Appending JSON to a string: rows are made once and copied many times, so they are text from the start.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace volador::v1 {
class LogLine;
class ReadLogReply;
}

namespace volador::dashboard {

// In quotes; control characters escaped, bytes that are no UTF-8 replaced by U+FFFD.
void append_json_string(std::string& out, std::string_view text);
// The shortest decimal that reads back the same; null for what JSON cannot say.
void append_json_number(std::string& out, double value);
void append_json_number(std::string& out, float value);

// {"a":1,"b":"x"}, member by member.
class JsonObject {
 public:
  explicit JsonObject(std::string& out) : out_(out) { out_ += '{'; }
  void text(std::string_view key, std::string_view value) { name(key), append_json_string(out_, value); }
  void number(std::string_view key, double value) { name(key), append_json_number(out_, value); }
  void integer(std::string_view key, int64_t value) { name(key), out_ += std::to_string(value); }
  void boolean(std::string_view key, bool value) { name(key), out_ += value ? "true" : "false"; }
  // `json` is valid JSON already.
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

// A line of a log, as lists and watches show it; `id`: of its row, where it is one.
std::string line_json(const v1::LogLine& line, std::string_view id = {});
// Lines of a whole log, with what is there of it.
std::string log_part_json(const v1::ReadLogReply& reply);

}  // namespace volador::dashboard
