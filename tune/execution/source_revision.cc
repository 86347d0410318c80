#include "tune/execution/source_revision.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <optional>
#include <string_view>
#include <vector>

namespace volador::tune {
namespace {

using Deadline = std::chrono::steady_clock::time_point;

// Returns a program's output, up to `bytes_max`, if it succeeds in time. A program that prints more or takes longer is
// killed with its children.
std::optional<std::string> output_of(std::vector<std::string> words, size_t bytes_max, Deadline deadline, bool& cut) {
  std::array<int, 2> pipe{};
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0) return std::nullopt;
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, pipe[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&files, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawnattr_t attributes;  // A separate process group: Ctrl-C does not reach it, and it can be killed as a whole.
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  posix_spawnattr_setpgroup(&attributes, 0);
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t child = -1;
  const bool started = ::posix_spawnp(&child, argv[0], &files, &attributes, argv.data(), environ) == 0;
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  ::close(pipe[1]);
  std::string text;
  bool ended = false;
  while (started && !ended && text.size() < bytes_max) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
    pollfd wait{.fd = pipe[0], .events = POLLIN, .revents = 0};
    if (left <= 0 || ::poll(&wait, 1, static_cast<int>(left)) <= 0) break;
    std::array<char, 1 << 16> buffer;
    const ssize_t count = ::read(pipe[0], buffer.data(), std::min(buffer.size(), bytes_max - text.size()));
    ended = count <= 0;
    if (count > 0) text.append(buffer.data(), static_cast<size_t>(count));
  }
  ::close(pipe[0]);
  if (!started) return std::nullopt;
  cut = !ended && text.size() >= bytes_max;
  if (!ended) ::kill(-child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  const bool good = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  return (ended && good) || cut ? std::optional(std::move(text)) : std::nullopt;
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

}  // namespace

SourceRevision source_revision(const std::filesystem::path& directory, std::chrono::milliseconds patience) {
  const Deadline deadline = std::chrono::steady_clock::now() + patience;
  const auto git = [&directory, deadline](std::vector<std::string> words, size_t bytes_max, bool& cut) {
    // A file system monitor configured by the repository would outlive the command.
    std::vector<std::string> all{"git", "--no-optional-locks", "--no-pager", "-c", "core.fsmonitor=false",
                                 "-C",  directory.string()};
    all.insert(all.end(), words.begin(), words.end());
    return output_of(std::move(all), bytes_max, deadline, cut);
  };
  SourceRevision revision;
  bool cut = false;
  const auto commit = git({"rev-parse", "--verify", "HEAD"}, 4096, cut);
  if (!commit) return revision;
  revision.commit = first_line(*commit);
  if (const auto branch = git({"symbolic-ref", "--short", "HEAD"}, 4096, cut)) revision.branch = first_line(*branch);
  cut = false;
  if (auto diff =
          git({"diff", "--no-color", "--no-ext-diff", "--no-textconv", "HEAD"}, SourceRevision::kDiffBytesMax, cut)) {
    revision.diff = std::move(*diff);
    revision.changed = !revision.diff.empty();
    if (cut) revision.diff += "\n… cut here: the diff is larger than 256 KiB\n";
  }
  return revision;
}

}  // namespace volador::tune
