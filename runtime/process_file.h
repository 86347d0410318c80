// Pid files that identify a running process even if its pid is reused.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "runtime/result.h"

namespace volador {

// Permanent identity of a process: pids are reused, but not with the same start tick in the same boot.
struct ProcessRecord {
  pid_t pid = 0;
  uint64_t start_ticks = 0;  // /proc/<pid>/stat, field 22.
  std::string boot_id;

  bool operator==(const ProcessRecord&) const = default;
};

// kNotFound: there is no such process, or it is a zombie.
[[nodiscard]] Result<ProcessRecord> describe_process(pid_t pid);
// Whether exactly this process is still running.
bool is_running(const ProcessRecord& record);

// Formats "4711 123456 <boot id>\n".
std::string to_text(const ProcessRecord& record);
[[nodiscard]] Result<ProcessRecord> parse_process_record(std::string_view text);

// Returns the process named in a file if it is running; nothing if there is no file, it is damaged, or the process has
// ended.
std::optional<ProcessRecord> running_process(const std::filesystem::path& file);

// Names this process in a file during the object's lifetime.
class ProcessFile {
 public:
  // kUnavailable: the file names a running process. Other errors as write_file_atomic.
  [[nodiscard]] static Result<ProcessFile> claim(std::filesystem::path file);
  ProcessFile(ProcessFile&& other) noexcept : file_(std::move(other.file_)) { other.file_.clear(); }
  ProcessFile& operator=(ProcessFile&&) = delete;
  // Removes the file if it still names this process (not in a forked child).
  ~ProcessFile();

 private:
  explicit ProcessFile(std::filesystem::path file) : file_(std::move(file)) {}
  std::filesystem::path file_;
};

}  // namespace volador
