#include "worker/resources/host_usage.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

namespace volador::worker {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;

BootTime at(int second) { return BootTime(seconds(second)); }

protocol::CallCount calls(uint64_t count, uint64_t busy_ns) {
  protocol::CallCount out;
  out.set_calls(count);
  out.set_busy_ns(busy_ns);
  return out;
}

TEST(HostUsage, TellsWhatWasTakenSinceTheLastLook) {
  HostUsage usage;
  const std::vector<HostUsage::Host> hosts{{.pid = 7, .actor = "a"}};
  EXPECT_TRUE(usage.take(at(10), hosts, {{7, {.cpu_seconds = 3, .memory_bytes = 100}}}).empty());
  usage.on_calls(7, calls(40, 2'000'000'000));
  const auto rows = usage.take(at(20), hosts, {{7, {.cpu_seconds = 8, .memory_bytes = 200}}});
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].actor_id(), "a");
  EXPECT_DOUBLE_EQ(rows[0].cpu_cores(), 0.5);
  EXPECT_EQ(rows[0].memory_bytes(), 200);
  EXPECT_DOUBLE_EQ(rows[0].calls_per_s(), 4);
  EXPECT_DOUBLE_EQ(rows[0].call_ms(), 50);
  const auto idle = usage.take(at(30), hosts, {{7, {.cpu_seconds = 8, .memory_bytes = 200}}});
  ASSERT_EQ(idle.size(), 1U);
  EXPECT_DOUBLE_EQ(idle[0].cpu_cores(), 0);
  EXPECT_DOUBLE_EQ(idle[0].calls_per_s(), 0);
  EXPECT_DOUBLE_EQ(idle[0].call_ms(), 0);
}

TEST(HostUsage, AProcessOfTheSameNumberBeginsAnew) {
  HostUsage usage;
  EXPECT_TRUE(usage.take(at(10), {{.pid = 7, .actor = "a"}}, {{7, {.cpu_seconds = 50}}}).empty());
  EXPECT_TRUE(usage.take(at(20), {}, {}).empty());
  EXPECT_TRUE(usage.take(at(30), {{.pid = 7, .actor = "b"}}, {{7, {.cpu_seconds = 1}}}).empty());
  const auto rows = usage.take(at(40), {{.pid = 7, .actor = "b"}}, {{7, {.cpu_seconds = 2}}});
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_DOUBLE_EQ(rows[0].cpu_cores(), 0.1);
}

TEST(HostUsage, GroupsAreSumsOverTheirProcesses) {
  std::string path = (fs::temp_directory_path() / "volador-usage-XXXXXX").string();
  const fs::path root = ::mkdtemp(path.data());
  const auto process = [&](int pid, int group, int ticks, int kilobytes) {
    const fs::path folder = root / "proc" / std::to_string(pid);
    fs::create_directories(folder);
    std::ofstream(folder / "stat") << pid << " (a (b) c) S 1 " << group << " " << group << " 0 -1 0 1 2 3 4 " << ticks
                                   << " " << ticks << " 0 0 20 0\n";
    std::ofstream(folder / "status") << "Name:\tx\nRssAnon:\t" << kilobytes << " kB\n";
  };
  const int second = static_cast<int>(::sysconf(_SC_CLK_TCK));
  process(7, 7, second, 10);
  process(8, 7, second, 20);
  process(9, 9, second, 40);
  const auto groups = usage_of_groups({7}, root);
  // A control group also has processes of other sessions, and the time of ended ones.
  const auto all = usage_of_groups({7}, root, {{7, {.pids = {7, 8, 9}, .cpu_seconds = 11}}});
  fs::remove_all(root);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_DOUBLE_EQ(all.at(7).cpu_seconds, 11);
  EXPECT_EQ(all.at(7).memory_bytes, 70 * 1024);
  ASSERT_EQ(groups.size(), 1U);
  EXPECT_DOUBLE_EQ(groups.at(7).cpu_seconds, 4);
  EXPECT_EQ(groups.at(7).memory_bytes, 30 * 1024);
}

TEST(CpuRates, CompareTheNewestReadingWithOneAtLeastASecondOlder) {
  CpuRates rates;
  rates.look(at(10), {{7, {.cpu_seconds = 1}}});
  EXPECT_EQ(rates.cores(7), std::nullopt);
  rates.look(at(20), {{7, {.cpu_seconds = 6}}, {8, {.cpu_seconds = 3}}});
  EXPECT_EQ(rates.cores(7), 0.5);
  EXPECT_EQ(rates.cores(8), std::nullopt) << "it was not there before";
  rates.look(at(20) + std::chrono::milliseconds(10), {{7, {.cpu_seconds = 6}}, {8, {.cpu_seconds = 3}}});
  EXPECT_NEAR(*rates.cores(7), 0.5, 0.001) << "two readings at once say nothing";
  rates.look(at(22), {{7, {.cpu_seconds = 8}}, {8, {.cpu_seconds = 3}}});
  EXPECT_NEAR(*rates.cores(7), 1, 0.01);
  EXPECT_EQ(rates.cores(8), 0);
}

TEST(HostUsage, ThisProcessIsThere) {
  const auto groups = usage_of_groups({::getpgrp()});
  ASSERT_TRUE(groups.contains(::getpgrp()));
  EXPECT_GT(groups.at(::getpgrp()).memory_bytes, 0);
}

}  // namespace
}  // namespace volador::worker
