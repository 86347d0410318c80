#include "train/group/node_links.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

#include "runtime/log.h"
#include "runtime/net/socket.h"
#include "runtime/security/handshake.h"
#include "train/core/wire_schedule.h"
#include "train/group/group.h"
#include "train/group/node_wire.h"
#include "tune/refusal.h"

namespace volador::train {
namespace {

using SteadyClock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr int kBacklog = 128;
constexpr size_t kAcceptedMax = 64;     // Connections that have not said who they are; the oldest one makes room.
constexpr auto kAcceptedLimit = 10s;    // Time for a connection to say who it is.
constexpr auto kRetryAfter = 100ms;     // Pause before a node is connected to again.
constexpr auto kWaitSlice = 20ms;       // Time after which the joining looks whether it is still wanted.
constexpr size_t kMessageBytes = 4096;  // Limit of a hello or an answer.
constexpr int kRefusalsLogged = 5;

[[noreturn]] void unavailable(std::string message) {
  throw Exception(Error{ErrorCode::kUnavailable, std::move(message)});
}

// "10.0.0.2:4000" or "[fd00::2]:4000".
std::string address_text(const sockaddr_storage& storage, socklen_t length) {
  char host[NI_MAXHOST] = "", port[NI_MAXSERV] = "";
  if (::getnameinfo(reinterpret_cast<const sockaddr*>(&storage), length, host, sizeof host, port, sizeof port,
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
    return "an unknown address";
  }
  return storage.ss_family == AF_INET6 ? fmt::format("[{}]:{}", host, port) : fmt::format("{}:{}", host, port);
}

bool is_wildcard(const sockaddr_storage& storage) {
  if (storage.ss_family == AF_INET6) {
    return IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<const sockaddr_in6&>(storage).sin6_addr);
  }
  return reinterpret_cast<const sockaddr_in&>(storage).sin_addr.s_addr == htonl(INADDR_ANY);
}

struct Listener {
  net::UniqueFd socket;
  std::string address;
};

Listener listen_at(const std::string& address) {
  const auto failed = [&](const char* call) {
    unavailable(fmt::format("address \"{}\": {}: {}", address, call, std::strerror(errno)));
  };
  const auto found = net::resolve(address, 0);
  if (!found) unavailable(found.error().message);
  const net::SocketAddress& at = found->front();
  if (is_wildcard(at.storage)) {
    tune::throw_refusal(
        fmt::format("address \"{}\": expected the IP address of one interface, which the other nodes reach", address));
  }
  Listener listener;
  listener.socket.reset(::socket(at.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!listener.socket) failed("socket");
  const int fd = listener.socket.get();
  if (::bind(fd, reinterpret_cast<const sockaddr*>(&at.storage), at.length) != 0) failed("bind");
  if (::listen(fd, kBacklog) != 0) failed("listen");
  sockaddr_storage bound{};
  socklen_t length = sizeof bound;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&bound), &length) != 0) failed("getsockname");
  listener.address = address_text(bound, length);
  return listener;
}

// Exchanges hellos with the neighbours, all at once: connections to them, and those that come in.
class Joining {
 public:
  Joining(const NodeWireOptions& options, NodeLinks& links, NodeLink::Time deadline)
      : options_(options), links_(links), deadline_(deadline), place_{.node = options.node, .nodes = options.nodes} {}

  void run() {
    Listener listener = listen_at(options_.address);
    listener_ = std::move(listener.socket);
    meet(listener.address);
    while (!is_complete()) {
      if (options_.cancelled != nullptr && options_.cancelled->load()) throw GroupAborted("the group is formed anew");
      if (SteadyClock::now() >= deadline_) unavailable(missing());
      connect_missing();
      wait();
      accept_all();
      advance_all();
    }
  }

 private:
  enum class Stage : uint8_t { kConnecting, kHandshake, kHello, kAnswer, kRefused, kDone };

  // A connection that is not yet a link. The client sends a hello, the server an answer, empty if it agrees: texts
  // behind their length as two bytes.
  struct Attempt {
    std::unique_ptr<NodeLink> link;
    NodeLink::End end = NodeLink::End::kServer;
    int peer = -1;  // -1: it has not said who it is.
    Stage stage = Stage::kHandshake;
    NodeLink::Time limit;
    std::string message;  // Received so far.
  };
  struct Peer {
    std::string address;
    NodeLink::Time retry_at;
    std::string error;  // That of the last attempt.
    bool is_tried = false;
  };

  std::string name(std::string_view what) const { return fmt::format("{}/wire/{}", options_.run, what); }
  std::string address_name(int node) const { return name(fmt::format("address/{}", node)); }

