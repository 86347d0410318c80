// Real control groups; skipped where this user may not create any.
#include "worker/hosts/host_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/net/io_loop.h"
#include "runtime/net/unique_fd.h"
#include "tests/temporary_directory.h"

namespace volador::worker {
namespace {

using namespace std::chrono_literals;
namespace fs = std::filesystem;

constexpr int64_t kProcesses = 128;
// Allocates 300 MiB and fills it.
constexpr const char* kHog = "exec dd bs=300M count=1 if=/dev/zero of=/dev/null status=none";

bool runs(pid_t pid) {
  std::ifstream in("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(in, text);
  return !text.empty() && text[text.rfind(')') + 2] != 'Z';
}

class HostGroupsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    loop_ = std::move(*net::IoLoop::create("test"));
    auto groups = make("heron");
    if (!groups) GTEST_SKIP() << "no control groups here: " << groups.error().message;
    groups_ = std::move(*groups);
  }
  void TearDown() override {
    groups_.reset();
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {
    }
  }

  Result<std::unique_ptr<HostGroups>> make(const std::string& cluster, const std::string& record = "record") {
    return HostGroups::create(*loop_, {.name = group_name(cluster, "west", std::to_string(::getpid())),
                                       .cpus = 2,
                                       .processes_max = kProcesses,
                                       .record = folder_.path() / record});
  }

  // Starts a shell that waits for a line before it runs `script`, as a host waits for its start.
  pid_t start(const std::string& script) {
    int ends[2];
    EXPECT_EQ(::pipe(ends), 0);
    const pid_t pid = ::fork();
    if (pid == 0) {
      ::setsid();
      ::dup2(ends[0], 0);
      ::close(ends[0]);
      ::close(ends[1]);
      ::execl("/bin/bash", "bash", "-c", ("read; " + script).c_str(), nullptr);
      ::_exit(127);
    }
    ::close(ends[0]);
    gates_[pid] = net::UniqueFd(ends[1]);
    return pid;
  }
  void go(pid_t pid) { EXPECT_EQ(::write(gates_.at(pid).get(), "\n", 1), 1); }

  HostGroups::GroupPtr place(pid_t pid, int64_t memory) {
    std::promise<void> placed;
    HostGroups::GroupPtr group;
    loop_->run([&] { group = groups_->place(pid, groups_->limits_for(memory, 1), [&] { placed.set_value(); }); });
    placed.get_future().wait();
    return group;
  }
  HostGroups::End end(HostGroups::GroupPtr group) {
    std::promise<HostGroups::End> ended;
    loop_->run([&] { groups_->end(std::move(group), [&](const HostGroups::End& how) { ended.set_value(how); }); });
    return ended.get_future().get();
  }
  std::vector<fs::path> recorded(const std::string& record = "record") const {
    std::vector<fs::path> folders;
    std::ifstream in(folder_.path() / record);
    for (std::string line; std::getline(in, line);) folders.emplace_back(line);
    return folders;
  }
  static int wait_for(pid_t pid) {
    int status = 0;
    ::waitpid(pid, &status, 0);
    return status;
  }
  // Waits until `count` processes are in the group.
  bool wait_processes(const HostGroups::Group& group, size_t count) {
    for (int i = 0; i < 5000; ++i) {
      if (groups_->reader().read(group).pids.size() >= count) return true;
      std::this_thread::sleep_for(1ms);
    }
    return false;
  }

