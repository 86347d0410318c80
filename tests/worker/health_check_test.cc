#include "worker/hosts/health_check.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <condition_variable>
#include <deque>
#include <fstream>
#include <mutex>

#include "tests/temporary_directory.h"
#include "tests/worker/agent_harness.h"

namespace volador::worker {
namespace {

using namespace std::chrono_literals;
using testing::is_alive;
using testing::read_pid;
using testing::wait_gone;

class HealthCheckTest : public ::testing::Test {
 protected:
  HealthCheckTest() {
    Children::become_subreaper();
    loop_->run([this] { children_.emplace(*loop_, [] { return std::optional<BootTime>(); }); });
  }
  ~HealthCheckTest() override {
    loop_->run([this] {
      check_.reset();
      children_->kill_all(1s);
      children_.reset();
    });
  }

  std::filesystem::path script(const std::string& text) {
    const auto path = folder_.path() / "check.sh";
    std::ofstream(path) << "#!/bin/sh\n" << text;
    ::chmod(path.c_str(), 0700);
    return path;
  }
  void start(std::filesystem::path program, std::chrono::milliseconds timeout = 20s,
             std::chrono::milliseconds interval = 1h) {
    loop_->run([&] {
      check_.emplace(*loop_, *children_,
                     HealthCheckOptions{.program = std::move(program),
                                        .interval = interval,
                                        .timeout = timeout,
                                        .env = {{"PATH", "/usr/bin:/bin"}, {"TOLD", "by the worker"}}},
                     [this](const CheckResult& result) {
                       const std::lock_guard lock(mutex_);
                       results_.push_back(result);
                       arrived_.notify_all();
                     });
      check_->start();
    });
  }
  CheckResult next() {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(arrived_.wait_for(lock, 30s, [this] { return !results_.empty(); }));
    if (results_.empty()) return {};
    CheckResult result = results_.front();
    results_.pop_front();
    return result;
  }

  volador::TemporaryDirectory folder_;
  std::unique_ptr<net::IoLoop> loop_ = std::move(*net::IoLoop::create("test"));
  std::optional<Children> children_;
  std::optional<HealthCheck> check_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<CheckResult> results_;
};

TEST_F(HealthCheckTest, HandsOutWhatTheProgramPrintsAndHowItEnds) {
  start(script("echo \"gpu 0: told $TOLD\"; echo ignored >&2; exit 4\n"));
  const CheckResult result = next();
  EXPECT_EQ(result.program, "check.sh");
  EXPECT_EQ(result.end, CheckResult::End::kExited);
  EXPECT_EQ(result.code, 4);
  EXPECT_EQ(result.output, "gpu 0: told by the worker\n");
}

TEST_F(HealthCheckTest, RunsAgainAndAgain) {
  start(script("echo x >> " + (folder_.path() / "runs").string() + "; wc -l < " + (folder_.path() / "runs").string()),
        20s, 10ms);
  EXPECT_EQ(next().output, "1\n");
  EXPECT_EQ(next().output, "2\n");
  EXPECT_EQ(next().output, "3\n");
}

TEST_F(HealthCheckTest, OneThatHangsIsEndedWithItsProcesses) {
  const auto pids = folder_.path() / "pid";
  start(script("echo 'node is odd'; sleep 1000 & echo $! > " + pids.string() + "; wait\n"), 500ms);
  const CheckResult result = next();
  EXPECT_EQ(result.end, CheckResult::End::kTimedOut);
  EXPECT_EQ(result.output, "node is odd\n");
  EXPECT_EQ(result.timeout, 500ms);
  EXPECT_TRUE(wait_gone(read_pid(pids)));
}

TEST_F(HealthCheckTest, AnOrphanInItsOwnSessionIsEndedToo) {
  const auto pids = folder_.path() / "pid";
  start(script("setsid sh -c 'echo $$ > " + pids.string() + ".new; mv " + pids.string() + ".new " + pids.string() +
               "; exec sleep 1000' & while [ ! -e " + pids.string() + " ]; do sleep 0.01; done\n"));
  EXPECT_EQ(next().end, CheckResult::End::kExited) << "although its output is still open";
  EXPECT_TRUE(wait_gone(read_pid(pids)));
}

TEST_F(HealthCheckTest, MuchOutputIsCut) {
  start(script("yes | head -c 3000000; exit 2\n"));
  const CheckResult result = next();
  EXPECT_EQ(result.code, 2);
  EXPECT_LE(result.output.size(), 64U << 10);
}

TEST_F(HealthCheckTest, OneThatCannotBeStartedSaysWhy) {
  start(folder_.path() / "none");
  const CheckResult result = next();
  EXPECT_EQ(result.end, CheckResult::End::kNotStarted);
  EXPECT_NE(result.error.find("No such file"), std::string::npos) << result.error;
}

TEST_F(HealthCheckTest, TheEndOfTheWorkerEndsARun) {
  const auto pids = folder_.path() / "pid";
  start(
      script("echo $$ > " + pids.string() + ".new; mv " + pids.string() + ".new " + pids.string() + "; sleep 1000\n"));
  while (!std::filesystem::exists(pids)) std::this_thread::yield();
  const pid_t pid = read_pid(pids);
  EXPECT_TRUE(is_alive(pid));
  loop_->run([this] {
    check_.reset();
    children_->kill_all(1s);
  });
  EXPECT_FALSE(is_alive(pid));
}

}  // namespace
}  // namespace volador::worker
