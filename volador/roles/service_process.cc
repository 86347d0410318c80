#include "volador/roles/service_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>

#include "runtime/log.h"
#include "runtime/net/loopback_socket.h"
#include "runtime/net/unique_fd.h"
#include "runtime/random.h"
#include "runtime/result.h"
#include "runtime/storage/child_process.h"
#include "worker/hosts/children.h"

namespace volador {
namespace {

constexpr int64_t kLogBytesMax = 8 << 20;  // For each of two files.
constexpr size_t kLastLineMax = 500;
constexpr const char* kOwnerVariable = "VOLADOR_SERVICE_OWNER";
constexpr const char* kRunVariable = "VOLADOR_SERVICE_RUN";  // Identifies one process and its children.
constexpr std::chrono::seconds kLeftServicesPatience{2};     // Killed processes are gone far sooner.
constexpr int kKillsMost = 5;                                // While it is looked for them, processes may start others.

std::string replaced_port(std::string text, const std::string& port) {
  constexpr std::string_view kPlaceholder = "{port}";
  for (size_t at = text.find(kPlaceholder); at != text.npos; at = text.find(kPlaceholder, at + port.size()))
    text.replace(at, kPlaceholder.size(), port);
  return text;
}

// The end of a process's output is kept in two files of limited size.
class OutputLog {
 public:
  explicit OutputLog(std::filesystem::path file) : file_(std::move(file)) {}
  void add(std::string_view bytes) {
    if (file_.empty()) return;
    if (!fd_ || written_ >= kLogBytesMax) open();
    while (fd_ && !bytes.empty()) {
      const ssize_t count = ::write(fd_.get(), bytes.data(), bytes.size());
      if (count <= 0) return;  // A full disk loses output and nothing else.
      written_ += count;
      bytes.remove_prefix(static_cast<size_t>(count));
    }
  }

 private:
  void open() {
    std::error_code ignored;
    if (fd_) std::filesystem::rename(file_, file_.native() + ".1", ignored);
    std::filesystem::create_directories(file_.parent_path(), ignored);
    fd_ = net::UniqueFd(::open(file_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    written_ = fd_ ? static_cast<int64_t>(::lseek(fd_.get(), 0, SEEK_END)) : 0;
  }
  const std::filesystem::path file_;
  net::UniqueFd fd_;
  int64_t written_ = 0;
};

}  // namespace

void end_left_services(const std::string& owner) {
  if (const size_t count = worker::kill_by_environment(kOwnerVariable, owner, kLeftServicesPatience); count > 0)
    log::info("katib", "killed processes of services of an earlier head", {{"processes", std::to_string(count)}});
}

struct ServiceProcess::Impl {
  explicit Impl(ServiceProcessOptions given) : options(std::move(given)), output(options.log) {}

  Result<storage::ChildProcess::Command> command(const std::string& port, const std::string& run) const {
    storage::ChildProcess::Command made;
    for (const std::string& word : options.command) made.words.push_back(replaced_port(word, port));
    if (made.words.empty() || made.words.front().empty())
      return make_error(ErrorCode::kInvalidArgument, "the command is empty");
    if (made.words.front().find('/') == std::string::npos) {
      const char* path = ::getenv("PATH");
      const std::string found = storage::find_in_path(made.words.front(), path == nullptr ? "" : path);
      if (found.empty()) return make_error(ErrorCode::kNotFound, fmt::format("{} is not in PATH", made.words.front()));
      made.words.front() = found;
    }
    for (char** variable = ::environ; *variable != nullptr; ++variable) {
      const std::string_view text(*variable);
      const std::string_view name = text.substr(0, text.find('='));
      if (name == "PORT" || name == kOwnerVariable || name == kRunVariable) continue;
      made.variables.emplace_back(text);
    }
    if (!options.owner.empty()) made.variables.push_back(std::string(kOwnerVariable) + "=" + options.owner);
    made.variables.push_back(std::string(kRunVariable) + "=" + run);
    made.variables.push_back("PORT=" + port);
    return made;
  }

  // Runs one process to its end; says why it ended.
  std::string run_once(const std::stop_token& stop) {
    const auto port = net::free_loopback_port();
    if (!port) return port.error().message;
    const std::string text = std::to_string(*port);
    const std::string run = fmt::format("{}-{:016x}", ::getpid(), SystemRandom().next());
    const auto words = command(text, run);
    if (!words) return words.error().message;
    auto child = storage::ChildProcess::start(*words);
    if (!child) return child.error().message;
    set([&] {
      state.address = "127.0.0.1:" + text;
      state.pid = child->pid();
      ++state.starts;
    });
    log::info("katib", "service process started", {{"service", options.name}, {"address", state.address}});
    std::string last;
    const auto code = child->run({.on_output =
                                      [&](std::string_view bytes) {
                                        output.add(bytes);
                                        return Result<void>();
                                      },
                                  .on_line =
                                      [&](std::string_view line) {
                                        last = line.substr(0, kLastLineMax);
                                        output.add(std::string(line) + "\n");
                                      }},
                                 stop);
    set([&] { state.pid = 0; });
    // Children with a session of their own do not end with its process group.
    for (int kills = 0; kills < kKillsMost; ++kills)
      if (worker::kill_by_environment(kRunVariable, run, kLeftServicesPatience) == 0) break;
    if (!code) return code.error().message;
    return fmt::format("the process ended with exit code {}{}{}", *code, last.empty() ? "" : ": ", last);
  }

  void live(const std::stop_token& stop) {
    auto pause = options.pause;
    while (!stop.stop_requested()) {
      const auto began = std::chrono::steady_clock::now();
      std::string why = run_once(stop);
      if (stop.stop_requested()) break;
      log::warn("katib", "service process ended", {{"service", options.name}, {"why", why}});
      set([&] {
        state.address.clear();
        state.ended = std::move(why);
      });
      if (std::chrono::steady_clock::now() - began >= options.pause_max) pause = options.pause;
      std::unique_lock lock(mutex);
      changed.wait_for(lock, stop, pause, [] { return false; });
      pause = std::min(2 * pause, options.pause_max);
    }
  }

  template <class Change>
  void set(Change change) {
    {
      const std::lock_guard lock(mutex);
      change();
    }
    changed.notify_all();
  }

  const ServiceProcessOptions options;
  OutputLog output;
  mutable std::mutex mutex;
  mutable std::condition_variable_any changed;
  State state;
  std::jthread thread;  // The process ends with this thread.
};

ServiceProcess::ServiceProcess(ServiceProcessOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {
  impl_->thread = std::jthread([impl = impl_.get()](const std::stop_token& stop) { impl->live(stop); });
}

ServiceProcess::~ServiceProcess() {
  impl_->thread.request_stop();
  {
    // The thread does not see the request if the process has closed its outputs.
    const std::lock_guard lock(impl_->mutex);
    if (impl_->state.pid != 0) ::kill(-impl_->state.pid, SIGKILL);
  }
  impl_->thread.join();
}

ServiceProcess::State ServiceProcess::state() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->state;
}

ServiceProcess::State ServiceProcess::wait(std::chrono::milliseconds patience) const {
  std::unique_lock lock(impl_->mutex);
  impl_->changed.wait_for(lock, patience, [&] { return !impl_->state.address.empty() || !impl_->state.ended.empty(); });
  return impl_->state;
}

}  // namespace volador
