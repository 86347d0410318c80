#include "worker/store/store_peers.h"

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "runtime/crc32c.h"
#include "runtime/log.h"
#include "runtime/quantities.h"
#include "runtime/random.h"
#include "runtime/security/tls_context.h"
#include "runtime/store/object_name.h"
#include "worker/shell/node_identity.h"

namespace volador::worker {
namespace {

enum Method : uint64_t { kAttach = 1, kMessage = 2, kRead = 3 };
constexpr auto kCallPatience = std::chrono::seconds(60);
constexpr size_t kRepliesBytesMax = size_t{256} << 20;
constexpr size_t kSumBytes = 4;  // CRC-32C after each chunk, little-endian.

void append_sum(std::string& chunk) {
  const uint32_t sum = crc32c(chunk);
  for (size_t at = 0; at < kSumBytes; ++at) chunk += static_cast<char>(sum >> (8 * at));
}
bool is_sum_of(std::string_view sum, std::string_view chunk) {
  uint32_t value = 0;
  for (size_t at = 0; at < kSumBytes; ++at) value |= uint32_t{static_cast<uint8_t>(sum[at])} << (8 * at);
  return crc32c(chunk) == value;
}

// Completes a chunk, parts of which may already be in the room.
Result<void> take_chunk(std::string_view answer, const net::ReplyRoom& room) {
  const std::span<char> into = room.bytes;
  const size_t came = answer.size() + (room.filled ? into.size() : 0);
  if (came != into.size() + kSumBytes) {
    return make_error(ErrorCode::kUnavailable,
                      fmt::format("{} came instead of {}", counted(came, "byte"), into.size() + kSumBytes));
  }
  if (!room.filled) std::memcpy(into.data(), answer.data(), into.size());
  if (is_sum_of(answer.substr(answer.size() - kSumBytes), {into.data(), into.size()})) return {};
  return make_error(ErrorCode::kUnavailable, "a chunk arrived with other bytes than its checksum says");
}

}  // namespace

struct StorePeers::Home {
  std::shared_ptr<net::CallConnection> connection;
  uint64_t number = 0;
};

StorePeers::StorePeers(net::IoLoop& loop, NodeId node, Random& random, std::shared_ptr<const security::TlsContext> tls,
                       PeerEvents events)
    : loop_(loop),
      node_(node),
      self_(new_id<net::CallerId>(random)),
      tls_(std::move(tls)),
      events_(std::move(events)) {}

StorePeers::~StorePeers() { *alive_ = false; }

void StorePeers::close() {
  for (auto& [address, home] : homes_) home->connection->close();
  homes_.clear();
  if (server_) server_->close();
  server_.reset();
  attached_.clear();
}

// ---- serving side ----

void StorePeers::adopt(net::UniqueFd connection, std::function<void()> on_proved) {
  if (!tls_) return;
  if (!server_) {
    net::ServerOptions options;
    options.tls = tls_;
    options.replies_bytes_max = kRepliesBytesMax;
    auto made = net::CallServer::create(
        loop_, options,
        net::each_call([this, alive = alive_](net::CallRequest&& request, std::shared_ptr<net::Responder>&& responder) {
          if (*alive) on_call(std::move(request), std::move(responder));
        }));
    if (!made) return log::warn("objects", "other nodes cannot be served", {{"error", made.error().message}});
    server_ = std::move(*made);
  }
  server_->adopt(std::move(connection), std::move(on_proved));
}

void StorePeers::check_peers() {
  if (server_) server_->check_peers();
}

void StorePeers::on_call(net::CallRequest request, std::shared_ptr<net::Responder> responder) {
  const net::Peer& peer = responder->peer();
  if (peer.local || !peer.identity.starts_with("node ")) {
    return responder->reply(
        make_error(ErrorCode::kPermissionDenied,
                   fmt::format("the object store serves nodes of its cluster, not {}", peer.identity)));
  }
  const net::CallerId caller = peer.caller;
  if (request.method == kAttach) {
    if (attached_.contains(caller))
      return responder->reply(make_error(ErrorCode::kInvalidArgument, "this node is attached already"));
    protocol::StoreHello hello;
    if (!hello.ParseFromString(request.body))
      return responder->reply(make_error(ErrorCode::kInvalidArgument, "expected who attaches"));
    attached_.emplace(caller, responder);  // Never answered: it ends with the connection.
    events_.connected(caller, hello.address());
    responder->on_cancel([this, caller, alive = alive_] {
      if (*alive && attached_.erase(caller) > 0) events_.gone(caller);
    });
    return;
  }
  if (!attached_.contains(caller))
    return responder->reply(make_error(ErrorCode::kInvalidArgument, "expected to be attached first"));
  if (request.method == kMessage) {
    protocol::ToStore message;
    if (!message.ParseFromString(request.body))
      return responder->reply(make_error(ErrorCode::kInvalidArgument, "expected a message to an object store"));
    events_.message(caller, message, [responder](Result<std::string> answer) { responder->reply(std::move(answer)); });
    return;
  }
  protocol::ReadObject wanted;
  if (request.method != kRead || !wanted.ParseFromString(request.body))
    return responder->reply(make_error(ErrorCode::kInvalidArgument, "expected attach, message or read"));
  const ObjectKey key = object_key_of(wanted.name());
  events_.read(key, wanted.offset(), wanted.bytes(),
               [responder, key, spoil = events_.spoil](Result<std::string> answer) {
                 if (answer) append_sum(*answer);
                 if (answer && spoil) spoil(key, *answer);
                 responder->reply(std::move(answer));
               });
}

// ---- requesting side ----

std::shared_ptr<net::CallConnection> StorePeers::connection(const std::string& address) {
  if (const auto known = homes_.find(address); known != homes_.end()) return known->second->connection;
  const auto parts = parse_host_port(address);
  if (!parts || !tls_) return nullptr;
  net::TlsEndpoint endpoint;
  endpoint.host = parts->host;
  endpoint.port = parts->port;
  endpoint.server_name = std::string(security::kNodeServerName);
  endpoint.tls = tls_;
  const auto home = std::make_shared<Home>();
  net::ConnectionOptions options;
  options.caller = self_;
  const std::weak_ptr<Home> weak = home;
  home->connection =
      net::CallConnection::connect(loop_, endpoint, options, [this, address, weak, alive = alive_](const Error& error) {
        if (!*alive) return;
        const auto lost = homes_.find(address);
        if (lost == homes_.end() || lost->second != weak.lock()) return;
        log::debug("objects", "connection to another node's store lost",
                   {{"address", address}, {"error", error.message}});
        homes_.erase(lost);
        events_.lost(address);
      });
  home->number = next_connection_++;
  homes_.emplace(address, home);
  protocol::StoreHello hello;
  hello.set_address(own_address_);
  home->connection->call({.request_id = next_request_++,
                          .actor = {},
                          .epoch = 0,
                          .method = kAttach,
                          .timeout = {},
                          .body = hello.SerializeAsString()},
                         [](const Result<std::string>&) {});
  return home->connection;
}

uint64_t StorePeers::connection_number(const std::string& address) const {
  const auto known = homes_.find(address);
  return known == homes_.end() ? 0 : known->second->number;
}

void StorePeers::call(const std::string& address, uint64_t method, std::string body, net::CallDone done,
                      std::chrono::nanoseconds patience, std::shared_ptr<net::ReplyRoom> into) {
  const auto to = connection(address);
  if (!to) {
    done(make_error(
        ErrorCode::kUnavailable,
        fmt::format("node at \"{}\" cannot be reached from here: this node has no certificate for others", address)));
    return;
  }
  net::CallRequest request;
  request.request_id = next_request_++;
  request.method = method;
  request.timeout = patience;
  request.body = std::move(body);
  to->call_into(std::move(request), std::move(into), std::move(done));
}

void StorePeers::acquire(const std::string& address, const ObjectKey& key, bool claim,
                         std::function<void(Result<Acquired>)> done) {
  protocol::ToStore message;
  auto& acquire = *message.mutable_acquire();
  acquire.set_claim(claim);
  *acquire.mutable_name() = to_message(key);
  connection(address);
  call(
      address, kMessage, message.SerializeAsString(),
      [done = std::move(done), number = connection_number(address)](Result<std::string> answer) {
        if (!answer) return done(make_error(std::move(answer).error()));
        Acquired acquired{{}, number};
        if (!acquired.place.ParseFromString(*answer))
          return done(make_error(ErrorCode::kInternal, "another node's store answered what is no place"));
        done(std::move(acquired));
      },
      kCallPatience);
}

void StorePeers::read(const std::string& address, const ObjectKey& key, int64_t offset,
                      std::shared_ptr<net::ReplyRoom> into, std::chrono::nanoseconds patience,
                      std::function<void(Result<void>)> done) {
  protocol::ReadObject message;
  *message.mutable_name() = to_message(key);
  message.set_offset(offset);
  message.set_bytes(static_cast<int64_t>(into->bytes.size()));
  call(
      address, kRead, message.SerializeAsString(),
      [done = std::move(done), into](const Result<std::string>& answer) {
        done(answer ? take_chunk(*answer, *into) : make_error(answer.error()));
      },
      patience, into);
}

void StorePeers::tell(const std::string& address, protocol::ToStore message) {
  if (!homes_.contains(address)) return;  // The other store dropped this store's references with the connection.
  notify(address, std::move(message));
}

void StorePeers::notify(const std::string& address, protocol::ToStore message) {
  call(
      address, kMessage, message.SerializeAsString(), [](const Result<std::string>&) {}, kCallPatience);
}

}  // namespace volador::worker
