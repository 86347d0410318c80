#include "cli/daemon.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>

#include "cli/local_processes.h"
#include "runtime/process_file.h"
#include "tests/temporary_directory.h"

namespace volador::cli {
namespace {

using ::testing::HasSubstr;
using namespace std::chrono_literals;

class DaemonTest : public ::testing::Test {
 protected:
  DaemonOptions options() const {
    return {.name = "head", .ready_timeout = 5s, .stray_output = folder_.path() / "stray"};
  }
  volador::TemporaryDirectory folder_;
};

TEST_F(DaemonTest, ReportsWhenItIsReadyAndLivesInASessionOfItsOwn) {
  auto daemon = start_daemon(options(), [](Starter& starter) {
    starter.ready("session " + std::to_string(::getsid(0)) + " of " + std::to_string(::getpid()));
    ::pause();
    return 0;
  });
  ASSERT_TRUE(daemon) << daemon.error().error.message;
  const std::string pid = std::to_string(daemon->pid);
  EXPECT_EQ(daemon->report, "session " + pid + " of " + pid);
  ::kill(daemon->pid, SIGKILL);
  ::waitpid(daemon->pid, nullptr, 0);
}

TEST_F(DaemonTest, OneThatEndsBeforeItIsReadyGivesItsCodeAndWords) {
  auto daemon = start_daemon(options(), [](Starter&) {
    std::fprintf(stderr, "no space left\n");
    return 7;
  });
  ASSERT_FALSE(daemon);
  EXPECT_EQ(daemon.error().exit_code, 7);
  EXPECT_EQ(daemon.error().error.message, "no space left");
}

TEST_F(DaemonTest, OneThatIsKilledSaysBySignal) {
  auto daemon = start_daemon(options(), [](Starter&) { return ::raise(SIGKILL); });
  ASSERT_FALSE(daemon);
  EXPECT_THAT(daemon.error().error.message, HasSubstr("signal 9"));
}

TEST_F(DaemonTest, OneThatHangsIsEnded) {
  DaemonOptions hurried = options();
  hurried.ready_timeout = 50ms;
  auto daemon = start_daemon(hurried, [](Starter&) { return ::pause(); });
  ASSERT_FALSE(daemon);
  EXPECT_EQ(daemon.error().error.code, ErrorCode::kTimeout);
}

TEST_F(DaemonTest, DescriptorsOfOursAreClosedInIt) {
  const int ours = ::fcntl(0, F_DUPFD, 20);
  auto daemon = start_daemon(options(), [ours](Starter& starter) {
    starter.ready(::lseek(ours, 0, SEEK_CUR) < 0 && errno == EBADF ? "closed" : "open");
    return 0;
  });
  ASSERT_TRUE(daemon);
  EXPECT_EQ(daemon->report, "closed");
  ::close(ours);
  ::waitpid(daemon->pid, nullptr, 0);
}

class StopProcesses : public ::testing::Test {
 protected:
  // A process registered as the worker of a node; `stubborn`: it ignores requests to end.
  pid_t start_worker(const std::string& node, bool stubborn) {
    const auto file = paths_.cluster("heron").node(node).pid();
    EXPECT_TRUE(make_private_directory(file.parent_path()));
    auto daemon = start_daemon({.name = "worker", .stray_output = folder_.path() / "stray"}, [&](Starter& starter) {
      if (stubborn) ::signal(SIGTERM, SIG_IGN);
      auto claimed = ProcessFile::claim(file);
      starter.ready("");
      while (true) ::pause();
      return 0;
    });
    EXPECT_TRUE(daemon);
    return daemon ? daemon->pid : 0;
  }
  volador::TemporaryDirectory folder_;
  Paths paths_ = Paths::from({.volador_home = folder_.path().native()}).value();
};

TEST_F(StopProcesses, EndsWhatItNamesAndItsFilesGoWithTheLeftovers) {
  const pid_t pid = start_worker("a", false);
  auto running = running_processes(paths_, "heron");
  ASSERT_EQ(running.size(), 1u);
  EXPECT_EQ(describe(running[0]), "worker a (pid " + std::to_string(pid) + ")");
  auto stopped = stop_processes(running, 5s);
  ASSERT_EQ(stopped.size(), 1u);
  EXPECT_FALSE(stopped[0].killed);
  EXPECT_TRUE(running_processes(paths_, "heron").empty());
  ASSERT_TRUE(remove_leftovers(paths_, "heron"));
  EXPECT_FALSE(std::filesystem::exists(paths_.cluster("heron").node("a").pid()));
  EXPECT_TRUE(stop_processes(running, 5s).size() == 1) << "once more does no harm";
}

TEST_F(StopProcesses, KillsWhatDoesNotEnd) {
  start_worker("a", true);
  auto stopped = stop_processes(running_processes(paths_, "heron"), 50ms);
  ASSERT_EQ(stopped.size(), 1u);
  EXPECT_TRUE(stopped[0].killed);
  EXPECT_TRUE(running_processes(paths_, "heron").empty());
}

TEST_F(StopProcesses, NeverTouchesAProcessThatOnlyHasTheNumber) {
  const auto file = paths_.cluster("heron").node("a").pid();
  ASSERT_TRUE(make_private_directory(file.parent_path()));
  ProcessRecord self = describe_process(::getpid()).value();
  ++self.start_ticks;
  ASSERT_TRUE(write_file_atomic(file, to_text(self), 0600));
  EXPECT_TRUE(running_processes(paths_, "heron").empty());
}

}  // namespace
}  // namespace volador::cli
