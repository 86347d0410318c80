// Communication between the object stores of nodes, over the call channel through the data ports, authenticated by node
// certificates. A serving store treats each requesting store as one client (store_table.h) while its connection lasts.
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

inline constexpr int64_t kStoreChunkBytes = int64_t{1} << 20;  // Per read: processed within the CPU's cache.

// Callbacks to the store. Loop thread. Serving side:
struct PeerEvents {
  std::function<void(net::CallerId, const std::string& address)> connected;  // `address`: where its copies can be read.
  std::function<void(net::CallerId)> gone;
  // Acquire, release, lend; an acquisition is answered later by its request id.
  std::function<void(net::CallerId, const protocol::ToStore&, std::function<void(Result<std::string>)> answer)> message;
  // Answered now or later.
  std::function<void(const ObjectKey&, int64_t offset, int64_t bytes, std::function<void(Result<std::string>)> answer)>
      read;
  // For tests: modifies sent chunks after their checksum was computed.
  std::function<void(const ObjectKey&, std::string& chunk)> spoil = {};
  // Requesting side: the store at the address has dropped this store's references.
  std::function<void(const std::string& address)> lost;
};

// Answer of another node's store that has counted this store as a holder.
struct Acquired {
  protocol::Located place;
  uint64_t connection = 0;  // Number of the connection; when it ends, this store is no longer counted.
};

// Connections to and from other nodes' stores. Loop thread only, except the constructor.
class StorePeers {
 public:
  // Without TLS there are no other nodes.
  StorePeers(net::IoLoop& loop, NodeId node, Random& random, std::shared_ptr<const security::TlsContext> tls,
             PeerEvents events);
  ~StorePeers();
  StorePeers(const StorePeers&) = delete;
  StorePeers& operator=(const StorePeers&) = delete;

  // Takes over a connection from the data port. `on_proved`: as for net::CallServer::adopt.
  void adopt(net::UniqueFd connection, std::function<void()> on_proved = {});
  // Ends connections of revoked nodes.
  void check_peers();

  // Requesting side. `address`: of the object's node. `done` runs once, on the loop.
  void acquire(const std::string& address, const ObjectKey& key, bool claim,
               std::function<void(Result<Acquired>)> done);
  // Reads from a node that has the object; the bytes are in `into` on success. kUnavailable: not available now, or the
  // checksum does not match.
  void read(const std::string& address, const ObjectKey& key, int64_t offset, std::shared_ptr<net::ReplyRoom> into,
            std::chrono::nanoseconds patience, std::function<void(Result<void>)> done);
  void tell(const std::string& address, protocol::ToStore message);
  // As tell(), but connects if there is no connection.
  void notify(const std::string& address, protocol::ToStore message);
  // Returns the number of the connection to the store at the address; it changes with each reconnect; 0: none.
  uint64_t connection_number(const std::string& address) const;
  void set_own_address(std::string address) { own_address_ = std::move(address); }
  void close();

 private:
  struct Home;
  std::shared_ptr<net::CallConnection> connection(const std::string& address);
  void call(const std::string& address, uint64_t method, std::string body, net::CallDone done,
            std::chrono::nanoseconds patience, std::shared_ptr<net::ReplyRoom> into = {});
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
