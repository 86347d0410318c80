#include "runtime/stop_signal.h"

#include <fmt/format.h>
#include <pwd.h>
#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <array>
#include <fstream>

namespace volador {
namespace {

std::string user_name(uid_t uid) {
  std::array<char, 4096> room{};
  passwd entry{};
  passwd* found = nullptr;
  const bool known = ::getpwuid_r(uid, &entry, room.data(), room.size(), &found) == 0 && found != nullptr;
  return known ? found->pw_name : fmt::format("user {}", uid);
}

// Returns the kernel's name of a running process.
std::string process_name(pid_t pid) {
  std::string name;
  std::getline(std::ifstream(fmt::format("/proc/{}/comm", pid)), name);
  return name;
}

}  // namespace

Result<StopSignal> StopSignal::create(std::initializer_list<int> signals) {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : signals) sigaddset(&set, signal);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  net::UniqueFd fd(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd) return make_error(ErrorCode::kUnavailable, "no descriptor left for signals; raise `ulimit -n`");
  return StopSignal(std::move(fd));
}

StopSignal::Asked StopSignal::take() const {
  signalfd_siginfo info{};
  if (::read(fd_.get(), &info, sizeof info) != sizeof info) return {};
  const auto signal = static_cast<int>(info.ssi_signo);
  if (info.ssi_code == SI_KERNEL || info.ssi_pid == 0) return {signal, signal == SIGINT ? "Ctrl-C" : "the system"};
  const std::string process = process_name(static_cast<pid_t>(info.ssi_pid));
  return {signal,
          fmt::format("{} ({}pid {})", user_name(info.ssi_uid), process.empty() ? "" : process + ", ", info.ssi_pid)};
}

}  // namespace volador
