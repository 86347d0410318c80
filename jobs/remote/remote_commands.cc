#include "jobs/remote/remote_commands.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
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
#include <iterator>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "runtime/net/socket.h"
#include "runtime/net/unique_fd.h"
#include "runtime/quantities.h"
#include "runtime/result.h"

namespace volador::jobs {

namespace {

using Steady = std::chrono::steady_clock;

constexpr std::chrono::seconds kEndPatience{10};
constexpr size_t kOutputBytes = size_t{64} << 10;
constexpr size_t kPipeBytes = size_t{64} << 10;
constexpr size_t kUntakenBytes = size_t{1} << 20;
constexpr int kConnectMs = 200;
constexpr char kEndOfInput = 4;  // Ctrl-D, for a terminal.

struct Pipe {
  net::UniqueFd read, write;
  static Result<Pipe> make() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0)
      return make_error(ErrorCode::kUnavailable, fmt::format("pipe: {}", std::strerror(errno)));
    return Pipe{net::UniqueFd(ends[0]), net::UniqueFd(ends[1])};
  }
};

winsize size_of(int32_t rows, int32_t columns) {
  const auto given = [](int32_t number, int32_t otherwise) {
    return static_cast<unsigned short>(number <= 0 ? otherwise : std::min(number, 10'000));
  };
  return {.ws_row = given(rows, 24), .ws_col = given(columns, 80), .ws_xpixel = 0, .ws_ypixel = 0};
}

// Both ends of a terminal: the descriptor of the one that shows, and the path of the one for the program.
struct TerminalPair {
  net::UniqueFd shown;
  std::string path;
  static Result<TerminalPair> make(const winsize& size) {
    TerminalPair pair{.shown = net::UniqueFd(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)), .path = {}};
    std::array<char, 64> path{};
    if (!pair.shown || ::grantpt(pair.shown.get()) != 0 || ::unlockpt(pair.shown.get()) != 0 ||
        ::ptsname_r(pair.shown.get(), path.data(), path.size()) != 0 ||
        ::ioctl(pair.shown.get(), TIOCSWINSZ, &size) != 0)
      return make_error(ErrorCode::kUnavailable, fmt::format("no terminal can be made: {}", std::strerror(errno)));
    pair.path = path.data();
    return pair;
  }
};

// A connection, or one that is being made.
Result<net::UniqueFd> connect_to(int32_t port) {
  if (port <= 0 || port > 65'535)
    return make_error(ErrorCode::kInvalidArgument, fmt::format("port: expected 1 to 65535, got {}", port));
  for (const char* loopback : {"127.0.0.1", "::1"}) {
    const auto addresses = net::resolve(loopback, static_cast<uint16_t>(port));
    if (!addresses || addresses->empty()) continue;
    auto connecting = net::start_connect(addresses->front());
    if (!connecting) continue;
    // On a loopback address the outcome is there at once, except where the listener's queue is full.
    pollfd outcome{connecting->socket.get(), POLLOUT, 0};
    if (connecting->in_progress && ::poll(&outcome, 1, kConnectMs) > 0 &&
        net::take_socket_error(connecting->socket.get()) != 0)
      continue;
    return std::move(connecting->socket);
  }
  return make_error(ErrorCode::kUnavailable,
                    fmt::format("nothing listens on port {} of 127.0.0.1 or ::1 of its machine", port));
}

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
  Pipe in, out, err;      // With a terminal or a connection in.write and out.read are its descriptors.
  bool terminal = false;  // Constant after the start, as the next three.
  bool connection = false;
  bool by_user = false;
  std::chrono::milliseconds reader_patience{0};
  net::UniqueFd wake{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};

  std::mutex mutex;
  std::condition_variable room;
  Events events;  // Not taken.
  size_t events_bytes = 0;
  std::function<void(Events)> give;  // Waits for events.
  std::function<bool()> is_gone;     // Whether it waits in vain; empty: it does not.
  Steady::time_point give_until;
  Steady::time_point taken_at = Steady::now();  // When events were last taken.
  std::deque<Input> inputs;
  size_t inputs_bytes = 0;
  std::optional<winsize> new_size;
  bool accepts_input = true;
  bool abandoned = false;  // Events are dropped.
  bool finished = false;   // The last event was told.
  std::optional<Steady::time_point> kill_at;
  std::optional<int> code;  // It has ended.

  bool broken = false;  // Reading failed. Only for the thread that serves.

  void wake_up() const {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(wake.get(), &one, sizeof one);
  }
  void abandon();
  // Until when its caller may take nothing; none: it takes something now, or is a rank.
  std::optional<Steady::time_point> unread_until() const {
    if (!by_user || give || abandoned) return std::nullopt;
    return taken_at + reader_patience;
  }
  // What is due now; returns the milliseconds until something is, or -1.
  int act_in_time();
  Result<void> open_streams(const RemoteCommand& command, std::string& terminal_path);
  void resize_now();
  void tell(RemoteEvent event);
  // Drops further input.
  void close_input();
  // With `mutex` held. `last` is Ctrl-D for a terminal, which stays open.
  void add_input(std::string bytes, bool last, std::function<void()> taken) {
    if (terminal && std::exchange(last, false)) bytes += kEndOfInput;
    inputs_bytes += bytes.size();
    inputs.push_back({.bytes = std::move(bytes), .written = 0, .last = last, .taken = std::move(taken)});
    wake_up();
  }
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
    while (!abandoned && events_bytes >= kUntakenBytes) {
      const auto until = unread_until();
      if (!until) {
        room.wait(lock);
      } else if (room.wait_until(lock, *until) == std::cv_status::timeout &&
                 Steady::now() >= unread_until().value_or(Steady::time_point::max())) {
        lock.unlock();
        abandon();
        lock.lock();
      }
    }
    if (abandoned) return;
    events_bytes += event.bytes.data.size();
    events.push_back(std::move(event));
    if (!give) return;
    to.swap(give);
    taken_at = Steady::now();
    if (!is_gone || !is_gone()) {
      told.swap(events);
      events_bytes = 0;
    }
  }
  to(std::move(told));
}

