#include "runtime/descriptor_limit.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

namespace volador {
namespace {

// Exit code of a child process that runs `body` with this soft limit.
int with_soft_limit(rlim_t soft, const std::function<bool()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    rlimit files{};
    ::getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = soft;
    if (::setrlimit(RLIMIT_NOFILE, &files) != 0) ::_exit(2);
    ::_exit(body() ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

rlim_t hard_limit() {
  rlimit files{};
  ::getrlimit(RLIMIT_NOFILE, &files);
  return files.rlim_max;
}

TEST(DescriptorLimit, RisesToTheHardLimit) {
  EXPECT_EQ(with_soft_limit(64, [] { return raise_descriptor_limit() == hard_limit(); }), 0);
}

TEST(DescriptorLimit, RisesNoFurtherThanAskedAndNeverFalls) {
  EXPECT_EQ(with_soft_limit(64, [] { return raise_descriptor_limit(128) == 128; }), 0);
  EXPECT_EQ(with_soft_limit(64, [] { return raise_descriptor_limit(32) == 64; }), 0);
}

TEST(DescriptorLimit, TellsWhetherDescriptorsAreLeft) {
  EXPECT_EQ(with_soft_limit(64, [] { return can_open_descriptors(8) && !can_open_descriptors(64); }), 0);
}

}  // namespace
}  // namespace volador
