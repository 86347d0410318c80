#include "jobs/rank_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string_view>
#include <utility>

#include "jobs/group_spawn.h"
#include "jobs/own_command.h"
#include "jobs/sandbox/sandbox.h"
#include "jobs/sandbox/system_call_filter.h"
#include "runtime/actor/self.h"

namespace volador::jobs {
namespace {

namespace fs = std::filesystem;

constexpr int kStatusFd = 9;  // In bubblewrap, likewise below.
constexpr int kFilterFd = 10;
constexpr const char* kSystemFolder = "/sys";

// Adds the entries of another root file system, without the targets of the request's files. `listed`: folders whose
// entries are added one by one, because the job has files in them that the root lacks.
void add_root(const fs::path& root, const fs::path& below, const std::vector<std::string>& listed,
              SandboxRequest& request) {
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(root / below, failed)) {
    const fs::path inside = below / entry.path().filename();
    const std::string path = "/" + inside.string();
    const bool is_link = entry.is_symlink(failed);
    if (path == kSystemFolder || request.files.contains(path)) continue;
    if (!is_link && std::ranges::find(listed, path) != listed.end()) {
      add_root(root, inside, listed, request);
      continue;
    }
    request.entries.push_back({.path = path,
                               .symlink_target = is_link ? fs::read_symlink(entry.path(), failed).string() : "",
                               .source = entry.path().string()});
  }
}

bool is_inside(const fs::path& path, const fs::path& folder) {
  return path.string().starts_with(folder.string() + "/");
}

// A file in memory with the filter of system calls, for bubblewrap; invalid: there is none. Its number is above those
// that the new process gets, so that none of them replaces it before it is duplicated.
net::UniqueFd filter_file() {
  const std::string filter = system_call_filter();
  const net::UniqueFd file(filter.empty() ? -1 : ::memfd_create("volador-filter", MFD_CLOEXEC));
  if (!file || ::pwrite(file.get(), filter.data(), filter.size(), 0) != static_cast<ssize_t>(filter.size())) return {};
  return net::UniqueFd(::fcntl(file.get(), F_DUPFD_CLOEXEC, kFilterFd + 1));
}

int code_of(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

}  // namespace

std::vector<std::string> environment_of_rank(const std::map<std::string, std::string>& own) {
  std::map<std::string, std::string> merged;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view pair = *entry;
    if (const size_t equals = pair.find('='); equals != std::string_view::npos)
      merged.emplace(pair.substr(0, equals), pair.substr(equals + 1));
  }
  for (const char* internal : {"VOLADOR_FILES", "VOLADOR_HOST_ID"}) merged.erase(internal);
  merged.emplace("PYTHONUNBUFFERED", "1");
  for (const auto& [name, value] : own) merged[name] = value;
  std::vector<std::string> out;
  out.reserve(merged.size());
  for (const auto& [name, value] : merged) out.push_back(name + "=" + value);
  return out;
}

void say(const std::string& text) {
  const std::string line = text + "\n";
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, line.data(), line.size());
}

