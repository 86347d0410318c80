#include "jobs/remote/remote_commands.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <deque>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/net/unique_fd.h"
#include "runtime/result.h"

namespace volador::jobs {

namespace {

using Steady = std::chrono::steady_clock;

constexpr std::chrono::seconds kEndPatience{10};
constexpr size_t kOutputBytes = size_t{64} << 10;
constexpr size_t kPipeBytes = size_t{64} << 10;
constexpr size_t kUntakenBytes = size_t{1} << 20;

struct Pipe {
  net::UniqueFd read, write;
  static Result<Pipe> make() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0)
      return make_error(ErrorCode::kUnavailable, fmt::format("pipe: {}", std::strerror(errno)));
    return Pipe{net::UniqueFd(ends[0]), net::UniqueFd(ends[1])};
  }
};

void do_not_block(int fd) { ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK); }

}  // namespace

struct RemoteCommands::Running {
  explicit Running(const RankSurroundings& surroundings) : process(surroundings) {}

  struct Input {
    std::string bytes;
    size_t written = 0;
    bool last = false;
    std::function<void()> taken;
  };

  RankProcess process;
  Pipe in, out, err;
  net::UniqueFd wake{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};

  std::mutex mutex;
  std::condition_variable room;
  Events events;  // Not taken.
  size_t events_bytes = 0;
  std::function<void(Events)> give;  // Waits for events.
  std::deque<Input> inputs;
  bool accepts_input = true;
  bool abandoned = false;  // Events are dropped.
  bool finished = false;   // The last event was told.
  std::optional<Steady::time_point> kill_at;
  std::optional<int> code;  // It has ended.

  void wake_up() const {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(wake.get(), &one, sizeof one);
  }
  void abandon();
  void tell(RemoteEvent event);
  // Drops further input.
  void close_input();
  void write_input();
  // Passes on what is in the pipe; at its end closes it. `all`: until it is empty or more was read than a pipe holds,
  // since a process that was left behind may go on to write; otherwise one piece.
  void pass_on(net::UniqueFd& pipe, int32_t kind, bool all);
  // Until the command has ended.
  void serve();
  // After the last event; returns whether no event is left to take.
  bool finish() {
    const std::lock_guard lock(mutex);
    finished = true;
    return events.empty();
  }
};

void RemoteCommands::Running::abandon() {
  std::function<void(Events)> nobody;
  {
    const std::lock_guard lock(mutex);
    if (abandoned) return;
    abandoned = true;
    kill_at = Steady::now() + kEndPatience;
    events.clear();
    nobody.swap(give);
  }
  if (nobody) nobody({});
  room.notify_all();
  process.terminate();
  wake_up();
}

void RemoteCommands::Running::tell(RemoteEvent event) {
  std::function<void(Events)> to;
  Events told;
  {
    std::unique_lock lock(mutex);
    room.wait(lock, [this] { return abandoned || events_bytes < kUntakenBytes; });
    if (abandoned) return;
    events_bytes += event.bytes.data.size();
    events.push_back(std::move(event));
    if (!give) return;
    to.swap(give);
    told.swap(events);
    events_bytes = 0;
  }
  to(std::move(told));
}

void RemoteCommands::Running::close_input() {
  std::deque<Input> dropped;
  {
    const std::lock_guard lock(mutex);
    accepts_input = false;
    dropped.swap(inputs);
  }
  for (const Input& input : dropped) input.taken();
}

void RemoteCommands::Running::write_input() {
  net::UniqueFd& pipe = in.write;
  std::vector<std::function<void()>> taken;
  {
    const std::lock_guard lock(mutex);
    while (pipe && !inputs.empty()) {
      Input& next = inputs.front();
      if (next.written < next.bytes.size()) {
        const ssize_t wrote = ::write(pipe.get(), next.bytes.data() + next.written, next.bytes.size() - next.written);
        if (wrote < 0 && errno == EINTR) continue;
        if (wrote < 0 && errno == EAGAIN) break;
        if (wrote < 0) {
          pipe.reset();  // The command has closed its standard input.
          break;
        }
        next.written += static_cast<size_t>(wrote);
        if (next.written < next.bytes.size()) continue;
      }
      if (next.last) pipe.reset();
      taken.push_back(std::move(next.taken));
      inputs.pop_front();
    }
  }
  for (const auto& function : taken) function();
  if (!pipe) close_input();
}

void RemoteCommands::Running::pass_on(net::UniqueFd& pipe, int32_t kind, bool all) {
  size_t passed = 0;
  while (pipe && passed <= kPipeBytes) {
    std::string bytes(kOutputBytes, '\0');
    const ssize_t got = ::read(pipe.get(), bytes.data(), bytes.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) return;
    if (got <= 0) {
      pipe.reset();
      return;
    }
    bytes.resize(static_cast<size_t>(got));
    passed += bytes.size();
    tell({.kind = kind, .bytes = {std::move(bytes)}, .code = 0});
    if (!all) return;
  }
}

