// Passes calls of the processes of a node on to the head, over connections that they share. A connection of its own
// costs a process its threads and memory, and both sides a TLS handshake: about 10 ms of processor time, where a trial
// may need less.
//
//   process of a job ── ClusterApi ══ socket in the node's folder ══▶ CallRelay, in the worker ══ TLS ══▶ head
//
// It adds no rights: its connections have no certificate, and each call carries the token of its process.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "runtime/result.h"

namespace volador::net {
class IoLoop;
}

namespace volador::control {

struct CallRelayOptions {
  std::filesystem::path folder;  // The node's run folder, of this user alone.
  std::string address;           // The head's.
  std::string authority_pem;     // Certificate of its cluster's authority.
};

class CallRelay {
 public:
  // Serves on the loop. Connects to the head at the first call. Errors as net::CallServer::create().
  [[nodiscard]] static Result<std::unique_ptr<CallRelay>> create(net::IoLoop& loop, CallRelayOptions options);
  // Ends running calls, whose processes get no answer. Before the loop ends.
  virtual ~CallRelay() = default;
};

}  // namespace volador::control
