#include "jobs/remote/rsh_client.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string_view>

#include "jobs/remote/rsh_frames.h"
#include "jobs/remote/ssh_arguments.h"
#include "jobs/remote/write_whole.h"
#include "runtime/net/socket.h"
#include "runtime/net/unique_fd.h"
#include "runtime/result.h"

namespace volador::jobs {

namespace {

namespace fs = std::filesystem;

constexpr int kSshFailed = 255;

int ssh_failure(const std::string& message) {
  write_whole(STDERR_FILENO, message + "\n");
  return kSshFailed;
}

Result<net::UniqueFd> connect_to_rank() {
  const char* folder = std::getenv("VOLADOR_JOB_DIR");
  if (folder == nullptr) {
    return make_error(ErrorCode::kNotFound,
                      "VOLADOR_JOB_DIR is not set; this ssh works in the commands of a job on several nodes");
  }
  const net::UniqueFd at(::open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC));
  const auto address = net::unix_address(fmt::format("/proc/self/fd/{}/{}", at.get(), kRshSocket));
  if (!address) return make_error(address.error());
  net::UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!at || !socket ||
      ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address->storage), address->length) != 0) {
    return make_error(ErrorCode::kUnavailable,
                      fmt::format("{}/{}: {}; has the job ended?", folder, kRshSocket, std::strerror(errno)));
  }
  ::fcntl(socket.get(), F_SETFL, ::fcntl(socket.get(), F_GETFL) | O_NONBLOCK);
  return socket;
}

// The next ssh in PATH that is not in the job's folder; empty: there is none.
std::string other_ssh() {
  const char* folder = std::getenv("VOLADOR_JOB_DIR");
  const char* path = std::getenv("PATH");
  const std::string own = folder == nullptr ? "" : std::string(folder) + "/bin";
  std::string_view rest = path == nullptr ? "" : path;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find(':'), rest.size());
    const std::string directory(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    // Folders of other ranks of the job on this machine have an ssh of this kind, too.
    if (directory.empty() || directory == own || directory.ends_with("/job/bin")) continue;
    const std::string file = directory + "/ssh";
    if (::access(file.c_str(), X_OK) == 0 && !fs::is_directory(file)) return file;
  }
  return "";
}

int leave_to_other_ssh(const std::string& host, const std::string& peers, const std::vector<std::string>& words) {
  const std::string unknown = fmt::format("{} is no node of this job; its nodes are {}", host, peers);
  const std::string program = other_ssh();
  if (program.empty()) return ssh_failure(fmt::format("ssh: {}", unknown));
  write_whole(STDERR_FILENO, fmt::format("ssh: {}; runs {}\n", unknown, program));
  std::vector<std::string> copies = words;
  std::vector<char*> argv;
  std::string name = "ssh";
  argv.push_back(name.data());
  for (std::string& word : copies) argv.push_back(word.data());
  argv.push_back(nullptr);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  std::signal(SIGPIPE, SIG_DFL);
  ::execv(program.c_str(), argv.data());
  return ssh_failure(fmt::format("ssh: {}: {}", program, std::strerror(errno)));
}

class RshClient {
 public:
  RshClient(net::UniqueFd socket, net::UniqueFd signals) : socket_(std::move(socket)), signals_(std::move(signals)) {}

  // Returns the exit code.
  int run(const SshArguments& arguments, const std::vector<std::string>& words);

 private:
  void send(RshFrameKind kind, std::string_view content) { pending_ += rsh_frame(kind, content); }
  void flush();
  void read_input();
  // Returns the exit code when the command has ended.
  std::optional<int> read_socket();
  std::optional<int> on_frame(const RshFrame& frame);
  std::optional<int> on_signal();

  const net::UniqueFd socket_, signals_;
  RshFrameReader frames_;
  std::string pending_;  // For the socket.
  bool input_ = false;   // The standard input is read.
  size_t ahead_ = 0;     // Bytes of it that the command has not taken.
  bool signalled_ = false;
  std::string unknown_;  // The nodes, if the host is none of them.
};

void RshClient::flush() {
  size_t done = 0;
  while (done < pending_.size()) {
    const ssize_t wrote = ::send(socket_.get(), pending_.data() + done, pending_.size() - done, MSG_NOSIGNAL);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) break;  // Full, or gone, which reading notices.
    done += static_cast<size_t>(wrote);
  }
  pending_.erase(0, done);
}

