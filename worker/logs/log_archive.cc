#include "worker/logs/log_archive.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <deque>
#include <iterator>
#include <set>
#include <string_view>

#include "runtime/files/durable_file.h"
#include "runtime/ids.h"
#include "runtime/protocol/error_info.h"
#include "runtime/quantities.h"
#include "worker/logs/log_file.h"

namespace volador::worker {
namespace {

namespace fs = std::filesystem;

constexpr int kFilesMax = 100;  // Per log.

// Returns "3f2a91c0-0.out.2" (LogFile) or "worker.2.log" (the worker's own log).
fs::path rotated(const fs::path& log, int number) {
  if (number == 0) return log;
  if (log.extension() == ".log") return log.parent_path() / fmt::format("{}.{}.log", log.stem().string(), number);
  return fmt::format("{}.{}", log.string(), number);
}

// The writer limits the size of log files.
Result<std::string> text_of(const fs::path& path) { return read_file(path, SIZE_MAX); }

// Returns the offset of line `number` in a text whose first line is `first`; the end of the text if there is none.
size_t start_of(std::string_view text, int64_t first, int64_t number) {
  size_t at = 0;
  for (; first < number && at < text.size(); ++first) {
    const size_t end = text.find('\n', at);
    if (end == std::string_view::npos) return text.size();
    at = end + 1;
  }
  return at;
}

// Does not cut inside a UTF-8 character.
std::string cut(std::string_view line, size_t bytes_max) {
  if (line.size() <= bytes_max) return std::string(line);
  size_t kept = bytes_max;
  while (kept > 0 && (static_cast<unsigned char>(line[kept]) & 0xC0) == 0x80) --kept;
  return fmt::format("{} … [{} cut]", line.substr(0, kept), counted(line.size() - kept, "byte"));
}

protocol::NumberedLine numbered(int64_t line, std::string_view text, size_t bytes_max) {
  protocol::NumberedLine out;
  out.set_line(line);
  out.set_text(cut(text, bytes_max));
  return out;
}

int64_t bytes_of(const fs::path& log) {
  int64_t bytes = 0;
  std::error_code gone;
  for (int i = 0; i < kFilesMax; ++i) {
    const auto size = fs::file_size(rotated(log, i), gone);
    if (gone && i > 0) break;
    if (!gone) bytes += static_cast<int64_t>(size);
  }
  return bytes;
}

// Returns the runs with files in the folder; the first file of run 1 is "3f2a91c0-0.out".
std::set<int32_t> runs_of(const fs::path& folder, const std::string& actor) {
  std::set<int32_t> runs;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename();
    if (!name.starts_with(actor + "-")) continue;
    int32_t restarts = 0;
    const char* from = name.data() + actor.size() + 1;
    const auto read = std::from_chars(from, name.data() + name.size(), restarts);
    if (read.ec == std::errc() && read.ptr != from && *read.ptr == '.' && restarts >= 0 && restarts < INT32_MAX)
      runs.insert(restarts + 1);
  }
  return runs;
}

}  // namespace

LogArchive::LogArchive(fs::path worker_log, fs::path host_logs, const LogArchiveLimits& limits)
    : worker_log_(std::move(worker_log)), host_logs_(std::move(host_logs)), limits_(limits) {}

protocol::LogPart LogArchive::read(const protocol::ReadLog& asked) {
  protocol::LogPart answer;
  const auto done = [&](const Error& error) { fill(*answer.mutable_error(), error); };
  answer.set_request(asked.request());
  const auto log = find(asked, answer);
  if (!log) {
    done(log.error());
    return answer;
  }
  const std::vector<Piece> pieces = pieces_of(*log);
  answer.set_first(pieces.empty() ? 1 : pieces.front().first);
  answer.set_last(pieces.empty() ? 0 : pieces.back().first + pieces.back().lines - 1);
  const bool any = LogWanted{asked.find(), asked.trouble()}.any();
  if (const auto read = any ? read_lines(pieces, asked, answer) : search(pieces, asked, answer); !read)
    done(read.error());
  return answer;
}

Result<fs::path> LogArchive::find(const protocol::ReadLog& asked, protocol::LogPart& answer) const {
  if (asked.actor_id().empty()) return worker_log_;
  const std::string actor = short_id(id_from_raw<ActorId>(asked.actor_id()));
  const auto log = [&](int32_t run, std::string_view kind) {
    return host_logs_ / fmt::format("{}-{}.{}", actor, run - 1, kind);
  };
  int32_t run = asked.run();
  if (run <= 0) {
    const std::set<int32_t> runs = runs_of(host_logs_, actor);
    if (runs.empty()) {
      return make_error(
          ErrorCode::kNotFound,
          fmt::format("actor {} has printed nothing on this node, or what it printed was removed with the oldest logs",
                      actor));
    }
    for (const int32_t one : runs) {
      protocol::LogRun& row = *answer.add_runs();
      row.set_run(one);
      row.set_out_bytes(bytes_of(log(one, "out")));
      row.set_err_bytes(bytes_of(log(one, "err")));
    }
    run = *runs.rbegin();
  }
  answer.set_run(run);
  return log(run, asked.is_stderr() ? "err" : "out");
}

