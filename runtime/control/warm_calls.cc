#include "runtime/control/warm_calls.h"

#include "runtime/clock.h"
#include "runtime/ids.h"
#include "runtime/operations/catalogue.h"
#include "runtime/security/authority.h"
#include "runtime/security/tls_context.h"

namespace volador::control {

void prepare_calls_of_forks() {
  (void)operations::catalogue();
  // The first use of OpenSSL reads its settings and finds the algorithms.
  const WallTime now = SystemClock().wall();
  const auto authority = security::Authority::create(ClusterId(), now);
  if (!authority) return;
  const auto credentials = authority->issue_head({}, now);
  if (credentials) (void)security::TlsContext::create(*credentials);
}

}  // namespace volador::control