void RshClient::read_input() {
  std::array<char, size_t{64} << 10> buffer;
  const ssize_t got = ::read(STDIN_FILENO, buffer.data(), std::min(buffer.size(), kRshInputAhead - ahead_));
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return;
  if (got <= 0) {
    input_ = false;
    send(RshFrameKind::kInputEnd, "");
    return;
  }
  ahead_ += static_cast<size_t>(got);
  send(RshFrameKind::kInput, {buffer.data(), static_cast<size_t>(got)});
}

std::optional<int> RshClient::on_frame(const RshFrame& frame) {
  switch (frame.kind) {
    case RshFrameKind::kOutput:
      if (!write_whole(STDOUT_FILENO, frame.content)) return 128 + SIGPIPE;
      return std::nullopt;
    case RshFrameKind::kError:
      write_whole(STDERR_FILENO, frame.content);
      return std::nullopt;
    case RshFrameKind::kTaken:
      ahead_ -= std::min(ahead_, static_cast<size_t>(std::strtoull(frame.content.c_str(), nullptr, 10)));
      return std::nullopt;
    case RshFrameKind::kUnknown:
      unknown_ = frame.content;
      return kSshFailed;
    case RshFrameKind::kExit:
      return std::atoi(frame.content.c_str());
    default:
      return ssh_failure("ssh: the rank of the job sent an unexpected message; install the same version on all nodes");
  }
}

std::optional<int> RshClient::read_socket() {
  std::array<char, size_t{64} << 10> buffer;
  const ssize_t got = ::recv(socket_.get(), buffer.data(), buffer.size(), 0);
  if (got < 0 && (errno == EINTR || errno == EAGAIN)) return std::nullopt;
  if (got <= 0) return ssh_failure("ssh: the connection to the rank of the job was lost; has the job ended?");
  frames_.add({buffer.data(), static_cast<size_t>(got)});
  while (true) {
    const auto frame = frames_.next();
    if (!frame) return ssh_failure("ssh: from the rank of the job: " + frame.error().message);
    if (!*frame) return std::nullopt;
    if (const auto code = on_frame(**frame)) return code;
  }
}

std::optional<int> RshClient::on_signal() {
  signalfd_siginfo info{};
  if (::read(signals_.get(), &info, sizeof info) != sizeof info) return std::nullopt;
  const int signal = static_cast<int>(info.ssi_signo);
  if (std::exchange(signalled_, true)) return 128 + signal;  // Its end ends the command.
  send(RshFrameKind::kSignal, std::to_string(signal));
  return std::nullopt;
}

int RshClient::run(const SshArguments& arguments, const std::vector<std::string>& words) {
  input_ = arguments.input;
  const std::string start =
      to_bytes(RshStart{.host = arguments.host, .command_line = arguments.command_line, .input = input_});
  if (start.size() > kRshFrameBytes)
    return ssh_failure(
        fmt::format("ssh: the command has {} bytes, at most {} are possible", start.size(), kRshFrameBytes));
  send(RshFrameKind::kStart, start);
  std::optional<int> code;
  while (!code) {
    flush();
    const bool reads = input_ && pending_.empty() && ahead_ < kRshInputAhead;
    std::array<pollfd, 3> watched{{{socket_.get(), static_cast<short>(pending_.empty() ? POLLIN : POLLIN | POLLOUT), 0},
                                   {signals_.get(), POLLIN, 0},
                                   {reads ? STDIN_FILENO : -1, POLLIN, 0}}};
    if (::poll(watched.data(), watched.size(), -1) < 0) continue;
    if (watched[1].revents != 0) code = on_signal();
    if (!code && (watched[0].revents & ~POLLOUT) != 0) code = read_socket();
    if (!code && watched[2].revents != 0) read_input();
  }
  if (!unknown_.empty()) return leave_to_other_ssh(arguments.host, unknown_, words);
  return *code;
}

}  // namespace

int run_job_rsh(const std::vector<std::string>& words) {
  const auto arguments = parse_ssh_arguments(words);
  if (!arguments) return ssh_failure(arguments.error().message);
  sigset_t passed;
  sigemptyset(&passed);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&passed, signal);
  ::sigprocmask(SIG_BLOCK, &passed, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  auto socket = connect_to_rank();
  if (!socket) return ssh_failure("ssh: " + socket.error().message);
  RshClient client(std::move(*socket), net::UniqueFd(::signalfd(-1, &passed, SFD_CLOEXEC | SFD_NONBLOCK)));
  return client.run(*arguments, words);
}

}  // namespace volador::jobs