// The words of bubblewrap around the command, for an isolated job.
Result<std::vector<std::string>> RankProcess::sandboxed(const std::vector<std::string>& words, bool terminal,
                                                        bool with_filter) const {
  const fs::path& folder = surroundings_.folder;
  const fs::path& root = surroundings_.root;
  SandboxRequest request;
  request.command = words;
  request.terminal = terminal;
  if (root.empty()) {
    for (const auto& entry : fs::directory_iterator("/")) {
      std::error_code failed;
      if (entry.path() == "/run") continue;  // Sockets of other programs.
      request.entries.push_back(
          {.path = entry.path(),
           .symlink_target = entry.is_symlink(failed) ? fs::read_symlink(entry.path()).string() : ""});
    }
  }
  // The tokens and logs of the cluster, in the folder of Volador above the job's, are not for jobs.
  const size_t home_end = root.empty() ? folder.string().rfind("/clusters/") : std::string::npos;
  if (home_end != std::string::npos) {
    const fs::path& built = surroundings_.environment_folder;
    const fs::path home = folder.string().substr(0, home_end);
    const fs::path hidden = folder / "hidden";
    fs::create_directories(hidden / folder.lexically_relative(home));
    if (is_inside(built, home)) fs::create_directories(hidden / built.lexically_relative(home));
    request.mounts.push_back({.source = hidden, .target = home, .read_only = true});
    for (const fs::path& hides : {home, fs::path("/tmp"), fs::path("/run"), fs::path("/dev")}) {
      if (!is_inside(built, hides)) continue;
      request.mounts.push_back({.source = built, .target = built, .read_only = true});
      break;
    }
  }
  request.mounts.push_back({.source = folder, .target = folder});
  if (const std::string& output = surroundings_.output; !output.empty())
    request.mounts.push_back({.source = output, .target = output});
  for (const std::string& text : surroundings_.mounts) {
    auto mount = parse_mount(text);
    if (!mount) return make_error(mount.error());
    std::error_code failed;
    if (!fs::exists(mount->source, failed)) {
      return make_error(ErrorCode::kNotFound, fmt::format("mount {}: node {} has no {}; create it there", text,
                                                          self().node_name, mount->source));
    }
    request.mounts.push_back(std::move(*mount));
  }
  request.files = surroundings_.files;
  request.working_directory = surroundings_.directory;
  if (const fs::path& inside = surroundings_.folder_inside; !inside.empty()) {
    request.mounts.push_back({.source = folder, .target = inside});
    const fs::path in_folder = surroundings_.directory.lexically_relative(folder);
    if (*in_folder.begin() != "..") request.working_directory = inside / in_folder;
  }
  request.hostname = fmt::format("{}-{}", surroundings_.job, surroundings_.rank);
  if (surroundings_.shm_bytes > 0) request.shm_bytes = surroundings_.shm_bytes;
  const std::vector<int>& gpus = self().gpus;
  request.gpus = gpus;
  if (::geteuid() != 0) {
    request.new_user = true;
  } else if (root.empty()) {  // A root of its own may lack setpriv; bubblewrap drops the capabilities then.
    request.user = SandboxUser{.uid = 0, .gid = ::getegid()};
  }
  request.filter_fd = with_filter ? kFilterFd : -1;
  request.status_fd = kStatusFd;
  if (!root.empty()) {
    // Names of hosts are resolved as on the node, and those of a job on several nodes as it says.
    for (const char* file : {"/etc/hosts", "/etc/resolv.conf"}) {
      if (fs::exists(file)) request.files.emplace(file, file);
    }
    const auto has = [&](const std::string& path) {
      const auto status = fs::symlink_status(root / path.substr(1));
      return fs::exists(status) && !(request.files.contains(path) && fs::is_symlink(status));
    };
    add_root(root, {}, folders_to_list(request, has), request);
    request.entries.push_back({.path = kSystemFolder});  // Programs read the topology of GPUs there.
  }
  VOLADOR_TRY(check_targets(request));
  return bwrap_command(request);
}

std::optional<RankProcess::Refusal> RankProcess::start(std::vector<std::string> words, const Streams& streams) {
  const std::string program = words.front();
  net::UniqueFd status_end;
  net::UniqueFd filter;
  if (surroundings_.isolated) {
    filter = filter_file();
    auto wrapped = sandboxed(words, !streams.terminal.empty(), static_cast<bool>(filter));
    if (!wrapped) return Refusal{kExitCannotRun, wrapped.error().message};
    words = std::move(*wrapped);
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) == 0) {
      const std::lock_guard lock(mutex_);
      sandbox_status_.reset(ends[0]);
      sandbox_first_ = 0;
      status_end.reset(ends[1]);
    }
  }
  GroupSpawn spawn;
  std::vector<std::string> environment = surroundings_.environment;
  if (!streams.terminal.empty()) {
    spawn.use_terminal(streams.terminal);
    std::erase_if(environment, [](const std::string& pair) { return pair.starts_with("TERM="); });
    environment.emplace_back("TERM=xterm-256color");
  } else if (streams.in < 0) {
    spawn.open(STDIN_FILENO, "/dev/null", O_RDONLY);
  } else {
    spawn.duplicate(streams.in, STDIN_FILENO);
  }
  if (streams.out >= 0) spawn.duplicate(streams.out, STDOUT_FILENO);
  if (streams.err >= 0) spawn.duplicate(streams.err, STDERR_FILENO);
  spawn.change_directory(surroundings_.directory);
  if (status_end) spawn.duplicate(status_end.get(), kStatusFd);
  if (filter) spawn.duplicate(filter.get(), kFilterFd);
  pid_t child = 0;
  int failed = 0;
  {
    const std::lock_guard lock(mutex_);
    if (!ending_) {
      failed = spawn.start(words, environment, child);
      if (failed == 0) pid_ = child;
    }
  }
  if (failed != 0) {
    if (surroundings_.isolated && failed == ENOENT) {
      return Refusal{kExitCannotRun,
                     fmt::format("an isolated job needs bubblewrap, which node {} does not have: apt-get install "
                                 "bubblewrap there, or submit the job without --isolated and mounts",
                                 self().node_name)};
    }
    return Refusal{failed == ENOENT ? kExitNotFound : kExitCannotRun,
                   fmt::format("{}: {} (node {}, working directory {})", program, std::strerror(failed),
                               self().node_name, surroundings_.directory.string())};
  }
  if (child == 0) return Refusal{128 + SIGTERM, ""};
  return std::nullopt;
}

