#include "worker/resources/memory_monitor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <thread>

#include "runtime/random.h"
#include "tests/temporary_directory.h"
#include "worker/resources/host_usage.h"

namespace volador::worker {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

constexpr int64_t kGiB = int64_t{1} << 30;
constexpr MemoryLevel kFull{.used_bytes = 96 * kGiB, .limit_bytes = 100 * kGiB};

class MemoryMonitorTest : public ::testing::Test {
 protected:
  MemoryMonitor::Host host(int64_t bytes, bool retriable) { return {new_id<HostId>(random_), bytes, retriable}; }

  SeededRandom random_{3};
  BootTime now_ = BootTime{} + 1h;
};

TEST_F(MemoryMonitorTest, TheLargestThatCanBeMadeAgainEndsFirst) {
  MemoryMonitor monitor(0.95);
  const std::vector hosts{host(40 * kGiB, false), host(10 * kGiB, true), host(20 * kGiB, true)};
  const auto verdict = monitor.decide(now_, kFull, hosts, "b");
  ASSERT_TRUE(verdict);
  EXPECT_EQ(verdict->host, hosts[2].id);
  EXPECT_THAT(verdict->why, ::testing::AllOf(HasSubstr("node b had 96 % of its 100 GiB in use"),
                                             HasSubstr("can be made again (20 GiB)")));
  EXPECT_THAT(verdict->why.text(Language::kChinese), HasSubstr("节点 b 的 100 GiB 内存已用 96 %"));
}

TEST_F(MemoryMonitorTest, ThenTheLargestOfAll) {
  MemoryMonitor monitor(0.95);
  const std::vector hosts{host(40 * kGiB, false), host(50 * kGiB, false), host(kGiB / 2, true)};
  EXPECT_EQ(monitor.decide(now_, kFull, hosts, "b")->host, hosts[1].id) << "half a GiB is not worth a death";
}

TEST_F(MemoryMonitorTest, NobodyEndsBelowTheThresholdOrForOthers) {
  MemoryMonitor monitor(0.95);
  const std::vector hosts{host(40 * kGiB, true)};
  EXPECT_FALSE(monitor.decide(now_, {94 * kGiB, 100 * kGiB}, hosts, "b"));
  EXPECT_FALSE(monitor.decide(now_, kFull, {host(kGiB / 2, true)}, "b"));
  EXPECT_FALSE(monitor.decide(now_, {}, hosts, "b"));
  EXPECT_FALSE(MemoryMonitor(0).decide(now_, kFull, hosts, "b"));
}

TEST_F(MemoryMonitorTest, WaitsUntilAnEndHasHadItsEffect) {
  MemoryMonitor monitor(0.95);
  const std::vector hosts{host(20 * kGiB, true), host(10 * kGiB, true)};
  ASSERT_TRUE(monitor.decide(now_, kFull, hosts, "b"));
  EXPECT_FALSE(monitor.decide(now_ + 999ms, kFull, hosts, "b"));
  EXPECT_TRUE(monitor.decide(now_ + 1s, kFull, hosts, "b"));
}

TEST(MemoryLevels, OfTheMachineAndOfEachGroupWithALimit) {
  const TemporaryDirectory root;
  const auto put = [&](const std::string& path, const std::string& text) {
    const auto file = root.path() / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  };
  put("proc/meminfo", "MemTotal:  1000000 kB\nMemFree: 1 kB\nMemAvailable:  600000 kB\n");
  put("proc/self/cgroup", "0::/slice/job\n");
  put("sys/fs/cgroup/cgroup.controllers", "cpu memory\n");
  put("sys/fs/cgroup/slice/memory.max", "200000000\n");
  put("sys/fs/cgroup/slice/memory.current", "150000000\n");
  put("sys/fs/cgroup/slice/memory.stat", "anon 5\ninactive_file 30000000\nactive_file 20000000\n");
  put("sys/fs/cgroup/slice/job/memory.max", "max\n");
  put("sys/fs/cgroup/slice/job/memory.current", "140000000\n");
  const auto levels = memory_levels(root.path());
  ASSERT_EQ(levels.size(), 2u);
  EXPECT_EQ(levels[0].used_bytes, int64_t{400'000} * 1024);
  EXPECT_EQ(levels[1].used_bytes, 100'000'000);
  EXPECT_EQ(levels[1].limit_bytes, 200'000'000);
}

TEST(MemoryOfGroups, CountsAProcessAndItsChildren) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  constexpr size_t kBytes = 30 << 20;
  int64_t pages = 0, own_pages = 0;  // Both inherit the memory left by earlier tests.
  std::ifstream("/proc/self/statm") >> pages >> own_pages;
  const pid_t leader = fork();
  if (leader == 0) {
    setpgid(0, 0);
    const pid_t child = fork();
    std::vector<char> memory(kBytes, 'x');
    if (child != 0 && ::write(ready[1], "p", 1) == 1) pause();
    if (child == 0 && ::write(ready[1], "c", 1) == 1) pause();
    _exit(memory[7]);
  }
  char byte = 0;
  for (int i = 0; i < 2; ++i) ASSERT_EQ(read(ready[0], &byte, 1), 1);
  const auto usages = usage_of_groups({leader, 1 << 22});
  EXPECT_EQ(usages.size(), 1u);
  EXPECT_GE(usages.at(leader).memory_bytes, int64_t{2} * kBytes);
  EXPECT_LT(usages.at(leader).memory_bytes, int64_t{20} * kBytes + 2 * own_pages * ::sysconf(_SC_PAGESIZE));
  kill(-leader, SIGKILL);
  waitpid(leader, nullptr, 0);
  close(ready[0]);
  close(ready[1]);
}

}  // namespace
}  // namespace volador::worker
