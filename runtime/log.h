// Structured logs: one event, one line: time level component "static text" key=value …
// Info: a state change; warn: degraded but handled; error: needs attention.
#pragma once

#include <fmt/format.h>

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

namespace volador::log {

enum class Level : uint8_t { kDebug, kInfo, kWarn, kError, kOff };

// key=value; a value with spaces, quotes or control characters is quoted and escaped.
struct Field {
  std::string_view key;
  std::string value;

  template <class T>
  Field(std::string_view k, const T& v) : key(k), value(fmt::format("{}", v)) {}
};

// Destination of log lines. Configured once by main; before that stderr at kInfo. Configure again after a fork.
struct Options {
  Level level = Level::kInfo;
  // Empty: stderr. Rotated at file_bytes_max, with files_max files. Written by a separate thread, so that no other
  // thread waits for the disk.
  std::string file;
  size_t file_bytes_max = 16 << 20;
  size_t files_max = 4;
};
void configure(const Options& options);
// Waits up to a second until the file is written: call before _exit(). exit() does it implicitly.
void drain();

// Thread safe.
void write(Level level, std::string_view component, std::string_view text, std::span<const Field> fields);
inline void write(Level level, std::string_view component, std::string_view text,
                  std::initializer_list<Field> fields = {}) {
  write(level, component, text, std::span(fields.begin(), fields.size()));
}

inline void debug(std::string_view component, std::string_view text, std::initializer_list<Field> fields = {}) {
  write(Level::kDebug, component, text, fields);
}
inline void info(std::string_view component, std::string_view text, std::initializer_list<Field> fields = {}) {
  write(Level::kInfo, component, text, fields);
}
inline void warn(std::string_view component, std::string_view text, std::initializer_list<Field> fields = {}) {
  write(Level::kWarn, component, text, fields);
}
inline void error(std::string_view component, std::string_view text, std::initializer_list<Field> fields = {}) {
  write(Level::kError, component, text, fields);
}

// Number of error lines written by this process: tests fail on undeclared ones.
size_t errors_written();

// Escapes a field value; exposed for tests.
std::string quoted_if_needed(std::string_view value);

}  // namespace volador::log
