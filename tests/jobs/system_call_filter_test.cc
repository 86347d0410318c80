#include "jobs/sandbox/system_call_filter.h"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <functional>
#include <string>

namespace volador::jobs {
namespace {

// The error of a call in a process with the filter; 0: it succeeded.
int error_with_filter(const std::function<long()>& call) {
  const pid_t child = ::fork();
  if (child == 0) {
    std::string bytes = system_call_filter();
    const sock_fprog program{.len = static_cast<unsigned short>(bytes.size() / sizeof(sock_filter)),
                             .filter = reinterpret_cast<sock_filter*>(bytes.data())};
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
      ::_exit(255);
    errno = 0;
    ::_exit(call() < 0 ? errno : 0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(SystemCallFilterTest, DeniesWhatChangesTheMachineAndAllowsTheRest) {
  if (system_call_filter().empty()) GTEST_SKIP() << "there is no filter for this processor";
  EXPECT_EQ(error_with_filter([] { return ::syscall(SYS_keyctl, 0, -4, 0); }), EPERM);
  EXPECT_EQ(error_with_filter([] { return ::syscall(SYS_unshare, CLONE_NEWUSER); }), EPERM);
  EXPECT_EQ(error_with_filter([] { return ::syscall(SYS_mount, "", "/", "", 0, ""); }), EPERM);
  EXPECT_EQ(error_with_filter([] { return ::syscall(SYS_clone3, nullptr, 0); }), ENOSYS);
  EXPECT_EQ(error_with_filter([] { return ::syscall(SYS_clone, CLONE_NEWUSER | SIGCHLD, 0, 0, 0, 0); }), EPERM);
  char letter = 'x';
  EXPECT_EQ(error_with_filter([&] { return static_cast<long>(::ioctl(0, TIOCSTI, &letter)); }), EPERM);
  EXPECT_EQ(error_with_filter([] { return ::syscall(SYS_getpid); }), 0);
  EXPECT_EQ(error_with_filter([] { return static_cast<long>(::ioctl(-1, TIOCGWINSZ, nullptr)); }), EBADF);
  EXPECT_EQ(error_with_filter([] {
              const pid_t child = ::fork();
              if (child == 0) ::_exit(0);
              return static_cast<long>(::waitpid(child, nullptr, 0));
            }),
            0);
}

}  // namespace
}  // namespace volador::jobs
