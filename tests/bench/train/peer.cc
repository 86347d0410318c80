#include "tests/bench/train/peer.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace volador::train::bench {
namespace {

constexpr std::chrono::minutes kProgramLimit{10};
constexpr int kAttempts = 5;      // On a busy machine a rank sometimes aborts when its interpreter ends.
constexpr size_t kShown = 8'000;  // Bytes of the error output in a message.

std::vector<std::string> environment() {
  std::vector<std::string> variables;
  for (char** one = environ; *one != nullptr; ++one) {
    const std::string_view variable = *one;
    if (!variable.starts_with("OMP_NUM_THREADS=") && !variable.starts_with("MKL_NUM_THREADS="))
      variables.emplace_back(variable);
  }
  variables.emplace_back("OMP_NUM_THREADS=1");
  const auto now = std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now().time_since_epoch());
  variables.push_back(fmt::format("VOLADOR_BENCH_START_NS={}", now.count()));
  return variables;
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> found;
  for (const std::string& text : texts) found.push_back(const_cast<char*>(text.c_str()));
  found.push_back(nullptr);
  return found;
}

// Reads both pipes to their ends and closes them; returns false if that took longer than allowed.
bool read_all(int out, int err, std::string& output, std::string& errors) {
  const auto deadline = Clock::now() + kProgramLimit;
  pollfd fds[2] = {{out, POLLIN, 0}, {err, POLLIN, 0}};
  std::string* const texts[2] = {&output, &errors};
  bool in_time = true;
  while (fds[0].fd >= 0 || fds[1].fd >= 0) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    in_time = left.count() > 0 && poll(fds, 2, static_cast<int>(left.count())) > 0;
    if (!in_time) break;
    for (int i = 0; i < 2; ++i) {
      if (fds[i].fd < 0 || fds[i].revents == 0) continue;
      char bytes[4096];
      const ssize_t count = read(fds[i].fd, bytes, sizeof bytes);
      if (count > 0) {
        texts[i]->append(bytes, static_cast<size_t>(count));
      } else {
        fds[i].fd = -1;
      }
    }
  }
  close(out);
  close(err);
  return in_time;
}

std::optional<nlohmann::json> last_object(const std::string& output) {
  std::optional<nlohmann::json> found;
  for (size_t at = 0; at < output.size();) {
    const size_t end = std::min(output.find('\n', at), output.size());
    const auto parsed = nlohmann::json::parse(output.substr(at, end - at), nullptr, false);
    if (parsed.is_object()) found = parsed;
    at = end + 1;
  }
  return found;
}

}  // namespace

nlohmann::json run_program(const std::vector<std::string>& command) {
  int out[2];
  int err[2];
  if (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0) throw std::runtime_error("no pipe can be made");
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err[1], STDERR_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);  // torchrun's processes are ended together.
  posix_spawnattr_setpgroup(&attributes, 0);
  const auto variables = environment();
  pid_t pid = -1;
  const int error = posix_spawnp(&pid, command.front().c_str(), &actions, &attributes, pointers(command).data(),
                                 pointers(variables).data());
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  close(out[1]);
  close(err[1]);
  if (error != 0) {
    close(out[0]);
    close(err[0]);
    throw std::runtime_error(fmt::format("{} could not be started: {}", command.front(), strerror(error)));
  }
  std::string output;
  std::string errors;
  const bool in_time = read_all(out[0], err[0], output, errors);
  if (!in_time) kill(-pid, SIGKILL);
  int status = 0;
  waitpid(pid, &status, 0);
  const std::string end = errors.substr(errors.size() - std::min(errors.size(), kShown));
  const std::string text = fmt::format("{}", fmt::join(command, " "));
  if (!in_time)
    throw std::runtime_error(fmt::format("{}: did not end within {} min: {}", text, kProgramLimit.count(), end));
  auto found = last_object(output);
  if (status != 0 || !found)
    throw std::runtime_error(fmt::format("{}: {}: {}", text, status != 0 ? "failed" : "printed no JSON", end));
  return std::move(*found);
}

nlohmann::json run_peer(const Options& options, int ranks, const std::vector<std::string>& flags) {
  std::vector<std::string> command = {options.peer};
  if (ranks > 0)
    command.insert(command.end(),
                   {"-m", "torch.distributed.run", "--standalone", fmt::format("--nproc-per-node={}", ranks)});
  command.emplace_back(VOLADOR_SOURCE_FOLDER "/tests/bench/train/peer_ddp.py");
  command.insert(command.end(), flags.begin(), flags.end());
  for (int attempt = 1;; ++attempt) {
    try {
      return run_program(command);
    } catch (const std::runtime_error& e) {
      if (attempt == kAttempts) throw;
      fmt::print(stderr, "attempt {} of {}: {}\n", attempt, kAttempts, e.what());
    }
  }
}

}  // namespace volador::train::bench
