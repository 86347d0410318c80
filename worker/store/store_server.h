// A node's object store: serves the processes of this node over a Unix socket, and other nodes' stores through the data port.
// Runs on a loop of its own, so that copying gigabytes delays no heartbeat; disks have threads beside it (spill_io.h). What it decides
// lies in store_table.h.
#pragma once

#include <cstdint>
#include <chrono>
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
}
}  // namespace volador

namespace volador::worker {

struct StoreServerOptions {
  std::filesystem::path socket;  // Made with mode 0600; processes of this user and root only.
  NodeId node;
  std::string node_name;
  std::string address;           // Of the data port, as other nodes dial it.
  security::Credentials credentials;
  StoreLimits limits;
  std::filesystem::path spill_folder = {};  // Where limits.spill_bytes_max > 0; made where it is missing.
  std::chrono::nanoseconds resume_patience = std::chrono::seconds(10);  // How long an object that was cut off on its way is tried to be had.
  std::function<void(const ObjectKey&, std::string& chunk)> spoil = {};  // Of tests: chunks that leave.
};

// Thread safe.
class StoreServer {
 public:
  // kUnavailable: no descriptors; kInvalidArgument: the path, or the folder for spilled objects.
  [[nodiscard]] static Result<std::unique_ptr<StoreServer>> create(StoreServerOptions options, const Clock& clock, Random& random);
  // Processes that still map objects can read on; nothing else of the store is left.
  ~StoreServer();

  // A connection of the data port. `on_proved`: as of net::CallServer::adopt.
  void adopt(net::UniqueFd connection, std::function<void()> on_proved = {});
  // Peers that came of these tokens are let in no more; those that are in go.
  void revoke(const protocol::RevokedTokens& tokens) const;
  void set_credentials(const security::Credentials& credentials);

  // Gives back memory that is only kept warm: the machine is short of it. Returns how much there was.
  int64_t drop_spares() const;

  struct Usage {
    int64_t bytes = 0;
    int64_t bytes_max = 0;
    int64_t objects = 0;
    int64_t spilled = 0;      // Bytes on disk.
    int64_t spilled_max = 0;  // 0: nothing is spilled.
  };
  Usage usage() const;
  std::vector<StoreTable::Row> rows(size_t rows_max) const;
  std::vector<StoreTable::Group> groups(size_t groups_max) const;

  // The actors on which objects of this node have handles, as that changes; on a thread of the store, in order.
  void on_actors(std::function<void(const protocol::HoldActors&)> tell);
  // Calls it once with all of them.
  void tell_actors() const;

 private:
  struct Impl;
  explicit StoreServer(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace volador::worker
