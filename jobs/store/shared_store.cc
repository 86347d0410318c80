#include "jobs/store/shared_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <system_error>
#include <thread>
#include <utility>

#include "jobs/group_spawn.h"
#include "runtime/paths.h"
#include "runtime/quantities.h"

namespace volador::jobs {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

constexpr milliseconds kLockPause{50};
constexpr milliseconds kLockSilence{1000};
constexpr int64_t kRemovalEveryMs = 3'600'000;
constexpr size_t kMarkBytesMax = 4096;
constexpr size_t kShownBytes = 6000;  // At most this much output of a failed build is shown.

Error system_error(std::string_view action, const fs::path& path) { return file_error(action, path, errno); }

std::string read_descriptor(int fd) {
  std::string text;
  std::array<char, 4096> piece{};
  ssize_t got = 0;
  while ((got = ::pread(fd, piece.data(), piece.size(), static_cast<off_t>(text.size()))) > 0)
    text.append(piece.data(), static_cast<size_t>(got));
  return text;
}

// Disk space of a folder; a file with several names counts in parts.
int64_t disk_bytes(const fs::path& folder) {
  int64_t bytes = 0;
  std::error_code failed;
  for (fs::recursive_directory_iterator it(folder, failed), end; !failed && it != end; it.increment(failed)) {
    struct stat info {};
    if (::lstat(it->path().c_str(), &info) != 0) continue;
    const int64_t names = S_ISREG(info.st_mode) ? static_cast<int64_t>(info.st_nlink) : 1;
    bytes += info.st_blocks * 512 / std::max<int64_t>(names, 1);
  }
  return bytes;
}

// What <entry>/complete says.
struct CompleteMark {
  fs::path folder;
  int64_t bytes = 0;
};

std::optional<CompleteMark> complete_mark(const fs::path& entry) {
  const auto text = read_file_limited(entry / "complete", kMarkBytesMax);
  if (!text) return std::nullopt;
  const std::vector<std::string> lines = lines_in(*text);
  if (lines.size() < 2 || lines[0].empty() || lines[0].find('/') != std::string::npos) return std::nullopt;
  CompleteMark mark{.folder = entry / lines[0]};
  std::from_chars(lines[1].data(), lines[1].data() + lines[1].size(), mark.bytes);
  std::error_code failed;
  if (!fs::is_directory(mark.folder, failed)) return std::nullopt;
  return mark;
}

int64_t modified_ms(const fs::path& file) {
  struct stat info {};
  if (::stat(file.c_str(), &info) != 0) return 0;
  return int64_t{info.st_mtim.tv_sec} * 1000 + info.st_mtim.tv_nsec / 1'000'000;
}

void set_modified(const fs::path& file, int64_t ms) {
  const net::UniqueFd out(::open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  const struct timespec at { .tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1'000'000 };
  const std::array<struct timespec, 2> times = {at, at};
  if (out) ::futimens(out.get(), times.data());
}

// Opens the lock file; invalid if it was removed meanwhile or is locked otherwise.
net::UniqueFd try_lock(const fs::path& file, int operation) {
  net::UniqueFd lock(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  struct stat opened {};
  struct stat named {};
  if (!lock || ::flock(lock.get(), operation | LOCK_NB) != 0) return {};
  if (::fstat(lock.get(), &opened) != 0 || ::stat(file.c_str(), &named) != 0 || opened.st_ino != named.st_ino)
    return {};
  return lock;
}

}  // namespace

std::vector<std::string> lines_in(std::string_view text) {
  std::vector<std::string> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

// The end of a build's output, in whole lines.
std::string last_lines(const fs::path& file) {
  const net::UniqueFd in(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text = in ? read_descriptor(in.get()) : "";
  if (text.size() > kShownBytes) {
    const size_t line = text.find('\n', text.size() - kShownBytes);
    text = "...\n" + text.substr(line == std::string::npos ? text.size() - kShownBytes : line + 1);
  }
  while (text.ends_with('\n')) text.pop_back();
  return text;
}

SharedFolder::~SharedFolder() {
  if (lock_ && !used_.empty()) ::utimensat(AT_FDCWD, used_.c_str(), nullptr, 0);
}

SharedStore::SharedStore(fs::path folder, const StoreLimits& limits, const Clock& clock,
                         std::function<void(const std::string&)> say)
    : folder_(std::move(folder)), limits_(limits), clock_(clock), say_(std::move(say)) {}

void SharedStore::say(const std::string& text) const { say_(text); }

void SharedStore::cancel() {
  const std::lock_guard lock(mutex_);
  cancelled_ = true;
  if (pid_ > 0) ::kill(-pid_, SIGKILL);
}

bool SharedStore::is_cancelled() {
  const std::lock_guard lock(mutex_);
  return cancelled_;
}

int64_t SharedStore::now_ms() const { return unix_ms(clock_.wall()); }

Result<SharedFolder> SharedStore::share(const std::string& key, const StoreWords& words, const Build& build) {
  VOLADOR_TRY(make_private_directory(folder_));
  const fs::path entry = folder_ / key;
  const fs::path lock_file = folder_ / (key + ".lock");
  if (const net::UniqueFd writable(::open(lock_file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)); !writable)
    return make_error(system_error("open", lock_file));
  std::optional<BootTime> waits_since;
  bool built = false;
  while (true) {
    if (is_cancelled()) return make_error(ErrorCode::kCancelled, "the job ends");
    net::UniqueFd lock = try_lock(lock_file, LOCK_EX);
    if (lock && !complete_mark(entry)) {
      VOLADOR_TRY(build_once(entry, words, build));
      built = true;
    }
    // Others may hold the lock between the exclusive and the shared lock.
    if (lock && ::flock(lock.get(), LOCK_SH | LOCK_NB) != 0) lock.reset();
    if (!lock) lock = try_lock(lock_file, LOCK_SH);
    if (const auto mark = lock ? complete_mark(entry) : std::nullopt) {
      SharedFolder shared;
      shared.folder_ = mark->folder;
      shared.used_ = entry / "used";
      shared.lock_ = std::move(lock);
      set_modified(shared.used_, now_ms());
      if (built || now_ms() - modified_ms(folder_ / "swept") > kRemovalEveryMs) remove_unused();
      return shared;
    }
    lock.reset();
    const BootTime now = clock_.now();
    if (!waits_since) waits_since = now;
    if (*waits_since != BootTime::max() && now - *waits_since > kLockSilence) {
      say_("volador: " + words.waits);
      waits_since = BootTime::max();
    }
    std::this_thread::sleep_for(kLockPause);
  }
}

Result<void> SharedStore::build_once(const fs::path& entry, const StoreWords& words, const Build& build) {
  std::error_code failed;
  fs::remove_all(entry, failed);  // What a killed build has left.
  VOLADOR_TRY(make_private_directory(entry));
  std::string path = (entry / "XXXXXX").string();
  if (::mkdtemp(path.data()) == nullptr) return make_error(system_error("create", entry));
  say_("volador: " + words.begins);
  const BootTime began = clock_.now();
  if (auto done = build(path); !done) {
    fs::remove_all(entry, failed);
    return done;
  }
  fs::remove(fs::path(path) / "log", failed);
  const auto marked = write_file_atomic(
      entry / "complete",
      fmt::format("{}\n{}\n{}\n", fs::path(path).filename().string(), disk_bytes(entry), words.note), 0600);
  if (!marked) return marked;
  say_(fmt::format("volador: {} ({})", words.done, format_duration(clock_.now() - began)));
  return {};
}

Result<int> SharedStore::run(const std::vector<std::string>& words, const std::vector<std::string>& variables,
                             const fs::path& directory, const fs::path& output) {
  GroupSpawn spawn;
  spawn.open(STDIN_FILENO, "/dev/null", O_RDONLY);
  spawn.open(STDOUT_FILENO, output, O_WRONLY | O_CREAT | O_APPEND, 0600);
  spawn.duplicate(STDOUT_FILENO, STDERR_FILENO);
  spawn.change_directory(directory);
  pid_t child = 0;
  int failed = ECANCELED;
  {
    const std::lock_guard lock(mutex_);
    if (!cancelled_) failed = spawn.start(words, variables, child);
    if (failed == 0) pid_ = child;
  }
  if (is_cancelled() && failed != 0) return make_error(ErrorCode::kCancelled, "the job ends");
  if (failed != 0)
    return make_error(ErrorCode::kUnavailable, fmt::format("{}: {}", words.front(), std::strerror(failed)));
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  {
    const std::lock_guard lock(mutex_);
    ::kill(-child, SIGKILL);  // What it left in its group.
    pid_ = 0;
  }
  if (is_cancelled()) return make_error(ErrorCode::kCancelled, "the job ends");
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

Result<std::string> SharedStore::output_of(const std::vector<std::string>& words,
                                           const std::vector<std::string>& variables) {
  const net::UniqueFd memory(::memfd_create("volador-output", MFD_CLOEXEC));
  if (!memory) return make_error(system_error("create", "memory for the output of a program"));
  const auto code = run(words, variables, "/", fmt::format("/proc/{}/fd/{}", ::getpid(), memory.get()));
  if (!code) return make_error(code.error());
  std::string text = read_descriptor(memory.get());
  if (*code == 0) return text;
  const std::vector<std::string> lines = lines_in(text);
  return make_error(ErrorCode::kUnavailable, fmt::format("{} ended with exit code {}: {}", words.front(), *code,
                                                         lines.empty() ? "it said nothing" : lines.back()));
}

void SharedStore::remove_unused() {
  set_modified(folder_ / "swept", now_ms());
  std::error_code failed;
  std::set<std::string> keys;
  for (const auto& child : fs::directory_iterator(folder_, failed)) {
    if (child.is_directory(failed)) keys.insert(child.path().filename().string());
    if (child.path().extension() == ".lock") keys.insert(child.path().stem().string());
  }
  std::map<std::string, net::UniqueFd> locks;
  std::vector<StoredEntry> stored;
  for (const std::string& key : keys) {
    const fs::path entry = folder_ / key;
    net::UniqueFd lock = try_lock(folder_ / (key + ".lock"), LOCK_EX);
    const auto mark = complete_mark(entry);
    if (!lock && mark) set_modified(entry / "used", now_ms());  // A killed job does not note the end of its use.
    stored.push_back({.key = key,
                      .used_ms = modified_ms(entry / "used"),
                      .bytes = mark ? mark->bytes : 0,
                      .complete = mark.has_value(),
                      .in_use = !lock});
    locks[key] = std::move(lock);
  }
  const auto removed = entries_to_remove(std::move(stored), limits_, now_ms());
  std::erase_if(locks, [&](const auto& held) { return std::ranges::find(removed, held.first) == removed.end(); });
  for (const std::string& key : removed) {
    fs::remove(folder_ / key / "complete", failed);  // A killed removal leaves nothing that is taken as complete.
    fs::remove_all(folder_ / key, failed);
    fs::remove(folder_ / (key + ".lock"), failed);
  }
}

}  // namespace volador::jobs
