#include "cli/job_forward.h"

#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <condition_variable>
#include <csignal>
#include <cstring>
#include <ctime>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>
#include <thread>
#include <utility>

#include "cli/command_channel.h"
#include "cli/job_session.h"
#include "jobs/job_client.h"
#include "runtime/control/cluster_api.h"
#include "runtime/net/loopback_socket.h"
#include "runtime/net/socket.h"
#include "runtime/net/unique_fd.h"
#include "runtime/protocol/volador/v1/jobs.pb.h"

namespace volador::cli {
namespace {

using std::chrono::milliseconds;

constexpr size_t kBytesAtOnce = size_t{256} << 10;
constexpr milliseconds kDescriptorPause{20};
constexpr milliseconds kStatePause{500};

Result<net::UniqueFd> listen_here(uint16_t port) {
  auto listener = net::listen_on_loopback(port, SOCK_NONBLOCK);
  if (!listener)
    return make_error(listener.error().code,
                      listener.error().message + "; choose another one, as in 0:PORT for any that is free");
  return listener;
}

// Accepts connections while it exists; each has two threads.
class Forwarder {
 public:
  Forwarder(control::ClusterApi& api, const JobForwardOptions& options, const Terminal& terminal,
            net::UniqueFd listener)
      : api_(api), options_(options), terminal_(terminal), listener_(std::move(listener)) {
    accepts_ = std::thread([this] { accept_all(); });
  }
  ~Forwarder() {
    const uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(over_.get(), &one, sizeof one);
    accepts_.join();
    std::set<std::shared_ptr<Connection>> open;
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
      open = connections_;
    }
    for (const auto& connection : open) end(*connection);
    std::unique_lock lock(mutex_);
    all_ended_.wait(lock, [this] { return connections_.empty(); });
  }
  Forwarder(const Forwarder&) = delete;
  Forwarder& operator=(const Forwarder&) = delete;

 private:
  struct Connection {
    net::UniqueFd socket;
    CommandChannel channel;
    bool started = false;
  };

  void accept_all();
  void serve(const std::shared_ptr<Connection>& connection);
  // From the program here to the one there, until its direction ends.
  void give(Connection& connection);
  // From the program there to the one here, until the connection has ended.
  void take(Connection& connection);
  // Closes it on both sides.
  void end(Connection& connection);
  void note_once(const std::string& why);

  control::ClusterApi& api_;
  const JobForwardOptions& options_;
  const Terminal& terminal_;
  net::UniqueFd listener_;
  net::UniqueFd over_{::eventfd(0, EFD_CLOEXEC)};
  std::thread accepts_;
  std::mutex mutex_;
  std::condition_variable all_ended_;
  std::set<std::shared_ptr<Connection>> connections_;
  std::string noted_;
  bool ending_ = false;
};

// A browser repeats a connection that fails, and the reason stays the same.
void Forwarder::note_once(const std::string& why) {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(noted_, why) == why) return;
  }
  terminal_.note(why);
}

void Forwarder::accept_all() {
  while (true) {
    std::array<pollfd, 2> watched{{{over_.get(), POLLIN, 0}, {listener_.get(), POLLIN, 0}}};
    if (::poll(watched.data(), watched.size(), -1) < 0) continue;
    if (watched[0].revents != 0) return;
    auto connection = std::make_shared<Connection>(
        Connection{.socket = {}, .channel = CommandChannel(api_, options_.job, options_.rank)});
    connection->socket.reset(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!connection->socket) {
      if (errno == EMFILE || errno == ENFILE) std::this_thread::sleep_for(kDescriptorPause);
      continue;
    }
    net::tune_socket(connection->socket.get(), true);
    {
      const std::lock_guard lock(mutex_);
      connections_.insert(connection);
    }
    std::thread([this, connection] {
      serve(connection);
      const std::lock_guard lock(mutex_);
      connections_.erase(connection);
      all_ended_.notify_all();
    }).detach();
  }
}

void Forwarder::serve(const std::shared_ptr<Connection>& connection) {
  v1::StartCommandRequest request;
  request.set_port(options_.ports.there);
  if (const auto started = connection->channel.start(request); !started) return note_once(started.error().message);
  note_once("");
  bool is_late = false;  // The forward has ended meanwhile.
  {
    const std::lock_guard lock(mutex_);
    connection->started = true;
    is_late = ending_;
  }
  if (is_late) return connection->channel.close();
  std::thread giver([this, &connection] { give(*connection); });
  take(*connection);
  ::shutdown(connection->socket.get(), SHUT_RDWR);  // What was sent before still arrives.
  giver.join();
}

