#include "cli/warm_trial.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>
#include <utility>

#include "experiments/launch/warm_start.h"
#include "jobs/group_spawn.h"
#include "runtime/ids.h"
#include "runtime/net/unique_fd.h"
#include "runtime/paths.h"
#include "runtime/security/digest.h"

namespace volador::cli {
namespace {

namespace fs = std::filesystem;

// The imports of a large program may take long on a busy machine.
constexpr std::chrono::minutes kImportPatience{5};
constexpr size_t kKeyDigits = 16;
constexpr size_t kWarmProcessesMax = 32;  // On a node, with those that were killed.
constexpr int kListenerFd = 3;            // In the warm process.
constexpr const char* kProgram = "from volador.compat.determined._warm import main; main()";

// Answers of the warm process, volador/compat/determined/_warm.py.
constexpr char kReady = 'R', kEnded = 'E';
constexpr char kGo = 0;

// Signals that end or tell programs. They go to the trial, not to this process.
constexpr std::array kPassed = {SIGHUP,  SIGINT,  SIGQUIT, SIGTERM,  SIGUSR1,
                                SIGUSR2, SIGCONT, SIGTSTP, SIGWINCH, SIGALRM};

volatile sig_atomic_t warm_socket = -1;

void pass_on(int signal) {
  const int before = errno;
  const char number = static_cast<char>(signal);
  [[maybe_unused]] const ssize_t written = ::send(warm_socket, &number, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
  errno = before;
}

std::string variable_text(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : value;
}

std::string key_of(const WarmTrial& trial, const experiments::SharedVariables& shared) {
  std::string text = trial.experiment;
  for (const auto& [name, value] : shared) text.append(1, '\0').append(name).append(1, '=').append(value);
  return security::hex(security::sha256(text)).substr(0, kKeyDigits);
}

sockaddr_un address_of(const fs::path& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
  return address;
}

net::UniqueFd unix_socket() { return net::UniqueFd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)); }

net::UniqueFd connect_to(const fs::path& path) {
  net::UniqueFd fd = unix_socket();
  const sockaddr_un address = address_of(path);
  if (!fd || ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return {};
  ucred peer{};
  socklen_t size = sizeof peer;
  const bool is_own = ::getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == ::geteuid();
  return is_own ? std::move(fd) : net::UniqueFd();
}

// The worker: the parent of the process that runs the job's commands.
pid_t worker_process() {
  std::ifstream in(fmt::format("/proc/{}/status", ::getppid()));
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("PPid:")) return std::atoi(line.c_str() + std::strlen("PPid:"));
  }
  return 0;
}

// As a daemon, which the end of this job does not end. Only calls that are allowed after a fork of several threads.
bool start_daemon(int listener, const std::string& program, const std::vector<std::string>& words,
                  const std::vector<std::string>& variables) {
  std::vector<char*> argv, envp;
  for (const std::string& word : words) argv.push_back(const_cast<char*>(word.c_str()));
  for (const std::string& pair : variables) envp.push_back(const_cast<char*>(pair.c_str()));
  argv.push_back(nullptr);
  envp.push_back(nullptr);
  const pid_t middle = ::fork();
  if (middle == 0) {
    ::setsid();
    const pid_t daemon = ::fork();
    if (daemon != 0) ::_exit(daemon < 0 ? 1 : 0);
    const int none = ::open("/dev/null", O_RDWR);
    for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(none, fd);
    if (listener == kListenerFd) {
      ::fcntl(listener, F_SETFD, 0);
    } else {
      ::dup2(listener, kListenerFd);
    }
    ::close_range(kListenerFd + 1, ~0U, 0);
    if (::chdir("/") == 0) ::execve(program.c_str(), argv.data(), envp.data());
    ::_exit(127);
  }
  int status = 0;
  while (middle > 0 && ::waitpid(middle, &status, 0) < 0 && errno == EINTR) {
  }
  return middle > 0 && status == 0;
}

