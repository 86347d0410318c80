// Structured logs: one event, one line: time level component "static text" key=value …
// Info is a state change, warn is degraded but handled, error means that a person must look.
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

// Where lines go. Set up once by main; before that they go to stderr at kInfo. After a fork call it again.
struct Options {
  Level level = Level::kInfo;
  // Empty: stderr. Rotated at file_bytes_max, files_max kept. Written by a thread of its own, so that no other waits for its disk.
  std::string file;
  size_t file_bytes_max = 16 << 20;
  size_t files_max = 4;
};
void configure(const Options& options);
// Waits until the file has what was written, for a second at most: before a process ends by _exit(). One that ends by exit() does it by itself.
void drain();

// Thread safe.
void write(Level level, std::string_view component, std::string_view text, std::span<const Field> fields);
inline void write(Level level, std::string_view component, std::string_view text, std::initializer_list<Field> fields = {}) {
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

// How many error lines this process has written: a test that did not declare one fails.
size_t errors_written();

// Escapes as Field values are written; exposed for tests.
std::string quoted_if_needed(std::string_view value);

}  // namespace volador::log