void Forwarder::give(Connection& connection) {
  const auto pause = [this](milliseconds time) {
    pollfd over{over_.get(), POLLIN, 0};
    return ::poll(&over, 1, static_cast<int>(time.count())) <= 0;
  };
  std::string bytes;
  do {
    bytes.resize(kBytesAtOnce);
    const ssize_t got = ::recv(connection.socket.get(), bytes.data(), bytes.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return end(connection);
    bytes.resize(static_cast<size_t>(got));
    if (!connection.channel.give(bytes, bytes.empty(), pause)) return;  // take() finds out why.
  } while (!bytes.empty());
}

void Forwarder::take(Connection& connection) {
  while (true) {
    const auto reply = connection.channel.read(options_.wait);
    if (!reply) {
      // Bytes may be lost: the connection breaks, as it does between two machines.
      if (reply.error().code != ErrorCode::kNotFound) note_once(reply.error().message);
      return end(connection);
    }
    if (!net::send_all(connection.socket.get(), reply->output())) return end(connection);
    if (reply->ended()) return;
  }
}

void Forwarder::end(Connection& connection) {
  ::shutdown(connection.socket.get(), SHUT_RDWR);
  {
    const std::lock_guard lock(mutex_);
    if (!connection.started) return;
  }
  connection.channel.close();
}

// The signals that end this process, which it waits for while this exists; threads that start meanwhile do not get them.
class AwaitedSignals {
 public:
  AwaitedSignals() {
    sigemptyset(&signals_);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals_, signal);
    ::pthread_sigmask(SIG_BLOCK, &signals_, &before_);
  }
  ~AwaitedSignals() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  AwaitedSignals(const AwaitedSignals&) = delete;
  AwaitedSignals& operator=(const AwaitedSignals&) = delete;
  bool came_within(milliseconds time) const {
    const timespec patience{.tv_sec = time.count() / 1000, .tv_nsec = time.count() % 1000 * 1'000'000};
    return ::sigtimedwait(&signals_, nullptr, &patience) > 0;
  }

 private:
  sigset_t signals_{};
  sigset_t before_{};
};

class JobForward {
 public:
  JobForward(control::ClusterApi& api, const JobForwardOptions& options, const Terminal& terminal)
      : api_(api), options_(options), terminal_(terminal) {}

  Outcome run() {
    auto listener = listen_here(options_.ports.here);
    if (!listener) return fail_here(listener.error());
    const uint16_t port = net::port_of(*listener);
    if (!options_.command.empty()) {
      say(port);
      const Forwarder forwarder(api_, options_, terminal_, std::move(*listener));
      return run_job_session(api_,
                             {.job = options_.job,
                              .rank = options_.rank,
                              .command = options_.command,
                              .waits = options_.waits,
                              .wait = options_.wait},
                             terminal_);
    }
    const AwaitedSignals signals;
    while (const auto refusal = refused()) {
      const auto job = jobs::JobClient(api_).get(options_.job);
      const bool comes = options_.waits && job && (job->state() == "queued" || job->state() == "running");
      if (!comes) return fail(*refusal);
      if (signals.came_within(kStatePause)) return {};
    }
    say(port);
    const Forwarder forwarder(api_, options_, terminal_, std::move(*listener));
    while (!signals.came_within(std::chrono::seconds(2))) {
      const auto job = jobs::JobClient(api_).get(options_.job);
      if (job && jobs::has_ended(*job)) {
        terminal_.note(terminal_.fill("{} has ended ({})", job->id(), terminal_.word(job->state())));
        return {};
      }
      if (!job && job.error().code == ErrorCode::kNotFound) return fail(job.error());
    }
    return {};
  }

 private:
  // Why no command and no connection can be started in the rank: the read of one that does not exist says it.
  std::optional<Error> refused() {
    const auto job = jobs::JobClient(api_).get(options_.job);
    if (!job) return job.error();
    v1::ReadCommandRequest request;
    request.set_job(job->id());
    request.set_rank(options_.rank);
    request.set_command("c" + std::string(32, '0'));
    const auto read = api_.call<v1::ReadCommandReply>("Jobs/ReadCommand", request);
    if (read || read.error().code == ErrorCode::kNotFound) return std::nullopt;
    return read.error();
  }
  void say(uint16_t port) const {
    const std::string address = fmt::format("127.0.0.1:{}", port);
    if (terminal_.json()) return terminal_.print(nlohmann::json{{"address", address}}.dump() + "\n");
    terminal_.note(terminal_.fill("{} leads to port {} of rank {} of {}; Ctrl-C ends it", "http://" + address,
                                  options_.ports.there, options_.rank, options_.job));
  }

  control::ClusterApi& api_;
  const JobForwardOptions& options_;
  const Terminal& terminal_;
};

}  // namespace

Result<ForwardedPorts> parse_forwarded_ports(const std::string& text) {
  const auto number = [](std::string_view part, int least) -> std::optional<uint16_t> {
    int value = -1;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (error != std::errc() || end != part.data() + part.size() || value < least || value > 65'535) return {};
    return static_cast<uint16_t>(value);
  };
  const size_t colon = text.find(':');
  const std::string_view all = text;
  const auto there = number(colon == std::string::npos ? all : all.substr(colon + 1), 1);
  const auto here = colon == std::string::npos ? there : number(all.substr(0, colon), 0);
  if (here && there) return ForwardedPorts{.here = *here, .there = *there};
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("port: expected a port from 1 to 65535 such as 8888, or HERE:THERE such as 9000:8888, "
                                "got \"{}\"",
                                text));
}

Outcome run_job_forward(control::ClusterApi& api, const JobForwardOptions& options, const Terminal& terminal) {
  return JobForward(api, options, terminal).run();
}

}  // namespace volador::cli