// A connection to the warm process of this key, which is started if there is none. It may still be starting: it answers
// when it is ready.
net::UniqueFd connect_or_start(const fs::path& folder, const std::string& key,
                               const experiments::SharedVariables& shared) {
  const fs::path path = folder / (key + ".sock");
  if (net::UniqueFd fd = connect_to(path)) return fd;
  const net::UniqueFd lock(::open((folder / "lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock || ::flock(lock.get(), LOCK_EX) != 0) return {};
  if (net::UniqueFd fd = connect_to(path)) return fd;  // Another run has started it meanwhile.
  std::error_code failed;
  size_t others = 0;
  for (const auto& entry : fs::directory_iterator(folder, failed))
    others += entry.path().extension() == ".sock" ? 1 : 0;
  if (failed || others >= kWarmProcessesMax) return {};
  // Before the socket is replaced: the process that had it removes its files only while this one names it.
  fs::remove(folder / (key + ".pid"), failed);
  ::unlink(path.c_str());
  net::UniqueFd listener = unix_socket();
  const sockaddr_un address = address_of(path);
  if (!listener || ::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0 ||
      ::chmod(path.c_str(), 0600) != 0 || ::listen(listener.get(), SOMAXCONN) != 0) {
    return {};
  }
  std::vector<std::string> variables;
  for (const auto& [name, value] : shared) variables.push_back(name + "=" + value);
  const std::string program = jobs::find_program("python3", variables);
  const std::vector<std::string> words = {"python3", "-c", kProgram, std::to_string(worker_process()),
                                          (folder / key).string()};
  if (program.empty() || !start_daemon(listener.get(), program, words, variables)) {
    ::unlink(path.c_str());
    return {};
  }
  return connect_to(path);
}

// Fields that end with a NUL each: the number of words, the words, the folder, the umask, variables as "NAME=value".
std::string request_of(const WarmTrial& trial) {
  std::string fields;
  const auto add = [&](std::string_view field) { fields.append(field).push_back('\0'); };
  add(std::to_string(trial.words.size()));
  for (const std::string& word : trial.words) add(word);
  std::error_code failed;
  add(fs::current_path(failed).string());
  const mode_t mask = ::umask(0);
  ::umask(mask);
  add(std::to_string(mask));
  for (const auto& [name, value] : trial.variables) add(name + "=" + value);
  std::string request;
  for (size_t byte = 0; byte < sizeof(uint64_t); ++byte)
    request.push_back(static_cast<char>(static_cast<uint64_t>(fields.size()) >> (8 * byte)));
  return request + fields;
}

bool send_all(int fd, std::string_view bytes) {
  // The first bytes carry the standard streams.
  const std::array<int, 3> streams = {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof streams)> control{};
  iovec part{.iov_base = const_cast<char*>(bytes.data()), .iov_len = bytes.size()};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof streams);
  std::memcpy(CMSG_DATA(header), streams.data(), sizeof streams);
  while (!bytes.empty()) {
    const ssize_t sent = ::sendmsg(fd, &message, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(sent));
    part = {.iov_base = const_cast<char*>(bytes.data()), .iov_len = bytes.size()};
    message.msg_control = nullptr;
    message.msg_controllen = 0;
  }
  return true;
}

// The next byte of the answer; none: the other side has ended.
std::optional<char> read_byte(int fd) {
  char byte = 0;
  for (;;) {
    const ssize_t got = ::read(fd, &byte, 1);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return std::nullopt;
    return byte;
  }
}

bool has_answer(int fd, std::chrono::milliseconds patience) {
  pollfd wait{fd, POLLIN, 0};
  int ready = 0;
  while ((ready = ::poll(&wait, 1, static_cast<int>(patience.count()))) < 0 && errno == EINTR) {
  }
  return ready > 0;
}

}  // namespace

fs::path warm_folder() {
  const auto node = parse_id<NodeId>(variable_text("VOLADOR_NODE_ID"));
  const auto paths = Paths::from(PathEnvironment::of_this_process());
  if (!node || !paths) return {};
  const fs::path folder = paths->run_of(*node) / "warm";
  struct stat info {};
  const bool is_own = ::lstat(folder.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == ::geteuid() &&
                      (info.st_mode & 0077) == 0;
  return is_own ? folder : fs::path();
}

std::optional<int> run_warm(const WarmTrial& trial) {
  const fs::path folder = warm_folder();
  if (folder.empty()) return std::nullopt;
  const experiments::SharedVariables shared = experiments::shared_variables(trial.variables);
  const net::UniqueFd fd = connect_or_start(folder, key_of(trial, shared), shared);
  if (!fd || !send_all(fd.get(), request_of(trial)) || !has_answer(fd.get(), kImportPatience)) return std::nullopt;
  // Until here a signal ends this process, and the trial does not start.
  if (read_byte(fd.get()) != kReady) return std::nullopt;
  warm_socket = fd.get();
  struct sigaction action {};
  action.sa_handler = pass_on;
  action.sa_flags = SA_RESTART;
  for (const int signal : kPassed) ::sigaction(signal, &action, nullptr);
  [[maybe_unused]] const ssize_t written = ::send(fd.get(), &kGo, 1, MSG_NOSIGNAL);
  const auto ended = read_byte(fd.get());
  const auto code = ended == kEnded ? read_byte(fd.get()) : std::nullopt;
  if (code) return static_cast<unsigned char>(*code);
  return 128 + SIGKILL;  // The warm process was killed, and the trial with it.
}

}  // namespace volador::cli
