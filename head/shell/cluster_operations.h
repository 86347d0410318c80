// The unary operations of volador.v1.Cluster: lists, requests that nodes answer, and requests that change the cluster.
#pragma once

#include <functional>
#include <string>

#include "runtime/clock.h"
#include "runtime/result.h"

namespace volador::operations {
class Registry;
}
namespace volador::security {
class Authority;
}

namespace volador::head {

class AuditModule;
class Authorizer;
class CoreRunner;

struct ClusterOperations {
  CoreRunner& runner;
  AuditModule& audit;  // Used on the runner's loop only.
  Authorizer& authorizer;
  const security::Authority& authority;
  const Clock& clock;
  BootTime started;
  std::function<std::string()> address;  // The address under which others reach the head.
  std::function<Result<std::string>()> login_link;
  std::function<void(const std::string& token_id)> on_revoked;
};

// Registers the handlers, which use the parts until withdraw("Cluster").
void serve_cluster(operations::Registry& registry, ClusterOperations parts);

}  // namespace volador::head
