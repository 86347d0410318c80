// volador.v1.Cluster over gRPC: what the command line and other clients ask.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "head/shell/core_runner.h"
#include "runtime/clock.h"

namespace grpc {
class Service;
}
namespace volador::security {
class Authority;
}

namespace volador::head {

class Gate;
class HeadAccess;
class LogRings;
class ProgramExchange;

// Thread safe.
class ApiService {
 public:
  struct Parts {
    HeadAccess& access;
    CoreRunner& runner;
    Gate& gate;
    LogRings& logs;              // Used on the runner's loop only.
    ProgramExchange& files;      // Reads the head's log file on its thread.
    const Clock& clock;
    std::function<std::string()> address;  // As others dial it.
    BootTime started;
    std::filesystem::path log_file;
    std::function<Result<std::string>()> login_link;  // Of the dashboard.
  };
  explicit ApiService(Parts parts);
  ~ApiService();

  grpc::Service* service();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace volador::head
