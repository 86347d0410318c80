#include "runtime/net/guarded_port.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/tcp.h>  // Its tcp_info has tcpi_bytes_received.
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <limits>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "runtime/log.h"

namespace volador::net {
namespace {

constexpr int kAcceptsATurn = 64;
constexpr int kEventsATurn = 256;
constexpr int kTickMs = 20;                   // Tick interval while there are unproved connections.
constexpr uint64_t kSpareDescriptors = 64;    // Reserved for files of the process.
constexpr int kProvedReceiveBytes = 4 << 20;  // The kernel's own limit (net.core.rmem_max) is lower on most machines.
constexpr int kAcceptPauseMs = 100;           // Pause after running out of descriptors.
constexpr uint64_t kListener = 0;
constexpr uint64_t kWake = 1;
constexpr uint64_t kFirstConnection = 2;

GuardedPort::Peer peer_of(const sockaddr_storage& storage) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (storage.ss_family == AF_INET) {
    const auto& four = reinterpret_cast<const sockaddr_in&>(storage);
    ::inet_ntop(AF_INET, &four.sin_addr, text.data(), text.size());
    return {text.data(), fmt::format("{}:{}", text.data(), ntohs(four.sin_port))};
  }
  const auto& six = reinterpret_cast<const sockaddr_in6&>(storage);
  const uint16_t port = ntohs(six.sin6_port);
  if (IN6_IS_ADDR_V4MAPPED(&six.sin6_addr)) {
    ::inet_ntop(AF_INET, &six.sin6_addr.s6_addr[12], text.data(), text.size());
    return {text.data(), fmt::format("{}:{}", text.data(), port)};
  }
  ::inet_ntop(AF_INET6, &six.sin6_addr, text.data(), text.size());
  return {text.data(), fmt::format("[{}]:{}", text.data(), port)};
}

void set_receive_buffer(int fd, int bytes) { ::setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes); }

uint64_t bytes_received(int fd) {
  tcp_info info{};
  socklen_t size = sizeof info;
  if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return 0;
  return info.tcpi_bytes_received;
}

uint64_t descriptors_max() {
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  return files.rlim_cur;
}

}  // namespace

class GuardedPort::Impl {
 public:
  Impl(UniqueFd listener, const Clock& clock, GuardedPortOptions options, uint64_t descriptors)
      : options_(std::move(options)),
        limits_(admission_limits_for(descriptors, options_.limits)),
        listener_(std::move(listener)),
        clock_(clock),
        spare_from_(descriptors - std::min(descriptors, kSpareDescriptors)),
        admission_(limits_) {}
  ~Impl() { stop(); }

  Result<void> prepare() {
    epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
    wake_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    reserve_.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    // The kernel holds connections until their first bytes, for this long. If unsupported, admission_ does it.
    const int seconds = static_cast<int>(std::chrono::floor<std::chrono::seconds>(limits_.hello_time).count());
    if (seconds > 0) ::setsockopt(listener_.get(), IPPROTO_TCP, TCP_DEFER_ACCEPT, &seconds, sizeof seconds);
    const bool made =
        epoll_ && wake_ && reserve_ && watch(listener_.get(), kListener, EPOLLIN) && watch(wake_.get(), kWake, EPOLLIN);
    if (made) return {};
    return make_error(ErrorCode::kUnavailable, fmt::format("the {}'s port: no descriptor left: {}; raise `ulimit -n`",
                                                           options_.component, std::strerror(errno)));
  }

  int listener() const { return listener_.get(); }

  void start(Serve serve) {
    serve_ = std::move(serve);
    thread_ = std::thread([this] { run(); });
  }

  bool expects_proofs() const { return unproved_count_ > 0; }

  enum class Notice { kProved, kRefused, kClosed };
  void tell(Notice notice, uint64_t number) {
    {
      const std::lock_guard lock(mutex_);
      notices_.emplace_back(notice, number);
    }
    wake();
  }
  void on_proved(const std::string& name) {
    uint64_t number = 0;
    {
      const std::lock_guard lock(mutex_);
      const auto known = unproved_.find(name);
      if (known == unproved_.end()) return;
      number = known->second;
    }
    tell(Notice::kProved, number);
  }

  void stop() {
    if (thread_.joinable()) {
      stopping_ = true;
      wake();
      thread_.join();
    }
    connections_.clear();
    listener_.reset();
  }

 private:
  struct Connection {
    UniqueFd fd;
    Peer peer;
    bool served = false;
    bool looked = false;  // Part of the hello was checked; the rest is checked at the next tick.
  };

  bool watch(int fd, uint64_t tag, uint32_t events) {
    epoll_event event{};
    event.events = events;
    event.data.u64 = tag;
    return ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0;
  }

