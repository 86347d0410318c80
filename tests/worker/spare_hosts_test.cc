#include "worker/hosts/spare_hosts.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <optional>
#include <set>
#include <thread>

#include "tests/built_program.h"
#include "tests/temporary_directory.h"
#include "tests/worker/agent_harness.h"

namespace volador::worker {
namespace {

using namespace std::chrono_literals;
using testing::AgentHarness;
using testing::is_alive;
using testing::wait_gone;

class SpareHostsTest : public ::testing::Test {
 protected:
  SpareHostsTest() {
    const auto older = children_of_this_process();  // Children of other tests.
    older_.insert(older.begin(), older.end());
    node_.emplace(folder_.path(), volador::testing::built_program("fake_program"), [](AgentOptions& options) {
      options.hosts.spares.most = 1;
      options.hosts.spares.backoff_min = 1ms;
      options.hosts.spares.kept = 3s;
    });
    node_->join();
    node_->program.set_cwd("/nowhere");
    const auto ready = node_->wait_ready(node_->start({}));
    if (ready) host_ = ready->pid();
    const auto children = own_children();
    if (!children.empty()) template_ = *children.begin();  // It existed first.
  }

  std::set<pid_t> own_children() const {
    std::set<pid_t> own;
    for (const pid_t pid : children_of_this_process()) {
      if (!older_.contains(pid) && is_alive(pid)) own.insert(pid);
    }
    return own;
  }

  // Waits up to 20 s for a spare host that stays.
  pid_t wait_spare(pid_t but = 0) {
    std::optional<pid_t> last;
    for (const auto end = std::chrono::steady_clock::now() + 20s; std::chrono::steady_clock::now() < end;) {
      std::optional<pid_t> seen;
      for (const pid_t pid : own_children()) {
        // The process between it and the template is not a session leader.
        if (pid != host_ && pid != template_ && pid != but && ::getsid(pid) == pid) seen = pid;
      }
      if (seen && seen == last) return *seen;
      last = seen;
      std::this_thread::sleep_for(20ms);
    }
    return 0;
  }

  volador::TemporaryDirectory folder_;
  std::optional<AgentHarness> node_;
  std::set<pid_t> older_;
  pid_t host_ = 0;
  pid_t template_ = 0;
};

TEST_F(SpareHostsTest, ASpareBecomesTheNextHostWithItsOwnEnvironmentDirectoryAndOutput) {
  const pid_t spare = wait_spare();
  ASSERT_NE(spare, 0);
  ASSERT_TRUE(node_->wait_for([](const auto& message) { return message.has_log(); })) << "of the first host";
  const HostId host = node_->start({.env = {{"FAKE_VALUE", "one"}}, .gpus = {2}});
  const auto ready = node_->wait_ready(host);
  ASSERT_TRUE(ready);
  EXPECT_EQ(ready->pid(), spare);
  const auto log = node_->wait_for([](const auto& message) { return message.has_log(); });
  ASSERT_TRUE(log);
  EXPECT_EQ(log->log().lines(0), "host normal gpus=[2] env=[one] cwd_scratch=0");
  std::error_code failed;
  const auto directory = std::filesystem::read_symlink("/proc/" + std::to_string(spare) + "/cwd", failed);
  EXPECT_EQ(directory.parent_path(), folder_.path() / "scratch") << failed.message();

  node_->end(host, 2000);
  const auto ended = node_->wait_ended(host);
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->cause().kind(), protocol::DeathCause::KILLED);
  EXPECT_FALSE(is_alive(spare));
}

TEST_F(SpareHostsTest, OneThatDiesIsReplacedAndNobodyIsTold) {
  const pid_t spare = wait_spare();
  ASSERT_NE(spare, 0);
  ::kill(spare, SIGKILL);
  const pid_t next = wait_spare(spare);
  ASSERT_NE(next, 0);
  const auto ready = node_->wait_ready(node_->start({}));
  ASSERT_TRUE(ready);
  EXPECT_EQ(ready->pid(), next);
  EXPECT_TRUE(is_alive(host_));
}

TEST_F(SpareHostsTest, OneThatIsDeadAlreadyIsNotTaken) {
  const pid_t spare = wait_spare();
  ASSERT_NE(spare, 0);
  std::optional<HostId> host;
  const net::UniqueFd end(
      static_cast<int>(::syscall(SYS_pidfd_open, spare, 0)));  // Readable once all of its threads have ended.
  node_->loop().run([&] {                                      // The loop handles the notification after the request.
    ::kill(spare, SIGKILL);
    pollfd look{.fd = end.get(), .events = POLLIN, .revents = 0};
    ASSERT_EQ(::poll(&look, 1, 20'000), 1);
    host = node_->start({});
  });
  ASSERT_TRUE(host);
  const auto ready = node_->wait_ready(*host);
  ASSERT_TRUE(ready);
  EXPECT_NE(ready->pid(), spare);
}

TEST_F(SpareHostsTest, OneThatDiesBeforeItReadsItsStartIsReplaced) {
  const pid_t spare = wait_spare();
  ASSERT_NE(spare, 0);
  ::kill(spare, SIGSTOP);
  const HostId host = node_->start({.env = {{"FAKE_VALUE", "two"}}});
  std::this_thread::sleep_for(200ms);  // It is taken, and HostStart sent.
  ::kill(spare, SIGKILL);
  const auto ready = node_->wait_ready(host);
  ASSERT_TRUE(ready);
  EXPECT_NE(ready->pid(), spare);
  node_->end(host, 2000);
  const auto ended = node_->wait_ended(host);
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->cause().kind(), protocol::DeathCause::KILLED);
  EXPECT_FALSE(is_alive(static_cast<pid_t>(ready->pid())));
}

TEST_F(SpareHostsTest, OneThatTheWorkerItselfEndsIsNotReplaced) {
  const pid_t spare = wait_spare();
  ASSERT_NE(spare, 0);
  ::kill(spare, SIGSTOP);
  const HostId host = node_->start({});
  std::this_thread::sleep_for(200ms);
  node_->end(host, 0);
  const auto ended = node_->wait_ended(host);
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->cause().kind(), protocol::DeathCause::KILLED);
  EXPECT_FALSE(is_alive(spare));
}

TEST_F(SpareHostsTest, UnusedTheyEnd) {
  const pid_t spare = wait_spare();
  ASSERT_NE(spare, 0);
  EXPECT_TRUE(wait_gone(spare));
  EXPECT_TRUE(is_alive(host_));
}

TEST_F(SpareHostsTest, TheyEndWithTheWorker) {
  const pid_t spare = wait_spare();
  ASSERT_NE(spare, 0);
  node_->agent().stop("SIGTERM");
  EXPECT_TRUE(node_->wait_finished());
  node_.reset();
  EXPECT_FALSE(is_alive(spare));
}

}  // namespace
}  // namespace volador::worker