  // Learns the key and the addresses.
  void meet(const std::string& address) {
    const auto put = [&](const std::string& key, const std::string& value) {
      options_.rendezvous->set(key, value);
      links_.names.push_back(key);
    };
    if (options_.node == 0) put(name("key"), security::Secret::random(kLinkKeyBytes).reveal());
    put(address_name(options_.node), address);
    std::vector<std::string> wanted{name("key")};
    const std::vector<int> nodes = nodes_sent_to(place_);
    for (const int node : nodes) wanted.push_back(address_name(node));
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline_ - SteadyClock::now());
    std::vector<std::string> values = options_.rendezvous->wait_all(wanted, std::max(left, 0ms));
    links_.key = tune::unwrap(LinkKey::create(security::Secret(std::move(values.at(0))), options_.pieces_per_key));
    for (size_t i = 0; i < nodes.size(); ++i) peers_[nodes[i]].address = values.at(i + 1);
  }

  bool is_complete() const {
    return links_.to.size() == peers_.size() && links_.from.size() == nodes_received_from(place_).size();
  }

  std::string missing() const {
    std::vector<std::string> texts;
    for (const auto& [node, peer] : peers_) {
      if (links_.to.contains(node)) continue;
      texts.push_back(fmt::format("node {} at {} could not be reached{}{}", node, peer.address,
                                  peer.error.empty() ? "" : ": ", peer.error));
    }
    for (const int node : nodes_received_from(place_)) {
      if (!links_.from.contains(node)) texts.push_back(fmt::format("node {} has not connected", node));
    }
    return fmt::format("{}", fmt::join(texts, "; "));
  }

  void connect_missing() {
    const auto now = SteadyClock::now();
    for (auto& [node, peer] : peers_) {
      if (peer.is_tried || links_.to.contains(node) || now < peer.retry_at) continue;
      peer.retry_at = now + kRetryAfter;
      if (const auto started = connect_to(node, peer); !started) peer.error = started.error().message;
    }
  }

  Result<void> connect_to(int node, Peer& peer) {
    const auto where = security::parse_host_port(peer.address);
    if (!where) return make_error(where.error());
    const auto found = net::resolve(where->host, static_cast<uint16_t>(std::stoi(where->port)));
    if (!found) return make_error(found.error());
    auto connecting = net::start_connect(found->front());
    if (!connecting) return make_error(connecting.error());
    auto link = NodeLink::create(*links_.key, NodeLink::End::kClient, std::move(connecting->socket),
                                 fmt::format("node {} at {}", node, peer.address));
    if (!link) return make_error(link.error());
    attempts_.push_back({.link = std::move(*link),
                         .end = NodeLink::End::kClient,
                         .peer = node,
                         .stage = Stage::kConnecting,
                         .limit = deadline_});
    peer.is_tried = true;
    return {};
  }

  void wait() {
    std::vector<pollfd> polled{{.fd = listener_.get(), .events = POLLIN, .revents = 0}};
    for (const Attempt& attempt : attempts_) {
      const bool writes = attempt.stage == Stage::kConnecting || attempt.link->has_unsent();
      polled.push_back(
          {.fd = attempt.link->fd(), .events = static_cast<short>(writes ? POLLIN | POLLOUT : POLLIN), .revents = 0});
    }
    ::poll(polled.data(), polled.size(), static_cast<int>(std::chrono::milliseconds(kWaitSlice).count()));
  }

  void accept_all() {
    while (true) {
      sockaddr_storage from{};
      socklen_t length = sizeof from;
      net::UniqueFd socket(
          ::accept4(listener_.get(), reinterpret_cast<sockaddr*>(&from), &length, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (!socket) return;
      net::tune_socket(socket.get(), true);
      auto link = NodeLink::create(*links_.key, NodeLink::End::kServer, std::move(socket), address_text(from, length));
      if (!link) continue;
      const auto is_unknown = [](const Attempt& attempt) { return attempt.peer < 0; };
      if (static_cast<size_t>(std::count_if(attempts_.begin(), attempts_.end(), is_unknown)) >= kAcceptedMax) {
        attempts_.erase(std::find_if(attempts_.begin(), attempts_.end(), is_unknown));
      }
      attempts_.push_back({.link = std::move(*link), .limit = SteadyClock::now() + kAcceptedLimit});
    }
  }

  void advance_all() {
    const auto now = SteadyClock::now();
    for (Attempt& attempt : attempts_) {
      Result<void> result = advance(attempt);
      if (result && attempt.stage != Stage::kDone && now >= attempt.limit) {
        result = make_error(ErrorCode::kTimeout, fmt::format("{} has not said who it is", attempt.link->peer()));
      }
      if (!result) fail(attempt, result.error());
      if (attempt.stage == Stage::kDone && attempt.link != nullptr) {
        auto& links = attempt.end == NodeLink::End::kClient ? links_.to : links_.from;
        links[attempt.peer] = std::move(attempt.link);
      }
    }
    std::erase_if(attempts_, [](const Attempt& attempt) { return attempt.stage == Stage::kDone; });
  }

  void fail(Attempt& attempt, const Error& error) {
    attempt.stage = Stage::kDone;
    attempt.link.reset();
    if (attempt.end == NodeLink::End::kClient) {
      Peer& peer = peers_.at(attempt.peer);
      peer.is_tried = false;
      peer.error = error.message;
    } else if (refusals_++ < kRefusalsLogged) {
      log::warn("train", "a connection to the wire between the nodes was refused",
                {{"run", options_.run}, {"reason", error.message}});
    }
  }

  // Does what is possible without waiting.
  Result<void> advance(Attempt& attempt) {
    const bool is_client = attempt.end == NodeLink::End::kClient;
    NodeLink& link = *attempt.link;
    if (attempt.stage == Stage::kConnecting) {
      pollfd polled{.fd = link.fd(), .events = POLLOUT, .revents = 0};
      if (::poll(&polled, 1, 0) <= 0) return {};
      if (const int error = net::take_socket_error(link.fd()); error != 0) {
        return make_error(ErrorCode::kUnavailable, fmt::format("{}: {}", link.peer(), std::strerror(error)));
      }
      attempt.stage = Stage::kHandshake;
    }
    if (attempt.stage == Stage::kHandshake) {
      const auto is_over = link.handshake();
      if (!is_over) return make_error(is_over.error());
      if (!*is_over) return {};
      attempt.stage = is_client ? Stage::kAnswer : Stage::kHello;
      if (is_client) VOLADOR_TRY(say(link, hello(options_.node, attempt.peer)));
    }
    const auto sent = link.send_some();
    if (!sent) return make_error(sent.error());
    if (!*sent) return {};
    if (attempt.stage == Stage::kHello) return hear_hello(attempt);
    if (attempt.stage == Stage::kAnswer) return hear_answer(attempt);
    if (attempt.stage == Stage::kRefused) {
      return make_error(ErrorCode::kInvalidArgument, fmt::format("{} said \"{}\"", link.peer(), attempt.message));
    }
    return {};
  }

  std::string hello(int from, int to) const {
    return fmt::format("volador wire 1: node {} of {} to node {}, run {}", from, options_.nodes, to, options_.run);
  }

  Result<void> hear_hello(Attempt& attempt) {
    const auto is_heard = hear(attempt);
    if (!is_heard) return make_error(is_heard.error());
    if (!*is_heard) return {};
    for (const int node : nodes_received_from(place_)) {
      if (attempt.message == hello(node, options_.node)) attempt.peer = node;
    }
    if (attempt.peer < 0) {
      attempt.stage = Stage::kRefused;
      return say(*attempt.link, fmt::format("this is node {} of {} of run {}, with other nodes before it",
                                            options_.node, options_.nodes, options_.run));
    }
    VOLADOR_TRY(say(*attempt.link, ""));
    attempt.link->set_peer(fmt::format("node {} at {}", attempt.peer, attempt.link->peer()));
    attempt.stage = Stage::kDone;  // The few bytes fit into the socket.
    return attempt.link->start();
  }

  Result<void> hear_answer(Attempt& attempt) {
    const auto is_heard = hear(attempt);
    if (!is_heard) return make_error(is_heard.error());
    if (!*is_heard) return {};
    if (!attempt.message.empty()) {
      return make_error(ErrorCode::kUnavailable, fmt::format("{} answered: {}", attempt.link->peer(), attempt.message));
    }
    attempt.stage = Stage::kDone;
    return attempt.link->start();
  }

  Result<void> say(NodeLink& link, const std::string& text) {
    const std::string body = text.substr(0, kMessageBytes);
    const auto size = static_cast<unsigned>(body.size());
    const std::string message = std::string{static_cast<char>(size >> 8), static_cast<char>(size & 0xff)} + body;
    VOLADOR_TRY(link.say(std::as_bytes(std::span(message))));
    const auto sent = link.send_some();
    if (!sent) return make_error(sent.error());
    return {};
  }

  // Whether a whole text has arrived; attempt.message is then that text.
  Result<bool> hear(Attempt& attempt) {
    std::string& message = attempt.message;
    while (true) {
      size_t size = 2;
      if (message.size() >= 2) {
        size += static_cast<size_t>(static_cast<uint8_t>(message[0])) << 8 | static_cast<uint8_t>(message[1]);
        if (message.size() == size) {
          message.erase(0, 2);
          return true;
        }
      }
      const size_t had = message.size();
      message.resize(size);
      const auto got = attempt.link->hear(std::as_writable_bytes(std::span(message)).subspan(had));
      message.resize(had + (got ? *got : 0));
      if (!got) return make_error(got.error());
      if (*got == 0) return false;
    }
  }

  const NodeWireOptions& options_;
  NodeLinks& links_;
  const NodeLink::Time deadline_;
  const NodePlace place_;
  net::UniqueFd listener_;
  std::map<int, Peer> peers_;  // Nodes to connect to.
  std::vector<Attempt> attempts_;
  int refusals_ = 0;
};

}  // namespace

NodeLinks connect_nodes(const NodeWireOptions& options, NodeLink::Time deadline) {
  NodeLinks links;
  if (options.nodes > 1) Joining(options, links, deadline).run();
  return links;
}

}  // namespace volador::train
