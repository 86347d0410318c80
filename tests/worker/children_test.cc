#include "worker/hosts/children.h"

#include <gtest/gtest.h>
#include <spawn.h>

#include <atomic>
#include <thread>

#include "tests/worker/agent_harness.h"

namespace volador::worker {
namespace {

using namespace std::chrono_literals;
using testing::is_alive;

// The kernel moves a process to another thread's list of children when the thread that started it ends.
TEST(ChildrenTest, TheEndOfTheStartingThreadHidesNoProcessFromKillAll) {
  Children::become_subreaper();
  const auto loop = std::move(*net::IoLoop::create("test"));
  std::optional<Children> children;
  loop->run([&] { children.emplace(*loop, [] { return std::optional<BootTime>(); }); });
  for (int round = 0; round < 300; ++round) {
    std::atomic<pid_t> pid = 0;
    std::atomic<bool> go = false;
    std::thread starter([&] {
      pid_t started = 0;
      const char* arguments[] = {"sleep", "1000", nullptr};
      char* none[] = {nullptr};
      EXPECT_EQ(::posix_spawnp(&started, "sleep", nullptr, nullptr, const_cast<char**>(arguments), none), 0);
      pid = started;
      pid.notify_one();
      while (!go) std::this_thread::yield();
    });
    pid.wait(0);
    loop->run([&] {
      go = true;
      children->kill_all(5s);
    });
    starter.join();
    ASSERT_FALSE(is_alive(pid)) << "in round " << round;
  }
  loop->run([&] { children.reset(); });
}

}  // namespace
}  // namespace volador::worker