void RemoteCommands::Running::serve() {
  while (true) {
    bool has_input = false;
    int patience_ms = -1;
    {
      const std::lock_guard lock(mutex);
      if (code) break;
      has_input = !inputs.empty();
      if (kill_at) {
        const auto left = std::chrono::ceil<std::chrono::milliseconds>(*kill_at - Steady::now()).count();
        patience_ms = static_cast<int>(std::clamp<int64_t>(left, 0, 3'600'000));
      }
    }
    if (patience_ms == 0) {
      process.kill();
      patience_ms = -1;
      const std::lock_guard lock(mutex);
      kill_at.reset();
    }
    std::array<pollfd, 4> watched{{{wake.get(), POLLIN, 0},
                                   {out.read.get(), POLLIN, 0},
                                   {err.read.get(), POLLIN, 0},
                                   {has_input ? in.write.get() : -1, POLLOUT, 0}}};
    if (::poll(watched.data(), watched.size(), patience_ms) < 0) continue;
    if (watched[0].revents != 0) {
      uint64_t count = 0;
      [[maybe_unused]] const ssize_t got = ::read(wake.get(), &count, sizeof count);
    }
    if (watched[1].revents != 0) pass_on(out.read, RemoteEvent::kOutput, false);
    if (watched[2].revents != 0) pass_on(err.read, RemoteEvent::kError, false);
    if (watched[3].revents != 0 || (has_input && !in.write)) write_input();
  }
  // What the command wrote is in the pipes; processes that it left behind may keep them open for ever.
  pass_on(out.read, RemoteEvent::kOutput, true);
  pass_on(err.read, RemoteEvent::kError, true);
}

RemoteCommands::~RemoteCommands() {
  end();
  std::unique_lock lock(mutex_);
  no_thread_.wait(lock, [this] { return threads_ == 0; });
}

Result<void> RemoteCommands::start(const RemoteCommand& command) {
  const auto running = std::make_shared<Running>(surroundings_);
  for (Pipe* pipe : {&running->in, &running->out, &running->err}) {
    if (pipe == &running->in && !command.input) continue;
    auto made = Pipe::make();
    if (!made) return make_error(made.error());
    *pipe = std::move(*made);
  }
  if (!running->wake) return make_error(ErrorCode::kUnavailable, "eventfd: no descriptor is left");
  running->accepts_input = command.input;
  {
    const std::lock_guard lock(mutex_);
    if (ending_ || !running_.emplace(command.id, running).second) {
      return make_error(ErrorCode::kUnavailable, ending_ ? "the rank is ending and starts no further command"
                                                         : "a command with this id runs already");
    }
    ++threads_;
  }
  std::string line = command.command_line;
  const std::string own = surroundings_.folder.string();
  for (size_t at = 0; !command.folder.empty() && (at = line.find(command.folder, at)) != std::string::npos;
       at += own.size())
    line.replace(at, command.folder.size(), own);
  const auto refusal = running->process.start(
      {"bash", "-c", std::move(line)},
      {.in = running->in.read.get(), .out = running->out.write.get(), .err = running->err.write.get()});
  running->in.read.reset();
  running->out.write.reset();
  running->err.write.reset();
  for (const net::UniqueFd* end : {&running->in.write, &running->out.read, &running->err.read})
    if (*end) do_not_block(end->get());
  std::thread([this, running, refusal, id = command.id] {
    sigset_t broken_pipe;  // A command may close its standard input.
    sigemptyset(&broken_pipe);
    sigaddset(&broken_pipe, SIGPIPE);
    ::pthread_sigmask(SIG_BLOCK, &broken_pipe, nullptr);
    int code = 0;
    if (refusal) {
      code = refusal->code;
      running->tell({.kind = RemoteEvent::kError, .bytes = {"volador: " + refusal->message + "\n"}, .code = 0});
    } else {
      std::thread waiter([&running] {
        const int ended = running->process.wait(false);
        {
          const std::lock_guard lock(running->mutex);
          running->code = ended;
        }
        running->wake_up();
      });
      running->serve();
      waiter.join();
      code = running->code.value_or(kExitCannotRun);
    }
    running->close_input();
    running->tell({.kind = RemoteEvent::kEnded, .bytes = {}, .code = code});
    if (running->finish()) forget(id);
    const std::lock_guard lock(mutex_);
    --threads_;
    no_thread_.notify_all();
  }).detach();
  return {};
}

std::shared_ptr<RemoteCommands::Running> RemoteCommands::find(const std::string& id) {
  const std::lock_guard lock(mutex_);
  const auto found = running_.find(id);
  return found == running_.end() ? nullptr : found->second;
}

void RemoteCommands::forget(const std::string& id) {
  const std::lock_guard lock(mutex_);
  running_.erase(id);
}

void RemoteCommands::take(const std::string& id, std::function<void(Events)> give) {
  Events told;
  if (const auto running = find(id)) {
    {
      const std::lock_guard lock(running->mutex);
      if (running->events.empty() && !running->give && !running->abandoned) {
        running->give = std::move(give);
        return;
      }
      told.swap(running->events);
      running->events_bytes = 0;
    }
    running->room.notify_all();
  }
  if (!told.empty() && told.back().kind == RemoteEvent::kEnded) forget(id);
  give(std::move(told));
}

void RemoteCommands::input(const std::string& id, std::string bytes, bool last, std::function<void()> taken) {
  if (const auto running = find(id)) {
    const std::lock_guard lock(running->mutex);
    if (running->accepts_input) {
      running->inputs.push_back({.bytes = std::move(bytes), .written = 0, .last = last, .taken = std::move(taken)});
      running->wake_up();
      return;
    }
  }
  taken();
}

void RemoteCommands::send(const std::string& id, int signal) {
  if (const auto running = find(id)) running->process.send(signal);
}

void RemoteCommands::abandon(const std::string& id) {
  const auto running = find(id);
  if (!running) return;
  running->abandon();
  const std::lock_guard lock(running->mutex);
  if (running->finished) forget(id);
}

void RemoteCommands::end() {
  std::vector<std::shared_ptr<Running>> all;
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    for (const auto& [id, running] : running_) all.push_back(running);
  }
  for (const auto& running : all) running->abandon();
}

}  // namespace volador::jobs