std::vector<LogArchive::Piece> LogArchive::pieces_of(const fs::path& log) {
  std::vector<Piece> pieces;
  std::error_code gone;
  for (int i = 0; i < kFilesMax; ++i) {
    Piece piece{.path = rotated(log, i)};
    const auto size = fs::file_size(piece.path, gone);
    if (gone && i > 0) break;
    if (gone) continue;  // Rotated away just now: the first line of the next file shows it.
    piece.bytes = size;
    piece.lines = lines_in(piece.path);
    pieces.push_back(std::move(piece));
  }
  std::reverse(pieces.begin(), pieces.end());
  // Counted back from the newest file, because removed files are at the other end.
  int64_t rotated = 0;
  for (const Piece& piece : pieces) rotated += piece.path == log ? 0 : piece.lines;
  int64_t next = std::max<int64_t>(0, read_lines_before(log) - rotated) + 1;
  for (Piece& piece : pieces) {
    piece.first = next;
    next += piece.lines;
  }
  return pieces;
}

int64_t LogArchive::lines_in(const fs::path& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0) return 0;
  const std::pair<uint64_t, uint64_t> key{info.st_dev, info.st_ino};
  const int64_t modified_ns = int64_t{info.st_mtim.tv_sec} * 1'000'000'000 + info.st_mtim.tv_nsec;
  if (const auto known = counts_.find(key);
      known != counts_.end() && known->second.bytes == info.st_size && known->second.modified_ns == modified_ns) {
    return known->second.lines;
  }
  const auto text = text_of(path);
  if (!text) return 0;
  if (counts_.size() >= limits_.counts_max) counts_.clear();
  const int64_t lines = std::count(text->begin(), text->end(), '\n');
  counts_[key] = {.bytes = static_cast<int64_t>(text->size()), .modified_ns = modified_ns, .lines = lines};
  return lines;
}

Result<void> LogArchive::read_lines(const std::vector<Piece>& pieces, const protocol::ReadLog& asked,
                                    protocol::LogPart& answer) const {
  const int64_t count = std::clamp(asked.lines(), 1, limits_.lines_max);
  int64_t next =
      asked.from() > 0 ? std::max(asked.from(), answer.first()) : std::max(answer.first(), answer.last() - count + 1);
  const int64_t end = std::min(next > INT64_MAX - count ? INT64_MAX : next + count, answer.last() + 1);
  size_t bytes = 0;
  for (const Piece& piece : pieces) {
    if (next < piece.first || next >= std::min(end, piece.first + piece.lines)) continue;
    const auto text = text_of(piece.path);
    if (!text) return make_error(text.error());
    for (size_t at = start_of(*text, piece.first, next); next < end && next < piece.first + piece.lines; ++next) {
      const size_t stop = std::min(text->find('\n', at), text->size());
      *answer.add_lines() = numbered(next, std::string_view(*text).substr(at, stop - at), limits_.line_bytes_max);
      bytes += answer.lines(answer.lines_size() - 1).text().size();
      if (bytes > limits_.answer_bytes_max) return {};
      at = std::min(stop + 1, text->size());
    }
  }
  return {};
}

Result<void> LogArchive::search(const std::vector<Piece>& pieces, const protocol::ReadLog& asked,
                                protocol::LogPart& answer) const {
  const auto most = static_cast<size_t>(std::clamp(asked.lines(), 1, limits_.lines_max));
  const bool back = asked.backward();
  const int64_t from = asked.from() > 0 ? asked.from() : back ? INT64_MAX : 1;
  const LogWanted wanted{asked.find(), asked.trouble()};
  std::deque<protocol::NumberedLine> found;  // In log order.
  size_t read = 0, bytes = 0;
  bool full = false, more = false;
  const auto keep = [&](int64_t line, std::string_view text) {
    if (full || (back ? line > from : line < from)) return;
    found.push_back(numbered(line, text, limits_.line_bytes_max));
    bytes += found.back().text().size();
    if (back && found.size() > most) {
      bytes -= found.front().text().size();
      found.pop_front();
      more = true;
    }
    full = !back && (found.size() == most || bytes > limits_.answer_bytes_max);
  };
  for (size_t i = 0; i < pieces.size(); ++i) {
    const Piece& piece = back ? pieces[pieces.size() - 1 - i] : pieces[i];
    if (back ? piece.first > from : piece.first + piece.lines <= from) continue;
    if (read > 0 && read + piece.bytes > limits_.search_bytes_max) {
      answer.set_next(back ? piece.first + piece.lines - 1 : piece.first);
      break;
    }
    read += piece.bytes;
    const auto text = text_of(piece.path);
    if (!text) return make_error(text.error());
    std::deque<protocol::NumberedLine> newer = back ? std::exchange(found, {}) : std::deque<protocol::NumberedLine>();
    find_lines(*text, piece.first, wanted, keep);
    found.insert(found.end(), std::move_iterator(newer.begin()), std::move_iterator(newer.end()));
    while (back && (found.size() > most || bytes > limits_.answer_bytes_max) && found.size() > 1) {
      bytes -= found.front().text().size();
      found.pop_front();
      more = true;
    }
    full = full || more || found.size() >= most;
    if (!full) continue;
    const int64_t next = back ? found.front().line() - 1 : found.back().line() + 1;
    answer.set_next(next < answer.first() || next > answer.last() ? 0 : next);
    break;
  }
  for (protocol::NumberedLine& line : found) *answer.add_lines() = std::move(line);
  return {};
}

}  // namespace volador::worker