  TemporaryDirectory folder_;
  std::unique_ptr<net::IoLoop> loop_;
  std::unique_ptr<HostGroups> groups_;
  std::map<pid_t, net::UniqueFd> gates_;
};

TEST_F(HostGroupsTest, EndsDoubleForksInSessionsOfTheirOwnThatIgnoreSigterm) {
  const pid_t pid = start(
      "for i in $(seq 40); do (setsid bash -c \"trap '' TERM HUP INT; sleep 600 & wait\" &) ; done; wait; sleep 600");
  const auto group = place(pid, 0);
  go(pid);
  ASSERT_TRUE(wait_processes(*group, 81));
  const auto pids = groups_->reader().read(*group).pids;
  const HostGroups::End how = end(group);
  EXPECT_FALSE(how.out_of_memory);
  EXPECT_THAT(groups_->reader().read(*group).pids, ::testing::IsEmpty());
  wait_for(pid);
  for (const int one : pids) EXPECT_FALSE(runs(one)) << one;
  for (const fs::path& folder : recorded()) EXPECT_FALSE(fs::exists(folder / group->name)) << folder;
}

TEST_F(HostGroupsTest, TheMemoryLimitEndsAHogAndSaysSo) {
  const pid_t pid = start(kHog);
  const auto group = place(pid, 64 << 20);
  go(pid);
  const int status = wait_for(pid);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
  EXPECT_TRUE(end(group).out_of_memory);
  // One without a limit is not touched.
  const pid_t free = start(kHog);
  const auto other = place(free, 0);
  go(free);
  EXPECT_EQ(wait_for(free), 0);
  EXPECT_FALSE(end(other).out_of_memory);
}

TEST_F(HostGroupsTest, TheProcessLimitStopsAForkBomb) {
  const pid_t pid = start("bomb() { bomb | bomb & }; bomb 2> /dev/null; sleep 600");
  const auto group = place(pid, 0);
  go(pid);
  while (!groups_->reader().read(*group).process_limit) std::this_thread::sleep_for(1ms);
  EXPECT_LE(groups_->reader().read(*group).pids.size(), size_t{kProcesses});
  EXPECT_TRUE(end(group).process_limit);
  EXPECT_THAT(groups_->reader().read(*group).pids, ::testing::IsEmpty());
  wait_for(pid);
}

TEST_F(HostGroupsTest, CountsTheCpuTimeOfChildrenThatLeftTheSession) {
  const pid_t pid = start("setsid bash -c 'while ((++i < 300000)); do :; done' & wait; setsid sleep 600 & sleep 600");
  const auto group = place(pid, 0);
  go(pid);
  ASSERT_TRUE(wait_processes(*group, 3));
  const auto reading = groups_->reader().read(*group);
  ASSERT_TRUE(reading.cpu_seconds);
  EXPECT_GT(*reading.cpu_seconds, 0.05);
  end(group);
  wait_for(pid);
}

TEST_F(HostGroupsTest, ChangedLimitsHoldForAPlacedProcess) {
  const pid_t pid = start(kHog);
  const auto group = place(pid, 0);
  std::promise<void> changed;
  loop_->run([&] { groups_->change(group, pid, groups_->limits_for(64 << 20, 1), [&] { changed.set_value(); }); });
  changed.get_future().wait();
  EXPECT_EQ(group->memory_limit_bytes, 64 << 20);
  go(pid);
  wait_for(pid);
  EXPECT_TRUE(end(group).out_of_memory);
}

TEST_F(HostGroupsTest, RemovesTheGroupsOfAKilledWorkerAndNoOthers) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "ThreadSanitizer permits no threads after a fork";
#endif
  const pid_t worker = ::fork();  // Creates groups of another cluster and is killed.
  if (worker == 0) {
    auto loop = std::move(*net::IoLoop::create("test"));
    HostGroups* groups = HostGroups::create(*loop, {.name = group_name("egret", "west", std::to_string(::getpid())),
                                                    .record = folder_.path() / "egret"})
                             ->release();
    const pid_t host = ::fork();
    if (host == 0) {
      ::setsid();
      ::execl("/bin/sleep", "sleep", "600", nullptr);
    }
    loop->run([&] { (void)groups->place(host, {}, [] { ::kill(::getpid(), SIGKILL); }); });
    ::pause();
  }
  wait_for(worker);
  const auto folders = recorded("egret");
  ASSERT_FALSE(folders.empty());
  const pid_t own = start("sleep 600");
  const auto group = place(own, 0);
  EXPECT_TRUE(fs::exists(folders.back()));
  EXPECT_EQ(remove_groups(folder_.path() / "egret", 5s), 1u);
  for (const fs::path& folder : folders) EXPECT_FALSE(fs::exists(folder)) << folder;
  EXPECT_FALSE(fs::exists(folder_.path() / "egret"));
  EXPECT_TRUE(runs(own));
  EXPECT_TRUE(fs::exists(recorded().back() / group->name));
  end(group);
  wait_for(own);
}

TEST_F(HostGroupsTest, ADamagedRecordRemovesNothing) {
  fs::create_directories(folder_.path() / "volador-not-a-group");
  std::ofstream(folder_.path() / "bad") << folder_.path().string() << "/volador-not-a-group\n/sys/fs/cgroup\n\n";
  EXPECT_EQ(remove_groups(folder_.path() / "bad", 1s), 0u);
  EXPECT_TRUE(fs::exists(folder_.path() / "volador-not-a-group"));
  EXPECT_EQ(remove_groups(folder_.path() / "none", 1s), 0u);
}

TEST_F(HostGroupsTest, ItsEndEndsEverythingAndRemovesItsGroup) {
  const pid_t pid = start("(setsid sleep 600 &); sleep 600");
  const auto group = place(pid, 0);
  go(pid);
  ASSERT_TRUE(wait_processes(*group, 2));
  const auto folders = recorded();
  groups_->kill_all();
  wait_for(pid);
  groups_.reset();
  for (const fs::path& folder : folders) EXPECT_FALSE(fs::exists(folder)) << folder;
  EXPECT_FALSE(fs::exists(folder_.path() / "record"));
}

}  // namespace
}  // namespace volador::worker
