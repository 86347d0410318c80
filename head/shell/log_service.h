// The streaming operation Cluster/Logs: lines of actors, trials, nodes and the head.
#pragma once

#include <grpcpp/support/server_callback.h>

#include <cstddef>
#include <filesystem>
#include <ios>
#include <memory>
#include <string>

#include "head/kernel/actor_guard.h"
#include "head/read_model/lookups.h"
#include "runtime/result.h"
#include "runtime/security/principal.h"

namespace volador::v1 {
class LogLine;
class LogsRequest;
}  // namespace volador::v1

namespace volador::head {

class CoreRunner;
class LogRings;
class LogStream;
class ProgramExchange;

// Thread safe.
class LogService {
 public:
  struct Parts {
    CoreRunner& runner;
    LogRings& logs;          // Only for use on the runner's loop.
    ProgramExchange& files;  // Reads the head's log file on its thread.
    std::filesystem::path log_file;
    std::shared_ptr<const ActorGuard> guard;  // May be null.
  };
  explicit LogService(Parts parts) : parts_(std::move(parts)) {}

  grpc::ServerWriteReactor<v1::LogLine>* open(const Result<security::Principal>& by, const v1::LogsRequest& request);

 private:
  struct NodeLogs {
    std::string name;
    size_t tail = 0;
    bool follow = false;
    bool hosts = false;  // Also lines of the node's actors that `by` may see.
    security::Principal by = {};
  };
  void send_node_logs(const std::shared_ptr<LogStream>& stream, const Result<NodeSession>& session,
                      const NodeLogs& wanted);
  void send_log_file(const std::shared_ptr<LogStream>& stream, const LogSource& source, size_t tail, bool is_stderr,
                     bool any);
  void send_head_log(const std::shared_ptr<LogStream>& stream, size_t tail, bool follow);
  void follow_head_log(const std::shared_ptr<LogStream>& stream, std::streamoff from);

  const Parts parts_;
};

}  // namespace volador::head