void RemoteCommands::Running::close_input() {
  std::deque<Input> dropped;
  {
    const std::lock_guard lock(mutex);
    accepts_input = false;
    dropped.swap(inputs);
    inputs_bytes = 0;
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
      if (next.last) {
        if (connection) ::shutdown(pipe.get(), SHUT_WR);
        pipe.reset();
      }
      inputs_bytes -= next.bytes.size();
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
      if (connection && got < 0) tell({.kind = RemoteEvent::kError, .bytes = {std::strerror(errno)}, .code = 0});
      broken |= got < 0;
      pipe.reset();
      return;
    }
    bytes.resize(static_cast<size_t>(got));
    passed += bytes.size();
    tell({.kind = kind, .bytes = {std::move(bytes)}, .code = 0});
    if (!all) return;
  }
}

int RemoteCommands::Running::act_in_time() {
  const auto now = Steady::now();
  auto next = Steady::time_point::max();
  std::function<void(Events)> waited;
  bool kills = false, unread = false;
  {
    const std::lock_guard lock(mutex);
    if (kill_at && *kill_at <= now) {
      kills = true;
      kill_at.reset();
    }
    if (give && give_until <= now) {
      waited.swap(give);
      taken_at = now;
    }
    unread = unread_until().value_or(next) <= now;
    if (kill_at) next = std::min(next, *kill_at);
    if (give) next = std::min(next, give_until);
    if (const auto until = unread_until()) next = std::min(next, *until);
  }
  if (kills) process.kill();
  if (waited) waited({{.kind = RemoteEvent::kNothing, .bytes = {}, .code = 0}});
  if (unread) {
    abandon();
    return 0;
  }
  if (next == Steady::time_point::max()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(next - now).count();
  return static_cast<int>(std::clamp<int64_t>(left, 0, 3'600'000));
}

void RemoteCommands::Running::resize_now() {
  std::optional<winsize> size;
  bool hangs_up = false;
  {
    const std::lock_guard lock(mutex);
    size.swap(new_size);
    hangs_up = abandoned;
  }
  if (size && out.read) ::ioctl(out.read.get(), TIOCSWINSZ, &*size);
  if (!hangs_up) return;
  // The kernel sends SIGHUP to its session.
  in.write.reset();
  out.read.reset();
}

void RemoteCommands::Running::serve() {
  while (true) {
    const int patience_ms = act_in_time();
    bool has_input = false;
    {
      const std::lock_guard lock(mutex);
      if (connection && (abandoned || !out.read)) code = broken ? 1 : 0;
      if (code) break;
      has_input = !inputs.empty();
    }
    if (terminal) resize_now();  // Before input that was given after the size.
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

Result<void> RemoteCommands::Running::open_streams(const RemoteCommand& command, std::string& terminal_path) {
  terminal = command.terminal;
  connection = command.port != 0;
  if (connection) {
    auto socket = connect_to(command.port);
    if (!socket) return make_error(socket.error());
    in.write = net::UniqueFd(::fcntl(socket->get(), F_DUPFD_CLOEXEC, 0));
    out.read = std::move(*socket);
    if (!in.write) return make_error(ErrorCode::kUnavailable, "dup: no descriptor is left");
  } else if (terminal) {
    auto pair = TerminalPair::make(size_of(command.rows, command.columns));
    if (!pair) return make_error(pair.error());
    terminal_path = std::move(pair->path);
    in.write = net::UniqueFd(::fcntl(pair->shown.get(), F_DUPFD_CLOEXEC, 0));
    out.read = std::move(pair->shown);
    if (!in.write) return make_error(ErrorCode::kUnavailable, "dup: no descriptor is left");
  }
  for (Pipe* pipe : {&in, &out, &err}) {
    if (terminal || connection || (pipe == &in && !command.input)) continue;
    auto made = Pipe::make();
    if (!made) return make_error(made.error());
    *pipe = std::move(*made);
  }
  if (!wake) return make_error(ErrorCode::kUnavailable, "eventfd: no descriptor is left");
  accepts_input = terminal || connection || command.input;
  return {};
}

// Before a command of a user starts: forgets those whose ends have no reader, and counts the others.
Result<void> RemoteCommands::make_room_locked(bool for_connection) {
  size_t count = 0;
  for (auto at = running_.begin(); at != running_.end();) {
    const std::shared_ptr<Running> one = (at++)->second;
    if (!one->by_user || one->connection != for_connection) continue;
    const std::lock_guard lock(one->mutex);
    if (one->finished && Steady::now() >= one->taken_at + limits_.reader_patience) {
      running_.erase(std::prev(at));
    } else {
      ++count;
    }
  }
  if (count < (for_connection ? limits_.connections : limits_.commands)) return {};
  return make_error(ErrorCode::kUnavailable,
                    fmt::format("{} that users started run in this rank, the limit; end some of them first",
                                counted(count, for_connection ? "connection" : "command")));
}

Result<void> RemoteCommands::start(const RemoteCommand& command) {
  const auto running = std::make_shared<Running>(surroundings_);
  running->by_user = command.by_user;
  running->reader_patience = limits_.reader_patience;
  RankProcess::Streams streams;
  VOLADOR_TRY(running->open_streams(command, streams.terminal));
  streams.in = running->in.read.get();
  streams.out = running->out.write.get();
  streams.err = running->err.write.get();
  {
    const std::lock_guard lock(mutex_);
    if (command.by_user) VOLADOR_TRY(make_room_locked(running->connection));
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
  const std::vector<std::string> words =
      command.words.empty() ? std::vector<std::string>{"bash", "-c", std::move(line)} : command.words;
  const auto refusal = running->connection ? std::nullopt : running->process.start(words, streams);
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
    } else if (running->connection) {
      running->serve();
      running->in.write.reset();
      code = running->code.value_or(0);
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

void RemoteCommands::take(const std::string& id, std::function<void(Events)> give, std::chrono::milliseconds wait,
                          std::function<bool()> is_gone) {
  Events told;
  if (const auto running = find(id)) {
    std::function<void(Events)> replaced;
    bool waits = false;
    {
      const std::lock_guard lock(running->mutex);
      replaced.swap(running->give);
      waits = running->events.empty() && !running->abandoned;
      if (waits) {
        running->give = std::move(give);
        running->is_gone = std::move(is_gone);
        running->give_until = Steady::now() + wait;
      }
      told.swap(running->events);
      running->events_bytes = 0;
      running->taken_at = Steady::now();
    }
    if (replaced) replaced({});
    if (waits) return running->wake_up();
    running->room.notify_all();
  }
  if (!told.empty() && told.back().kind == RemoteEvent::kEnded) forget(id);
  give(std::move(told));
}

void RemoteCommands::input(const std::string& id, std::string bytes, bool last, std::function<void()> taken) {
  if (const auto running = find(id)) {
    const std::lock_guard lock(running->mutex);
    if (running->accepts_input) return running->add_input(std::move(bytes), last, std::move(taken));
  }
  taken();
}

Result<void> RemoteCommands::offer(const std::string& id, std::string bytes, bool last) {
  const auto running = find(id);
  if (!running) return {};
  const std::lock_guard lock(running->mutex);
  if (!running->accepts_input) return {};
  if (running->inputs_bytes > 0 && running->inputs_bytes + bytes.size() > limits_.input_bytes) {
    return make_error(ErrorCode::kUnavailable,
                      fmt::format("the command has not read {} of its input; give it more when it has",
                                  format_bytes(static_cast<int64_t>(running->inputs_bytes))));
  }
  running->add_input(std::move(bytes), last, [] {});
  return {};
}

void RemoteCommands::resize(const std::string& id, int32_t rows, int32_t columns) {
  const auto running = find(id);
  if (!running || !running->terminal) return;
  const std::lock_guard lock(running->mutex);
  running->new_size = size_of(rows, columns);
  running->wake_up();
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
