#include "runtime/standard_streams.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

namespace volador {
namespace {

// Wait status of a child process that runs `body`.
int status_of(const std::function<void()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    body();
    ::_exit(0);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  return status;
}

TEST(StandardStreams, WritingToAClosedDescriptorLosesTheText) {
  EXPECT_EQ(status_of([] {
              ::close(STDERR_FILENO);
              write_to_stderr("line\n");
            }),
            0);
}

TEST(StandardStreams, WritingToAFullDeviceLosesTheText) {
  EXPECT_EQ(status_of([] {
              ::dup2(::open("/dev/full", O_WRONLY), STDERR_FILENO);
              write_to_stderr("line\n");
            }),
            0);
}

TEST(StandardStreams, WritingToAPipeWithoutAReaderRaisesNoSignal) {
  EXPECT_EQ(status_of([] {
              int ends[2];
              if (::pipe(ends) != 0) ::_exit(1);
              ::close(ends[0]);
              ::dup2(ends[1], STDERR_FILENO);
              write_to_stderr("line\n");
              write_to_stderr("line\n");
            }),
            0);
}

TEST(StandardStreams, ClosedStreamsBecomeTheNullDevice) {
  EXPECT_EQ(status_of([] {
              ::close(STDIN_FILENO);
              ::close(STDERR_FILENO);
              open_closed_standard_streams();
              if (::fcntl(STDIN_FILENO, F_GETFD) < 0 || ::fcntl(STDERR_FILENO, F_GETFD) < 0) ::_exit(1);
              const int next = ::open("/dev/null", O_RDONLY);
              if (next <= STDERR_FILENO) ::_exit(2);
            }),
            0);
}

}  // namespace
}  // namespace volador
