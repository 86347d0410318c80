// Objects between nodes: what a node's store asks of other nodes' stores, over the call channel through their data ports. The ends show
// each other their nodes' certificates. A store that is asked sees each asking store as one client (store_table.h), for as long as its
// connection lasts.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "runtime/net/channel.h"
#include "runtime/protocol/store.pb.h"
#include "runtime/result.h"
#include "runtime/security/credentials.h"
#include "runtime/store/object_key.h"

namespace volador {
class Random;
}

namespace volador::worker {

inline constexpr int64_t kStoreChunkBytes = int64_t{1} << 20;  // Of one read: it is copied, summed and encrypted in the processor's cache.

// What its store carries out. Loop thread. The asked side:
struct PeerEvents {
  std::function<void(net::CallerId, const std::string& address)> connected;  // Where its copies can be read.
  std::function<void(net::CallerId)> gone;
  // Acquire, release, lend; an acquisition is answered later by its request.
  std::function<void(net::CallerId, const protocol::ToStore&, std::function<void(Result<std::string>)> answer)> message;
  std::function<void(const ObjectKey&, int64_t offset, int64_t bytes, std::function<void(Result<std::string>)> answer)> read;  // Answered now or later.
  std::function<void(const ObjectKey&, std::string& chunk)> spoil = {};  // Of tests: what leaves, after its checksum was made.
  // The asking side: the store at the address counts us no more.
  std::function<void(const std::string& address)> lost;
};

// What another node's store says of an object of which it counts us as a holder now.
struct Acquired {
  protocol::Located place;
  uint64_t connection = 0;  // Over which: with its end we are counted no more.
};

// Loop thread only, but for the constructor.
class StorePeers {
 public:
  // Without TLS there are no other nodes.
  StorePeers(net::IoLoop& loop, NodeId node, Random& random, std::shared_ptr<const security::TlsContext> tls, PeerEvents events);
  ~StorePeers();
  StorePeers(const StorePeers&) = delete;
  StorePeers& operator=(const StorePeers&) = delete;

  // A connection of the data port that asks for this node. `on_proved`: as of net::CallServer::adopt.
  void adopt(net::UniqueFd connection, std::function<void()> on_proved = {});
  // Ends the connections of nodes that were revoked.
  void check_peers();

  // The asking side. `address`: of the object's node. `done` once, on the loop.
  void acquire(const std::string& address, const ObjectKey& key, bool claim, std::function<void(Result<Acquired>)> done);
  // Of a node that has it; the bytes lie in `into` when `done` says so. kUnavailable: not now, or what came is not what was sent.
  void read(const std::string& address, const ObjectKey& key, int64_t offset, std::shared_ptr<net::ReplyRoom> into, std::chrono::nanoseconds patience, std::function<void(Result<void>)> done);
  void tell(const std::string& address, protocol::ToStore message);
  // The same to one that need not have heard of us.
  void notify(const std::string& address, protocol::ToStore message);
  // Of the connection to the store at the address; another one after each loss; 0: there is none.
  uint64_t connection_number(const std::string& address) const;
  void set_own_address(std::string address) { own_address_ = std::move(address); }
  void close();

 private:
  struct Home;
  std::shared_ptr<net::CallConnection> connection(const std::string& address);
  void call(const std::string& address, uint64_t method, std::string body, net::CallDone done, std::chrono::nanoseconds patience, std::shared_ptr<net::ReplyRoom> into = {});
  void on_call(net::CallRequest request, std::shared_ptr<net::Responder> responder);

  net::IoLoop& loop_;
  const NodeId node_;
  const net::CallerId self_;
  const std::shared_ptr<const security::TlsContext> tls_;
  const PeerEvents events_;
  std::string own_address_;
  uint64_t next_request_ = 1;
  uint64_t next_connection_ = 1;
  std::unique_ptr<net::CallServer> server_;
  std::map<std::string, std::shared_ptr<Home>> homes_;
  std::map<net::CallerId, std::shared_ptr<net::Responder>> attached_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace volador::worker