bool RankProcess::start_own(const std::vector<std::string>& words, const Streams& streams) {
  if (surroundings_.isolated || !is_own_command(words, surroundings_.environment)) return false;
  const std::lock_guard lock(mutex_);
  OwnOutput output;
  if (streams.out >= 0) output.out = streams.out;
  if (streams.err >= 0) output.err = streams.err;
  if (!ending_) pid_ = fork_own_command(surroundings_.directory, surroundings_.environment, output);
  return pid_ != 0;
}

int RankProcess::wait(bool end_group) {
  const pid_t child = pid();
  siginfo_t ended;  // The process stays a zombie until its id is forgotten here, so that no signal meets another one.
  while (::waitid(P_PID, static_cast<id_t>(child), &ended, WEXITED | WNOWAIT) < 0 && errno == EINTR) {
  }
  const std::lock_guard lock(mutex_);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (end_group) ::kill(-child, SIGKILL);  // What it left in its group; the worker ends what left the group.
  pid_ = 0;
  sandbox_status_.reset();
  return code_of(status);
}

int RankProcess::run(std::vector<std::string> words, const Streams& streams) {
  if (const auto refusal = start(std::move(words), streams)) {
    if (!refusal->message.empty()) say("volador: " + refusal->message);
    return refusal->code;
  }
  return wait(true);
}

void RankProcess::send_locked(int signal) {
  if (pid_ <= 0) return;
  if (!sandbox_status_) {
    ::kill(-pid_, signal);
    return;
  }
  // bubblewrap passes no signal on: the command is the child of the first process in the namespace.
  if (sandbox_first_ == 0) {
    std::array<char, 512> text{};
    const ssize_t got = ::read(sandbox_status_.get(), text.data(), text.size() - 1);
    const char* at = got > 0 ? std::strstr(text.data(), "\"child-pid\":") : nullptr;
    if (at != nullptr) sandbox_first_ = std::atoi(at + std::strlen("\"child-pid\":"));
  }
  std::ifstream children(fmt::format("/proc/{0}/task/{0}/children", sandbox_first_));
  bool any = false;
  for (pid_t child = 0; children >> child; any = true) {
    if (::kill(-child, signal) != 0) ::kill(child, signal);
  }
  if (!any) ::kill(pid_, signal);
}

void RankProcess::terminate() {
  const std::lock_guard lock(mutex_);
  ending_ = true;
  send_locked(surroundings_.stop_signal);
}

bool RankProcess::ending() const {
  const std::lock_guard lock(mutex_);
  return ending_;
}

void RankProcess::send(int signal) {
  const std::lock_guard lock(mutex_);
  send_locked(signal);
}

void RankProcess::kill() {
  const std::lock_guard lock(mutex_);
  if (pid_ > 0) ::kill(-pid_, SIGKILL);  // The first process in the namespace dies with bubblewrap.
}

pid_t RankProcess::pid() const {
  const std::lock_guard lock(mutex_);
  return pid_;
}

}  // namespace volador::jobs
