// A node's object store: serves the node's processes over a Unix socket, and other nodes' stores through the data port.
// Runs on its own loop, so that copying gigabytes delays no heartbeat; disk threads are in spill_io.h. Decisions are
// made in store_table.h.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/clock.h"
#include "runtime/ids.h"
#include "runtime/net/unique_fd.h"
#include "runtime/result.h"
#include "runtime/security/credentials.h"
#include "worker/store/store_table.h"

namespace volador {
class Random;
namespace protocol {
class HoldActors;
class RevokedTokens;
}  // namespace protocol
}  // namespace volador

namespace volador::worker {

// Options of StoreServer::create().
struct StoreServerOptions {
  std::filesystem::path socket;  // Created with mode 0600; only processes of this user and root.
  NodeId node;
  std::string node_name;
  std::string address;  // Address of the data port for other nodes.
  security::Credentials credentials;
  StoreLimits limits;
  std::filesystem::path spill_folder = {};  // Used if limits.spill_bytes_max > 0; created if needed.
  std::chrono::nanoseconds resume_patience = std::chrono::seconds(10);   // How long an interrupted fetch is retried.
  std::function<void(const ObjectKey&, std::string& chunk)> spoil = {};  // For tests: modifies sent chunks.
};

// A node's object store with its thread. Thread safe.
class StoreServer {
 public:
  // kUnavailable: no descriptors; kInvalidArgument: the socket path or the spill folder.
  [[nodiscard]] static Result<std::unique_ptr<StoreServer>> create(StoreServerOptions options, const Clock& clock,
                                                                   Random& random);
  // Processes that map objects can still read them; the rest of the store is gone.
  ~StoreServer();

  // Takes over a connection from the data port. `on_proved`: as for net::CallServer::adopt.
  void adopt(net::UniqueFd connection, std::function<void()> on_proved = {});
  // Rejects peers with certificates of these tokens and ends their connections.
  void revoke(const protocol::RevokedTokens& tokens) const;
  void set_credentials(const security::Credentials& credentials);

  // Releases warm memory when the machine is short of memory. Returns its size.
  int64_t drop_spares() const;

  struct Usage {
    int64_t bytes = 0;
    int64_t bytes_max = 0;
    int64_t objects = 0;
    int64_t spilled = 0;      // Bytes on disk.
    int64_t spilled_max = 0;  // 0: spilling is disabled.
  };
  Usage usage() const;
  std::vector<StoreTable::Row> rows(size_t rows_max) const;
  std::vector<StoreTable::Group> groups(size_t groups_max) const;

  // Sets the receiver of changes to the set of actors with handles in this node's objects; called on a store thread, in
  // order.
  void on_actors(std::function<void(const protocol::HoldActors&)> tell);
  // Calls the receiver once with the full set.
  void tell_actors() const;

 private:
  struct Impl;
  explicit StoreServer(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace volador::worker
