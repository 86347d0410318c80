#include "worker/exit_cause.h"

#include <fmt/format.h>

#include <csignal>

namespace volador::worker {
namespace {

const char* hint_of_signal(int signal) {
  switch (signal) {
    case SIGSEGV:
      return "invalid memory access";
    case SIGABRT:
      return "a failed check or an uncaught exception";
    case SIGBUS:
      return "memory that is not there any more, or a full disk behind it";
    case SIGFPE:
      return "an arithmetic error";
    case SIGILL:
      return "an instruction that this CPU does not have";
    case SIGSYS:
      return "a forbidden system call";
    case SIGXCPU:
      return "its limit of CPU time";
    case SIGXFSZ:
      return "its limit of file size";
    case SIGKILL:
      return "not by Volador: somebody sent it, or the kernel was out of memory (look at `dmesg`)";
    default:
      return "";
  }
}

}  // namespace

protocol::DeathCause cause_of_exit(const HostExit& exit) {
  protocol::DeathCause cause;
  cause.set_exit_code(exit.exit_code);
  cause.set_signal(exit.signal);
  if (exit.out_of_memory) {
    cause.set_kind(protocol::DeathCause::OUT_OF_MEMORY);
    cause.set_message("the kernel ended it; ask more memory for the actor, or run fewer at a time on this node");
  } else if (exit.signal != 0) {
    cause.set_kind(protocol::DeathCause::SIGNALED);
    cause.set_message(hint_of_signal(exit.signal));
  } else {
    cause.set_kind(protocol::DeathCause::EXITED);
    if (exit.exit_code == 0) cause.set_message("the program called exit inside an actor");
  }
  if (exit.shared_by > 0) {
    const std::string alone = cause.message();
    cause.set_message(fmt::format("it was a shared host with {} actor{}{}{}", exit.shared_by, exit.shared_by == 1 ? "" : "s",
                                  alone.empty() ? "" : ": ", alone));
  }
  return cause;
}

}  // namespace volador::worker
