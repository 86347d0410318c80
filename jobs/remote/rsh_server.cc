#include "jobs/remote/rsh_server.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <list>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

#include "jobs/remote/rsh_frames.h"
#include "runtime/net/socket.h"
#include "runtime/net/unique_fd.h"

namespace volador::jobs {

namespace {

constexpr int kCannotConnect = 255;  // As ssh.

// One client. Three threads: frames from it, the command's standard input, and the command's output.
class RshConnection {
 public:
  explicit RshConnection(net::UniqueFd socket) : socket_(std::move(socket)) {}

  // Serves the client until the command has ended.
  void serve(const std::vector<Peer>& peers, size_t own_rank, const RshServer::Start& start);
  // Ends the connection from another thread.
  void close() { ::shutdown(socket_.get(), SHUT_RDWR); }

 private:
  // Waits for a frame. No value: the connection has ended.
  std::optional<RshFrame> read();
  void write(RshFrameKind kind, std::string_view content);
  void fail(const std::string& message) {
    write(RshFrameKind::kError, "volador: " + message + "\n");
    write(RshFrameKind::kExit, std::to_string(kCannotConnect));
  }
  // Returns whether the command has ended.
  bool pass_on(const std::vector<RemoteEvent>& events);
  void read_frames(RemoteRun& run);
  void give_input(RemoteRun& run);

  const net::UniqueFd socket_;
  RshFrameReader frames_;
  std::mutex writes_;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool started_ = false;
  bool over_ = false;                                // No input and no signal is passed on any more.
  std::deque<std::pair<std::string, bool>> inputs_;  // With `last`.
  std::vector<int> early_signals_;                   // Before it has started.
};

std::optional<RshFrame> RshConnection::read() {
  std::array<char, size_t{64} << 10> buffer;
  while (true) {
    auto frame = frames_.next();
    if (!frame) return std::nullopt;
    if (*frame) return std::move(*frame);
    const ssize_t got = ::recv(socket_.get(), buffer.data(), buffer.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return std::nullopt;
    frames_.add({buffer.data(), static_cast<size_t>(got)});
  }
}

void RshConnection::write(RshFrameKind kind, std::string_view content) {
  const std::string frame = rsh_frame(kind, content);
  const std::lock_guard lock(writes_);
  for (size_t done = 0; done < frame.size();) {
    const ssize_t wrote = ::send(socket_.get(), frame.data() + done, frame.size() - done, MSG_NOSIGNAL);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) return;  // The client is gone; the thread that reads ends the command.
    done += static_cast<size_t>(wrote);
  }
}

void RshConnection::read_frames(RemoteRun& run) {
  size_t waiting = 0;
  while (const auto frame = read()) {
    std::unique_lock lock(mutex_);
    if (over_) return;
    if (frame->kind == RshFrameKind::kInput || frame->kind == RshFrameKind::kInputEnd) {
      waiting = 0;
      for (const auto& [bytes, last] : inputs_) waiting += bytes.size();
      if (waiting + frame->content.size() > kRshInputAhead) break;  // It does not keep to the protocol.
      inputs_.emplace_back(frame->content, frame->kind == RshFrameKind::kInputEnd);
      changed_.notify_all();
    } else if (frame->kind == RshFrameKind::kSignal) {
      const int signal = std::atoi(frame->content.c_str());
      if (signal < 1 || signal > 64) break;
      if (!started_) {
        early_signals_.push_back(signal);
        continue;
      }
      lock.unlock();
      run.send(signal);
    } else {
      break;
    }
  }
  {
    const std::lock_guard lock(mutex_);
    if (over_) return;
  }
  run.abandon();
}

void RshConnection::give_input(RemoteRun& run) {
  while (true) {
    std::pair<std::string, bool> next;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return over_ || (started_ && !inputs_.empty()); });
      if (over_) return;
      // All that has arrived goes in one call.
      for (; !inputs_.empty(); inputs_.pop_front()) {
        next.first += inputs_.front().first;
        next.second = inputs_.front().second;
      }
    }
    const size_t size = next.first.size();
    run.input(std::move(next.first), next.second);
    if (next.second) return;
    write(RshFrameKind::kTaken, std::to_string(size));
  }
}

bool RshConnection::pass_on(const std::vector<RemoteEvent>& events) {
  for (const RemoteEvent& event : events) {
    if (event.kind == RemoteEvent::kEnded) {
      write(RshFrameKind::kExit, std::to_string(event.code));
      return true;
    }
    write(event.kind == RemoteEvent::kOutput ? RshFrameKind::kOutput : RshFrameKind::kError, event.bytes.data);
  }
  return false;
}

