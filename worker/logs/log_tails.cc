#include "worker/logs/log_tails.h"

#include <algorithm>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "runtime/files/file_tail.h"
#include "runtime/protocol/error_info.h"

namespace volador::worker {
namespace {

namespace fs = std::filesystem;

struct HostFile {
  fs::file_time_type written;
  fs::path path;
};

// Returns files of running and ended hosts, newest first; without rotated files.
std::vector<HostFile> host_files(const fs::path& folder) {
  std::vector<HostFile> files;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    std::error_code gone;
    const fs::path& path = entry->path();
    if (path.extension() != ".out" && path.extension() != ".err") continue;
    if (entry->file_size(gone) == 0 || gone) continue;
    const auto written = entry->last_write_time(gone);
    if (!gone) files.push_back({written, path});
  }
  std::sort(files.begin(), files.end(), [](const HostFile& a, const HostFile& b) {
    return std::tie(b.written, b.path) < std::tie(a.written, a.path);
  });
  return files;
}

protocol::LogTail to_message(FileTail tail, std::string source, bool is_stderr) {
  protocol::LogTail message;
  message.set_source(std::move(source));
  message.set_is_stderr(is_stderr);
  for (std::string& line : tail.lines) message.add_lines(std::move(line));
  return message;
}

}  // namespace

protocol::LogTails read_log_tails(const protocol::ReadLogs& asked, const fs::path& worker_log,
                                  const fs::path& host_logs, const LogTailLimits& limits) {
  protocol::LogTails answer;
  answer.set_request(asked.request());
  const auto lines = static_cast<size_t>(std::clamp(asked.lines(), 1, limits.lines_max));
  int64_t bytes_left = limits.bytes_max;
  auto own = tail_of_file(worker_log, lines, std::min(limits.file_bytes_max, bytes_left));
  if (own) {
    *answer.add_tails() = to_message(std::move(*own), "worker", false);
    bytes_left -= static_cast<int64_t>(answer.tails(0).ByteSizeLong());
  } else {
    fill(*answer.mutable_error(), {own.error().code, own.error().message + "; it may write to its terminal"});
  }
  if (!asked.hosts()) return answer;

  std::vector<protocol::LogTail> tails;
  int files = 0;
  for (const HostFile& file : host_files(host_logs)) {
    if (files++ >= limits.files_max || bytes_left <= 0) {
      answer.set_files_left_out(answer.files_left_out() + 1);
      continue;
    }
    auto tail = tail_of_file(file.path, lines, std::min(limits.file_bytes_max, bytes_left));
    if (!tail) continue;
    if (tail->lines.empty()) {  // Not even its last line fits.
      answer.set_files_left_out(answer.files_left_out() + 1);
      continue;
    }
    tails.push_back(to_message(std::move(*tail), file.path.stem(), file.path.extension() == ".err"));
    bytes_left -= static_cast<int64_t>(tails.back().ByteSizeLong());
  }
  for (auto tail = tails.rbegin(); tail != tails.rend(); ++tail) *answer.add_tails() = std::move(*tail);
  return answer;
}

}  // namespace volador::worker
