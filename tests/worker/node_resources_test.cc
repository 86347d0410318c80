#include "worker/resources/node_resources.h"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/temporary_directory.h"
#include "worker/hosts/cgroup.h"

namespace volador::worker {
namespace {

namespace fs = std::filesystem;

// A machine simulated by files.
class NodeResourcesTest : public ::testing::Test {
 protected:
  void put(const std::string& path, const std::string& text) {
    const fs::path file = root_.path() / path;
    fs::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  fs::path root() const { return root_.path(); }

  volador::TemporaryDirectory root_;
};

TEST_F(NodeResourcesTest, WithoutGroupsTheMachineItselfCounts) {
  put("proc/meminfo", "MemTotal:       16384 kB\nMemFree: 1 kB\nMemAvailable:   4096 kB\n");
  EXPECT_EQ(discover_cpus(root(), 8), 8.0);
  EXPECT_EQ(discover_memory(root()), 16384 * 1024);
  EXPECT_FALSE(memory_kills(root()));
}

TEST_F(NodeResourcesTest, OfVersionTwoTheTightestGroupOnTheWayUpCounts) {
  put("proc/meminfo", "MemTotal: 1048576 kB\n");
  put("proc/self/cgroup", "0::/slice/job\n");
  put("sys/fs/cgroup/cgroup.controllers", "cpu memory\n");
  put("sys/fs/cgroup/slice/cpu.max", "150000 100000\n");
  put("sys/fs/cgroup/slice/memory.max", "104857600\n");
  put("sys/fs/cgroup/slice/job/cpu.max", "max 100000\n");
  put("sys/fs/cgroup/slice/job/memory.max", "max\n");
  put("sys/fs/cgroup/slice/job/memory.events", "low 0\nhigh 0\nmax 3\noom 2\noom_kill 5\n");
  EXPECT_EQ(discover_cpus(root(), 8), 1.5);
  EXPECT_EQ(discover_memory(root()), 104857600);
  EXPECT_EQ(memory_kills(root()), 5u);
}

TEST_F(NodeResourcesTest, VersionOneHasAFolderAController) {
  put("proc/meminfo", "MemTotal: 1048576 kB\n");
  put("proc/self/cgroup", "4:memory:/box\n2:cpu,cpuacct:/box\n0::/\n");
  put("sys/fs/cgroup/memory/box/memory.limit_in_bytes", "52428800\n");
  put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  put("sys/fs/cgroup/memory/box/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 1\n");
  put("sys/fs/cgroup/cpu/box/cpu.cfs_quota_us", "20000\n");
  put("sys/fs/cgroup/cpu/box/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(discover_cpus(root(), 2), 0.2);
  EXPECT_EQ(discover_memory(root()), 52428800);
  EXPECT_EQ(memory_kills(root()), 1u);
}

TEST_F(NodeResourcesTest, NonsenseSetsNoLimit) {
  put("proc/meminfo", "MemTotal: 1024 kB\n");
  put("proc/self/cgroup", "garbage\n::\n0::/../..\n");
  put("sys/fs/cgroup/cgroup.controllers", "");
  put("sys/fs/cgroup/cpu.max", "many few\n");
  put("sys/fs/cgroup/memory.max", "-5\n");
  EXPECT_EQ(discover_cpus(root(), 3), 3.0);
  EXPECT_EQ(discover_memory(root()), 1024 * 1024);
}

TEST_F(NodeResourcesTest, UsageIsTheDifferenceOfTwoSamples) {
  put("proc/meminfo", "MemTotal: 1000 kB\nMemFree: 100 kB\nMemAvailable: 400 kB\n");
  put("proc/stat", "cpu  100 0 100 5000 0 0 0 0\n");
  UsageSampler sampler(root());
  const BootTime start{std::chrono::seconds(10)};
  EXPECT_EQ(sampler.sample(start).cpu_cores, 0);
  put("proc/stat", "cpu  200 0 150 5000 0 0 0 0\n");
  const auto usage = sampler.sample(start + std::chrono::seconds(1));
  EXPECT_NEAR(usage.cpu_cores, 1.5, 0.01);
  EXPECT_EQ(usage.memory.used_bytes, 600 * 1024);
  EXPECT_EQ(usage.memory.limit_bytes, 1000 * 1024);
}

const std::vector<GpuDevice> kDevices = {
    {"GPU-aaaa-1", "L4", 24}, {"GPU-bbbb-2", "L4", 24}, {"GPU-bbcc-3", "H200", 140}};

TEST(Gpus, WithoutAnOwnListAllAreUsed) {
  const auto gpus = visible_gpus(kDevices, std::nullopt, std::nullopt);
  ASSERT_EQ(gpus.size(), 3u);
  EXPECT_EQ(gpus[2].index, 2);
  EXPECT_EQ(gpus[2].model, "H200");
  EXPECT_EQ(cuda_visible_devices(gpus, {2, 0}), "2,0");
}

TEST(Gpus, TheWorkersOwnListIsMappedForHosts) {
  const auto gpus = visible_gpus(kDevices, "2,GPU-aaaa", std::nullopt);
  ASSERT_EQ(gpus.size(), 2u);
  EXPECT_EQ(gpus[0].uuid, "GPU-bbcc-3");
  EXPECT_EQ(cuda_visible_devices(gpus, {0}), "2");
  EXPECT_EQ(cuda_visible_devices(gpus, {1}), "GPU-aaaa");
  EXPECT_EQ(cuda_visible_devices(gpus, {}), "");
  EXPECT_EQ(cuda_visible_devices(gpus, {7}), "");
}

TEST(Gpus, TheListEndsAtTheFirstEntryThatNamesNone) {
  EXPECT_EQ(visible_gpus(kDevices, "1,9,0", std::nullopt).size(), 1u);
  EXPECT_TRUE(visible_gpus(kDevices, "", std::nullopt).empty());
  EXPECT_TRUE(visible_gpus(kDevices, "-1", std::nullopt).empty());
}

TEST(Gpus, AWantedNumberCutsOrSimulates) {
  EXPECT_EQ(visible_gpus(kDevices, std::nullopt, 1).size(), 1u);
  EXPECT_TRUE(visible_gpus(kDevices, std::nullopt, 0).empty());
  const auto more = visible_gpus({}, std::nullopt, 2);
  ASSERT_EQ(more.size(), 2u);
  EXPECT_EQ(more[1].model, "simulated");
  EXPECT_EQ(more[1].uuid, "");
}

TEST(Discovery, SettingsOutOfRangeAreNamed) {
  EXPECT_EQ(discover({.cpus = -1}).error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(discover({.gpus = 5000}).error().message.find("--num-gpus"), std::string::npos);
  const auto found = discover({.cpus = 3, .gpus = 2, .memory = 1000});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->cpus, 3);
  const auto total = total_of(*found, {.custom = {{"licence", 1.5}}});
  ASSERT_TRUE(total);
  EXPECT_EQ(total->get("licence"), 15'000);
  EXPECT_EQ(total->get("gpus"), 20'000);
  EXPECT_EQ(total->get("memory"), 1000);
}

}  // namespace
}  // namespace volador::worker