  void wake() {
    const uint64_t one = 1;
    (void)!::write(wake_.get(), &one, sizeof one);
  }

  void run() {
    ::pthread_setname_np(::pthread_self(), "volador-port");
    std::array<epoll_event, kEventsATurn> events{};
    BootTime next_tick = clock_.now();
    while (!stopping_) {
      const int timeout = paused_until_ || admission_.size() > 0 ? kTickMs : -1;
      const int count = ::epoll_wait(epoll_.get(), events.data(), kEventsATurn, timeout);
      take_notices();
      for (int i = 0; i < count; ++i) handle(events[static_cast<size_t>(i)]);
      const BootTime now = clock_.now();
      if (now < next_tick) continue;
      next_tick = now + std::chrono::milliseconds(kTickMs);
      tick(now);
    }
  }

  void handle(const epoll_event& event) {
    if (event.data.u64 == kListener) return accept();
    if (event.data.u64 == kWake) {
      uint64_t count = 0;
      (void)!::read(wake_.get(), &count, sizeof count);
      return take_notices();
    }
    const auto found = connections_.find(event.data.u64);
    if (found == connections_.end()) return;
    const uint64_t number = found->first;
    if ((event.events & (EPOLLHUP | EPOLLRDHUP | EPOLLERR)) != 0) {
      if (found->second.served && counts_bytes_) count_bytes(number);
      return act(admission_.on_closed(number, clock_.now()));
    }
    if (found->second.served || found->second.looked) return;
    look(number, found->second);
  }

  // Bytes beyond the limit may come from a peer that has just proved itself: its proof was reported before the server
  // read on.
  void count_bytes(uint64_t number) {
    const auto found = connections_.find(number);
    if (found == connections_.end()) return;
    const uint64_t bytes = bytes_received(found->second.fd.get());
    if (bytes > limits_.unproved_bytes) take_notices();
    act(admission_.on_received(number, bytes, clock_.now()));
  }

  // A hello sent byte by byte costs one check per tick, not one per byte.
  void look(uint64_t number, Connection& connection) {
    const auto hello = options_.has_hello(connection.fd.get());
    if (!hello) return act(admission_.on_garbage(number, clock_.now()));
    connection.looked = !*hello;
    if (connection.looked) return looked_.push_back(number);
    act(admission_.on_hello(number, clock_.now()));
  }

  void tick(BootTime now) {
    for (const uint64_t number : std::exchange(looked_, {})) {
      if (const auto found = connections_.find(number); found != connections_.end()) look(number, found->second);
    }
    if (counts_bytes_) {
      for (const uint64_t number : admission_.unproved()) count_bytes(number);
    }
    act(admission_.on_tick(now));
    if (paused_until_ && now >= *paused_until_) {
      paused_until_.reset();
      watch(listener_.get(), kListener, EPOLLIN);
    }
  }

  void accept() {
    for (int i = 0; i < kAcceptsATurn; ++i) {
      if (admission_.is_crowded(clock_.now())) return stop_accepting(kTickMs);
      sockaddr_storage address{};
      socklen_t size = sizeof address;
      UniqueFd fd(
          ::accept4(listener_.get(), reinterpret_cast<sockaddr*>(&address), &size, SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (!fd && (errno == EINTR || errno == ECONNABORTED)) continue;
      if (!fd && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) return refuse_and_pause();
      if (!fd) return;
      // The kernel assigns the lowest free number: nearly all others are in use.
      if (static_cast<uint64_t>(fd.get()) >= spare_from_)
        return pause_accepting("the last ones are kept for the files of this process");
      add(std::move(fd), peer_of(address));
    }
  }

  // Closes one connection with the reserve descriptor, so that its peer is notified at once.
  void refuse_and_pause() {
    const int error = errno;
    reserve_.reset();
    UniqueFd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)).reset();
    reserve_.reset(::open("/dev/null", O_RDONLY | O_CLOEXEC));
    pause_accepting(std::strerror(error));
  }

  void pause_accepting(std::string_view reason) {
    log::warn(options_.component, "no descriptor is left for another connection; raise the hard limit of `ulimit -n`",
              {{"reason", reason}});
    stop_accepting(kAcceptPauseMs);
  }

