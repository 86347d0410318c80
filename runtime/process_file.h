// Files that name a running process so that it can be found later, and never mistaken for another that got its number.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "runtime/result.h"

namespace volador {

// A process, identified for good: numbers are used again, but not at the same tick of the same boot.
struct ProcessRecord {
  pid_t pid = 0;
  uint64_t start_ticks = 0;  // /proc/<pid>/stat, field 22.
  std::string boot_id;

  bool operator==(const ProcessRecord&) const = default;
};

// kNotFound: there is no such process, or it has ended and waits to be reaped.
[[nodiscard]] Result<ProcessRecord> describe_process(pid_t pid);
// Whether exactly this process still runs.
bool is_running(const ProcessRecord& record);

// "4711 123456 <boot id>\n", and back. kInvalidArgument where the text is something else.
std::string to_text(const ProcessRecord& record);
[[nodiscard]] Result<ProcessRecord> parse_process_record(std::string_view text);

// The process that a file names, if it runs; none where there is no file, or it is damaged, or the process has ended.
std::optional<ProcessRecord> running_process(const std::filesystem::path& file);

// Names this process in a file for as long as the object lives.
class ProcessFile {
 public:
  // kUnavailable: a process that still runs is named there. Else errors as write_file_atomic.
  [[nodiscard]] static Result<ProcessFile> claim(std::filesystem::path file);
  ProcessFile(ProcessFile&& other) noexcept : file_(std::move(other.file_)) { other.file_.clear(); }
  ProcessFile& operator=(ProcessFile&&) = delete;
  // Removes the file where it still names this process (not a child that was forked while it lived).
  ~ProcessFile();

 private:
  explicit ProcessFile(std::filesystem::path file) : file_(std::move(file)) {}
  std::filesystem::path file_;
};

}  // namespace volador
