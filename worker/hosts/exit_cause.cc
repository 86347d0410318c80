#include "worker/hosts/exit_cause.h"

#include <csignal>

#include "runtime/protocol/cause.h"
#include "runtime/resources.h"

namespace volador::worker {
namespace {

Reason hint_of_signal(int signal) {
  switch (signal) {
    case SIGSEGV:
      return reason("cause.memory_access");
    case SIGABRT:
      return reason("cause.abort");
    case SIGBUS:
      return reason("cause.bus");
    case SIGFPE:
      return reason("cause.arithmetic");
    case SIGILL:
      return reason("cause.instruction");
    case SIGSYS:
      return reason("cause.system_call");
    case SIGXCPU:
      return reason("cause.cpu_limit");
    case SIGXFSZ:
      return reason("cause.file_limit");
    case SIGKILL:
      return reason("cause.sigkill");
    default:
      return {};
  }
}

}  // namespace

protocol::DeathCause cause_of_exit(const HostExit& exit) {
  protocol::DeathCause::Kind kind = protocol::DeathCause::EXITED;
  Reason why = exit.exit_code == 0 ? reason("cause.called_exit") : Reason();
  if (exit.out_of_memory) {
    kind = protocol::DeathCause::OUT_OF_MEMORY;
    why = exit.memory_limit_bytes > 0 ? reason("cause.own_memory_limit", format_bytes(exit.memory_limit_bytes))
                                      : reason("cause.kernel_memory");
  } else if (exit.signal != 0) {
    kind = protocol::DeathCause::SIGNALED;
    why = hint_of_signal(exit.signal);
  }
  if (exit.shared_by > 0) why = because(reason("cause.shared_host", exit.shared_by), std::move(why));
  protocol::DeathCause cause = make_cause(kind, why);
  cause.set_exit_code(exit.exit_code);
  cause.set_signal(exit.signal);
  return cause;
}

}  // namespace volador::worker
