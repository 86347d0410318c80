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

inline constexpr int64_t kStoreChunkBytes = int64_t{4} << 20;  // Of one read.

// The asked side, as its store carries it out. Loop thread.
struct PeerEvents {
  std::function<void(net::CallerId)> connected;
  std::function<void(net::CallerId)> gone;
  // Acquire, release, lend; an acquisition is answered later by its request.
  std::function<void(net::CallerId, const protocol::ToStore&, std::function<void(Result<std::string>)> answer)> message;
  std::function<void(const ObjectKey&, int64_t offset, int64_t bytes, std::function<void(Result<std::string>)> answer)> read;  // Answered now or later.
};

// Loop thread only, but for the constructor.
class StorePeers {
 public:
  // Without TLS there are no other nodes.
  StorePeers(net::IoLoop& loop, NodeId node, Random& random, std::shared_ptr<const security::TlsContext> tls, PeerEvents events);
  ~StorePeers();
  StorePeers(const StorePeers&) = delete;
  StorePeers& operator=(const StorePeers&) = delete;

  // A connection of the data port that asks for this node.
  void adopt(net::UniqueFd connection);
  // Ends the connections of nodes that were revoked.
  void check_peers();

  // The asking side. `address`: of the object's node. `done` once, on the loop.
  void acquire(const std::string& address, const ObjectKey& key, bool claim, std::function<void(Result<int64_t> bytes)> done);
  void read(const std::string& address, const ObjectKey& key, int64_t offset, int64_t bytes, std::function<void(Result<std::string>)> done);
  void tell(const std::string& address, protocol::ToStore message);
  void close();

 private:
  struct Home;
  std::shared_ptr<net::CallConnection> connection(const std::string& address);
  void call(const std::string& address, uint64_t method, std::string body, net::CallDone done);
  void on_call(net::CallRequest request, std::shared_ptr<net::Responder> responder);

  net::IoLoop& loop_;
  const NodeId node_;
  const net::CallerId self_;
  const std::shared_ptr<const security::TlsContext> tls_;
  const PeerEvents events_;
  uint64_t next_request_ = 1;
  std::unique_ptr<net::CallServer> server_;
  std::map<std::string, std::shared_ptr<Home>> homes_;
  std::map<net::CallerId, std::shared_ptr<net::Responder>> attached_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace volador::worker