void RshConnection::serve(const std::vector<Peer>& peers, size_t own_rank, const RshServer::Start& start) {
  const auto first = read();
  if (!first) return;
  const auto asked = first->kind == RshFrameKind::kStart
                         ? from_bytes<RshStart>(first->content)
                         : Result<RshStart>(make_error(ErrorCode::kInvalidArgument, "another message"));
  if (!asked) return fail("job-rsh sent no start: " + asked.error().message + "; use the one of the same version");
  const auto rank = find_peer(peers, own_rank, asked->host);
  if (!rank) return write(RshFrameKind::kUnknown, list_of_peers(peers));

  const std::unique_ptr<RemoteRun> run = start(*rank, asked->command_line, asked->input);
  std::thread reader([this, &run] { read_frames(*run); });
  std::thread giver;
  if (asked->input) giver = std::thread([this, &run] { give_input(*run); });
  try {
    run->start();
    std::vector<int> early;
    {
      const std::lock_guard lock(mutex_);
      started_ = true;
      early.swap(early_signals_);
    }
    changed_.notify_all();
    for (const int signal : early) run->send(signal);
    while (!pass_on(run->next())) {
    }
  } catch (const Exception& failed) {
    fail(fmt::format("{} (node {}): {}", peers[*rank].name, peers[*rank].node, failed.error().message));
  }
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  ::shutdown(socket_.get(), SHUT_RD);
  reader.join();
  if (giver.joinable()) giver.join();
}

}  // namespace

struct RshServer::Impl {
  std::vector<Peer> peers;
  size_t own_rank = 0;
  Start start;
  net::UniqueFd listener;
  net::UniqueFd stop{::eventfd(0, EFD_CLOEXEC)};

  struct Served {
    explicit Served(net::UniqueFd socket) : connection(std::move(socket)) {}
    RshConnection connection;
    std::thread thread;
    bool done = false;
  };
  std::mutex mutex;
  std::list<Served> served;
  std::thread thread;

  void accept_all();
  void join_done();
};

void RshServer::Impl::join_done() {
  std::list<Served> done;
  {
    const std::lock_guard lock(mutex);
    for (auto at = served.begin(); at != served.end();) {
      const auto one = at++;
      if (one->done) done.splice(done.end(), served, one);
    }
  }
  for (Served& one : done) one.thread.join();
}

void RshServer::Impl::accept_all() {
  while (true) {
    std::array<pollfd, 2> watched{{{listener.get(), POLLIN, 0}, {stop.get(), POLLIN, 0}}};
    if (::poll(watched.data(), watched.size(), -1) < 0) continue;
    if (watched[1].revents != 0) return;
    net::UniqueFd socket(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    join_done();
    if (!socket) {
      if (errno == EMFILE || errno == ENFILE) {  // The client waits.
        ::poll(&watched[1], 1, 100);
      }
      continue;
    }
    const std::lock_guard lock(mutex);
    Served& one = served.emplace_back(std::move(socket));
    one.thread = std::thread([this, &one] {
      one.connection.serve(peers, own_rank, start);
      one.connection.close();
      const std::lock_guard done(mutex);
      one.done = true;
    });
  }
}

RshServer::RshServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Result<std::unique_ptr<RshServer>> RshServer::create(const std::filesystem::path& folder, std::vector<Peer> peers,
                                                     size_t own_rank, Start start) {
  auto impl = std::make_unique<Impl>();
  impl->peers = std::move(peers);
  impl->own_rank = own_rank;
  impl->start = std::move(start);
  // The path of the folder may be longer than the path of a socket may be.
  const net::UniqueFd at(::open(folder.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  auto listener = net::listen_unix(fmt::format("/proc/self/fd/{}/{}", at.get(), kRshSocket));
  if (!listener) return make_error(listener.error());
  impl->listener = std::move(*listener);
  impl->thread = std::thread([of = impl.get()] { of->accept_all(); });
  return std::unique_ptr<RshServer>(new RshServer(std::move(impl)));
}

RshServer::~RshServer() {
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(impl_->stop.get(), &one, sizeof one);
  impl_->thread.join();
  {
    const std::lock_guard lock(impl_->mutex);
    for (auto& served : impl_->served) served.connection.close();
  }
  for (auto& served : impl_->served) served.thread.join();
}

}  // namespace volador::jobs
