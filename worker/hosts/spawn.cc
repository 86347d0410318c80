#include "worker/hosts/spawn.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>

extern char** environ;

namespace volador::worker {
namespace {

constexpr int kAboveTargets = 100;  // Descriptors are duplicated above it, so that no target overwrites a source.
constexpr size_t kOutputBytesMax = 1 << 20;

struct FileActions {
  posix_spawn_file_actions_t actions;
  FileActions() { posix_spawn_file_actions_init(&actions); }
  ~FileActions() { posix_spawn_file_actions_destroy(&actions); }
  FileActions(const FileActions&) = delete;
  FileActions& operator=(const FileActions&) = delete;
};
struct Attributes {
  posix_spawnattr_t attributes;
  Attributes() { posix_spawnattr_init(&attributes); }
  ~Attributes() { posix_spawnattr_destroy(&attributes); }
  Attributes(const Attributes&) = delete;
  Attributes& operator=(const Attributes&) = delete;
};

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

}  // namespace

Environment own_environment() {
  Environment out;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const size_t equals = text.find('=');
    if (equals != std::string_view::npos) out.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return out;
}

Result<pid_t> spawn(const SpawnRequest& request) {
  std::vector<std::string> argv = request.argv.empty() ? std::vector<std::string>{request.path} : request.argv;
  std::vector<std::string> env;
  for (const auto& [name, value] : request.env) env.push_back(name + "=" + value);

  FileActions files;
  std::vector<net::UniqueFd> copies;
  posix_spawn_file_actions_addopen(&files.actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  const auto place = [&](int fd, int target) -> Result<void> {
    if (fd < 0) {
      posix_spawn_file_actions_addopen(&files.actions, target, "/dev/null", O_WRONLY, 0);
      return {};
    }
    copies.emplace_back(::fcntl(fd, F_DUPFD_CLOEXEC, kAboveTargets));
    if (!copies.back()) {
      return make_error(ErrorCode::kUnavailable, fmt::format("no descriptor left to start {}: {}; raise `ulimit -n`",
                                                             request.path, std::strerror(errno)));
    }
    posix_spawn_file_actions_adddup2(&files.actions, copies.back().get(), target);
    return {};
  };
  VOLADOR_TRY(place(request.stdout_fd, STDOUT_FILENO));
  VOLADOR_TRY(place(request.stderr_fd, STDERR_FILENO));
  int target = kFirstPassedFd;
  for (const int fd : request.fds) VOLADOR_TRY(place(fd, target++));
  posix_spawn_file_actions_addclosefrom_np(&files.actions, target);
  if (!request.cwd.empty()) posix_spawn_file_actions_addchdir_np(&files.actions, request.cwd.c_str());

  Attributes how;
  sigset_t none;
  sigset_t all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&how.attributes, &none);
  posix_spawnattr_setsigdefault(&how.attributes, &all);
  posix_spawnattr_setflags(&how.attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID);

  pid_t pid = 0;
  const int error = ::posix_spawn(&pid, request.path.c_str(), &files.actions, &how.attributes, pointers(argv).data(),
                                  pointers(env).data());
  if (error == 0) return pid;
  const bool out_of_room = error == EAGAIN || error == ENOMEM || error == EMFILE || error == ENFILE;
  return make_error(out_of_room ? ErrorCode::kUnavailable : ErrorCode::kInvalidArgument,
                    fmt::format("cannot start {}{}: {}", request.path, request.cwd.empty() ? "" : " in " + request.cwd,
                                std::strerror(error)));
}

Result<Output> run_for_output(SpawnRequest request, std::chrono::milliseconds timeout) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    return make_error(ErrorCode::kUnavailable, fmt::format("no pipe left: {}", std::strerror(errno)));
  net::UniqueFd read_end(ends[0]);
  net::UniqueFd write_end(ends[1]);
  request.stdout_fd = write_end.get();
  request.stderr_fd = write_end.get();
  const auto pid = spawn(request);
  if (!pid) return make_error(pid.error());
  write_end.reset();
  Output output;
  const auto end = std::chrono::steady_clock::now() + timeout;
  for (char buffer[4096];;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(end - std::chrono::steady_clock::now()).count();
    pollfd wait{read_end.get(), POLLIN, 0};
    const int ready = left <= 0 ? 0 : ::poll(&wait, 1, static_cast<int>(left));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) {
      output.timed_out = true;
      ::kill(-*pid, SIGKILL);
      break;
    }
    const ssize_t got = ::read(read_end.get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    if (output.text.size() < kOutputBytesMax) output.text.append(buffer, static_cast<size_t>(got));
  }
  while (::waitpid(*pid, &output.wait_status, 0) < 0 && errno == EINTR) {
  }
  return output;
}

}  // namespace volador::worker