  void stop_accepting(int milliseconds) {
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, listener_.get(), nullptr);
    paused_until_ = clock_.now() + std::chrono::milliseconds(milliseconds);
  }

  void add(UniqueFd fd, const Peer& peer) {
    const int on = 1;
    ::setsockopt(fd.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (options_.unproved_receive_bytes > 0) set_receive_buffer(fd.get(), options_.unproved_receive_bytes);
    const uint64_t number = next_++;
    const int watched = fd.get();
    connections_.emplace(number, Connection{.fd = std::move(fd), .peer = peer});
    act(admission_.on_accepted(number, peer.address, clock_.now()));
    // Edge-triggered: peeking at a hello leaves its bytes on the socket.
    if (connections_.contains(number) && !watch(watched, number, EPOLLIN | EPOLLRDHUP | EPOLLET)) {
      act(admission_.on_closed(number, clock_.now()));
    }
  }

  void take_notices() {
    std::vector<std::pair<Notice, uint64_t>> notices;
    {
      const std::lock_guard lock(mutex_);
      notices.swap(notices_);
    }
    for (const auto& [notice, number] : notices) {
      const BootTime now = clock_.now();
      act(notice == Notice::kProved    ? admission_.on_proved(number, now)
          : notice == Notice::kRefused ? admission_.on_garbage(number, now)
                                       : admission_.on_closed(number, now));
    }
  }

  void act(const Admission::Actions& actions) {
    for (const AdmissionAction& action : actions) {
      const auto found = connections_.find(action.connection);
      if (found == connections_.end()) continue;
      if (action.kind == AdmissionAction::Kind::kServe) {
        serve(found->first, found->second);
        continue;
      }
      if (found->second.served) forget_unproved(found->second);
      // The server has its own descriptor for the connection.
      if (action.kind == AdmissionAction::Kind::kEnd) ::shutdown(found->second.fd.get(), SHUT_RDWR);
      if (action.kind == AdmissionAction::Kind::kRelease && options_.unproved_receive_bytes > 0)
        set_receive_buffer(found->second.fd.get(), kProvedReceiveBytes);
      connections_.erase(found);
    }
  }

  void serve(uint64_t number, Connection& connection) {
    UniqueFd handed(::fcntl(connection.fd.get(), F_DUPFD_CLOEXEC, 0));
    if (!handed) {  // The next tick, or the peer's end, removes it from the table.
      ::shutdown(connection.fd.get(), SHUT_RDWR);
      return;
    }
    connection.served = true;
    epoll_event event{};
    event.events = EPOLLRDHUP | EPOLLET;
    event.data.u64 = number;
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, connection.fd.get(), &event);
    {
      const std::lock_guard lock(mutex_);
      unproved_[connection.peer.name] = number;
      unproved_count_ = unproved_.size();
    }
    serve_(number, std::move(handed), connection.peer);
  }

  void forget_unproved(const Connection& connection) {
    const std::lock_guard lock(mutex_);
    unproved_.erase(connection.peer.name);
    unproved_count_ = unproved_.size();
  }

  const GuardedPortOptions options_;
  const AdmissionLimits limits_;
  const bool counts_bytes_ = limits_.unproved_bytes < std::numeric_limits<uint64_t>::max();
  UniqueFd listener_;
  const Clock& clock_;
  const uint64_t spare_from_;
  UniqueFd epoll_, wake_;
  UniqueFd reserve_;
  Serve serve_;
  std::thread thread_;
  std::atomic<bool> stopping_{false};

  // Used on the port's thread only.
  Admission admission_;
  std::unordered_map<uint64_t, Connection> connections_;
  std::vector<uint64_t> looked_;
  uint64_t next_ = kFirstConnection;
  std::optional<BootTime> paused_until_;

  std::mutex mutex_;
  std::unordered_map<std::string, uint64_t> unproved_;  // Served unproved connections, by peer name.
  std::atomic<size_t> unproved_count_{0};
  std::vector<std::pair<Notice, uint64_t>> notices_;
};

GuardedPort::GuardedPort(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
GuardedPort::~GuardedPort() = default;

Result<std::unique_ptr<GuardedPort>> GuardedPort::create(UniqueFd listener, const Clock& clock,
                                                         GuardedPortOptions options) {
  auto impl = std::make_unique<Impl>(std::move(listener), clock, std::move(options), descriptors_max());
  VOLADOR_TRY(impl->prepare());
  return std::unique_ptr<GuardedPort>(new GuardedPort(std::move(impl)));
}

int GuardedPort::listener() const { return impl_->listener(); }
void GuardedPort::start(Serve serve) { impl_->start(std::move(serve)); }
bool GuardedPort::expects_proofs() const { return impl_->expects_proofs(); }
void GuardedPort::on_proved(uint64_t number) { impl_->tell(Impl::Notice::kProved, number); }
void GuardedPort::on_proved(const std::string& name) { impl_->on_proved(name); }
void GuardedPort::on_refused(uint64_t number) { impl_->tell(Impl::Notice::kRefused, number); }
void GuardedPort::on_closed(uint64_t number) { impl_->tell(Impl::Notice::kClosed, number); }
void GuardedPort::stop() { impl_->stop(); }

}  // namespace volador::net
