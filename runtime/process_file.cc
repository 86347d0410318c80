#include "runtime/process_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <fstream>
#include <iterator>
#include <sstream>

#include "runtime/machine.h"
#include "runtime/paths.h"

namespace volador {

namespace {
constexpr size_t kProcessFileBytesMax = 256;
}  // namespace

Result<ProcessRecord> describe_process(pid_t pid) {
  auto missing = [&] { return make_error(ErrorCode::kNotFound, fmt::format("there is no process {}", pid)); };
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  const std::string stat{std::istreambuf_iterator<char>(file), {}};
  // The second field is the command in parentheses, which may itself contain parentheses and spaces.
  const size_t bracket = stat.rfind(')');
  if (bracket == std::string::npos) return missing();
  std::istringstream fields(stat.substr(bracket + 1));
  std::string state, skipped;
  fields >> state;
  for (int field = 4; field < 22; ++field) fields >> skipped;
  uint64_t start_ticks = 0;
  if (!(fields >> start_ticks) || state == "Z" || state == "X") return missing();
  auto boot = boot_id();
  if (!boot) return make_error(boot.error());
  return ProcessRecord{.pid = pid, .start_ticks = start_ticks, .boot_id = *boot};
}

bool is_running(const ProcessRecord& record) {
  auto now = describe_process(record.pid);
  return now && *now == record;
}

std::string to_text(const ProcessRecord& record) {
  return fmt::format("{} {} {}\n", record.pid, record.start_ticks, record.boot_id);
}

Result<ProcessRecord> parse_process_record(std::string_view text) {
  ProcessRecord record;
  const char* const end = text.data() + text.size();
  auto pid = std::from_chars(text.data(), end, record.pid);
  const bool pid_good = pid.ec == std::errc() && pid.ptr != end && *pid.ptr == ' ' && record.pid > 0;
  if (pid_good) {
    auto ticks = std::from_chars(pid.ptr + 1, end, record.start_ticks);
    if (ticks.ec == std::errc() && ticks.ptr != end && *ticks.ptr == ' ' && text.back() == '\n') {
      record.boot_id = std::string(ticks.ptr + 1, end - 1);
      if (!record.boot_id.empty()) return record;
    }
  }
  return make_error(ErrorCode::kInvalidArgument, "not a record of a process");
}

std::optional<ProcessRecord> running_process(const std::filesystem::path& file) {
  auto text = read_file_limited(file, kProcessFileBytesMax);
  if (!text) return std::nullopt;
  auto record = parse_process_record(*text);
  if (!record || !is_running(*record)) return std::nullopt;
  return *record;
}

Result<ProcessFile> ProcessFile::claim(std::filesystem::path file) {
  if (auto other = running_process(file); other && other->pid != ::getpid())
    return make_error(ErrorCode::kUnavailable, fmt::format("process {} of {} still runs", other->pid, file.native()));
  auto self = describe_process(::getpid());
  if (!self) return make_error(self.error());
  VOLADOR_TRY(write_file_atomic(file, to_text(*self), 0600));
  return ProcessFile(std::move(file));
}

ProcessFile::~ProcessFile() {
  if (file_.empty()) return;
  auto named = running_process(file_);
  if (named && named->pid == ::getpid()) ::unlink(file_.c_str());
}

}  // namespace volador
