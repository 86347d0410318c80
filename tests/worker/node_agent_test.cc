#include "worker/shell/node_agent.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <thread>

#include "tests/built_program.h"
#include "tests/temporary_directory.h"
#include "tests/worker/agent_harness.h"

namespace volador::worker {
namespace {

using namespace std::chrono_literals;
using protocol::DeathCause;
using testing::AgentHarness;
using testing::is_alive;
using testing::read_pid;
using testing::wait_gone;

std::vector<std::filesystem::path> files_in(const std::filesystem::path& folder) {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) files.push_back(entry.path());
  return files;
}

class NodeAgentTest : public ::testing::Test {
 protected:
  explicit NodeAgentTest(std::function<void(AgentOptions&)> adjust = {})
      : node_(folder_.path(), volador::testing::built_program("fake_program"), std::move(adjust)) {
    node_.join();
  }

  volador::TemporaryDirectory folder_;
  AgentHarness node_;
};

TEST_F(NodeAgentTest, AHostStartsAndEndsAsAsked) {
  const HostId host = node_.start({});
  const auto ready = node_.wait_ready(host);
  ASSERT_TRUE(ready);
  EXPECT_TRUE(is_alive(ready->pid()));
  EXPECT_EQ(ready->address().unix_path(),
            (folder_.path() / "run" / (to_string(host).substr(0, 16) + ".sock")).string());
  node_.end(host, 2000);
  const auto ended = node_.wait_ended(host);
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->cause().kind(), DeathCause::KILLED);
  EXPECT_EQ(ended->cause().exit_code(), 0);
  EXPECT_EQ(ended->cause().signal(), 0);
  EXPECT_FALSE(is_alive(ready->pid()));
  EXPECT_TRUE(files_in(folder_.path() / "scratch").empty());
}

TEST_F(NodeAgentTest, ListsItsProcessesWithTheirActorsWhenAsked) {
  const HostId host = node_.start({});
  const auto ready = node_.wait_ready(host);
  ASSERT_TRUE(ready);
  protocol::HeadToWorker question;
  question.mutable_list_processes()->set_request(31);
  question.mutable_list_processes()->add_others(::getppid());
  node_.send(question);
  const auto answer = node_.wait_for([](const auto& message) { return message.has_processes(); });
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->processes().request(), 31U);
  std::map<int, protocol::ProcessUsage> found;
  for (const auto& one : answer->processes().processes()) found[one.pid()] = one;
  ASSERT_TRUE(found.contains(ready->pid()));
  EXPECT_EQ(found.at(ready->pid()).kind(), "actors");
  EXPECT_EQ(found.at(ready->pid()).actor_ids_size(), 1);
  EXPECT_GT(found.at(ready->pid()).memory_bytes(), 0);
  ASSERT_TRUE(found.contains(::getpid()));
  EXPECT_EQ(found.at(::getpid()).kind(), "worker");
  EXPECT_FALSE(found.at(ready->pid()).program().empty());
  const auto held =
      std::find_if(found.begin(), found.end(), [](const auto& one) { return one.second.kind() == "template"; });
  ASSERT_NE(held, found.end()) << "the host was forked from it";
  EXPECT_GT(held->second.ends_in_ms(), 0);
  EXPECT_LE(held->second.ends_in_ms(), 600'000);
  EXPECT_LE(std::abs(held->second.started_ms() - unix_ms(SystemClock().wall())), 600'000);
  ASSERT_TRUE(found.contains(::getppid())) << "it was asked for";
  EXPECT_EQ(found.at(::getppid()).kind(), "other");
}

TEST_F(NodeAgentTest, ItsHeartbeatsTellOfFileSystems) {
  node_.stop_heartbeats();  // They are then sent to the test.
  const auto beat = node_.wait_for([](const auto& message) {
    return message.has_heartbeat() && message.heartbeat().usage().machine().file_systems_size() > 0;
  });
  ASSERT_TRUE(beat);
  const auto& row = beat->heartbeat().usage().machine().file_systems(0);
  EXPECT_GT(row.total_bytes(), 0);
}

class NodeAgentHealthTest : public NodeAgentTest {
 protected:
  NodeAgentHealthTest()
      : NodeAgentTest([this](AgentOptions& options) {
          options.hosts.gpus = {{.index = 0}, {.index = 1}};
          const auto script = folder_.path() / "check.sh";
          std::ofstream(script) << "#!/bin/sh\ncat " << (folder_.path() / "problems").string() << "\n";
          ::chmod(script.c_str(), 0700);
          tell("gpu 1: odd\n");
          options.check = {.program = script, .interval = 20ms, .env = {{"PATH", "/usr/bin:/bin"}}};
        }) {}

  void tell(const std::string& lines) {
    std::ofstream(folder_.path() / "new") << lines;
    std::filesystem::rename(folder_.path() / "new", folder_.path() / "problems");
  }
  std::optional<protocol::NodeUsage> wait_problems(int count) {
    const auto beat = node_.wait_for([&](const auto& message) {
      return message.has_heartbeat() && message.heartbeat().usage().problems_size() == count;
    });
    return beat ? std::optional(beat->heartbeat().usage()) : std::nullopt;
  }
};

TEST_F(NodeAgentHealthTest, TheFirstInspectionIsInTheRegistrationAndLaterOnesAreInHeartbeats) {
  ASSERT_EQ(node_.registration().problems_size(), 1);
  EXPECT_EQ(node_.registration().problems(0).gpu(), 1);
  EXPECT_EQ(node_.registration().problems(0).detail(), "odd");
  node_.stop_heartbeats();
  tell("");
  EXPECT_TRUE(wait_problems(0));
  tell("fan\ngpu 0: hot\n");
  const auto usage = wait_problems(2);
  ASSERT_TRUE(usage);
  EXPECT_EQ(usage->problems(1).detail(), "hot");
  EXPECT_EQ(usage->problems(0).subject(), "check.sh");
}

TEST_F(NodeAgentTest, LinesCarryTheTimeAtWhichTheyWereRead) {
  const int64_t before = unix_ms(SystemClock().wall());
  const HostId host = node_.start({.class_name = "lingers"});
  const auto ready = node_.wait_ready(host);
  ASSERT_TRUE(ready);
  node_.end(host, 60'000);
  const auto said =
      node_.wait_for([](const auto& message) { return message.has_log() && message.log().lines_size() > 0; });
  ASSERT_TRUE(said);
  ASSERT_EQ(said->log().times_ms_size(), said->log().lines_size());
  EXPECT_GE(said->log().times_ms(0), before);
  EXPECT_LE(said->log().times_ms(0), unix_ms(SystemClock().wall()));
  ::kill(ready->pid(), SIGKILL);
}

TEST_F(NodeAgentTest, WhatAnActorHadIsFreeBeforeItsProcessIsTornDown) {
  const HostId host = node_.start({.class_name = "lingers"});
  const auto ready = node_.wait_ready(host);
  ASSERT_TRUE(ready);
  node_.end(host, 60'000);
  const auto ended = node_.wait_ended(host);
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->cause().kind(), DeathCause::KILLED);
  EXPECT_TRUE(is_alive(ready->pid()));
  const auto last = node_.wait_for([](const auto& message) {
    return message.has_log() && message.log().lines(message.log().lines_size() - 1) == "good bye";
  });
  EXPECT_TRUE(last) << "its last lines come too";
  ::kill(ready->pid(), SIGKILL);
  EXPECT_TRUE(wait_gone(ready->pid()));
}

TEST_F(NodeAgentTest, DevicesAndMemoryAreFreeWhenTheProcessIsGone) {
  const HostId on_gpu = node_.start({.class_name = "lingers", .gpus = {0}});
  const HostId with_memory = node_.start({.class_name = "lingers", .resources = {{"memory", 1 << 20}}});
  for (const HostId host : {on_gpu, with_memory}) {
    const auto ready = node_.wait_ready(host);
    ASSERT_TRUE(ready);
    node_.end(host, 300);
    ASSERT_TRUE(node_.wait_ended(host));
    EXPECT_FALSE(is_alive(ready->pid()));
  }
}

TEST_F(NodeAgentTest, FiftyHostsRunAtOnceAndOneKilledIsReportedWithinATenthOfASecond) {
  std::vector<HostId> hosts;
  for (int i = 0; i < 50; ++i) hosts.push_back(node_.start({}));
  std::vector<pid_t> pids;
  for (const HostId host : hosts) {
    const auto ready = node_.wait_ready(host);
    ASSERT_TRUE(ready);
    pids.push_back(ready->pid());
  }
  const auto before = std::chrono::steady_clock::now();
  ::kill(pids[7], SIGKILL);
  const auto ended = node_.wait_ended(hosts[7]);
  EXPECT_LT(std::chrono::steady_clock::now() - before, 100ms);
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->cause().kind(), DeathCause::SIGNALED);
  EXPECT_EQ(ended->cause().signal(), SIGKILL);
  EXPECT_NE(ended->cause().message().find("not by Volador"), std::string::npos);
  EXPECT_EQ(ended->cause().pid(), pids[7]);
  EXPECT_EQ(ended->cause().node_name(), "heron");
  EXPECT_TRUE(is_alive(pids[8]));
}

TEST_F(NodeAgentTest, AnExitIsReportedWithCodeAndLastLines) {
  const auto ended = node_.wait_ended(node_.start({.class_name = "exit", .argument = "7"}));
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->cause().kind(), DeathCause::EXITED);
  EXPECT_EQ(ended->cause().exit_code(), 7);
  EXPECT_EQ(ended->cause().stderr_tail(), "about to leave\nlast words");
}

TEST_F(NodeAgentTest, AnAbortIsReportedBySignal) {
  const auto ended = node_.wait_ended(node_.start({.class_name = "abort"}));
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->cause().kind(), DeathCause::SIGNALED);
  EXPECT_EQ(ended->cause().signal(), SIGABRT);
  EXPECT_EQ(ended->cause().stderr_tail(), "check failed");
}

TEST_F(NodeAgentTest, AConstructorThatThrowsIsTheCause) {
  const auto ended = node_.wait_ended(node_.start({.class_name = "throw"}));
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->cause().kind(), DeathCause::CONSTRUCTOR_THREW);
  EXPECT_EQ(ended->cause().message(), "std::runtime_error: no data");
}

TEST_F(NodeAgentTest, AConstructorThatHangsIsEnded) {
  const auto ended = node_.wait_ended(node_.start({.class_name = "hang", .start_timeout_ms = 200}));
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->cause().kind(), DeathCause::START_FAILED);
  EXPECT_EQ(ended->cause().signal(), SIGKILL);
}

TEST_F(NodeAgentTest, AHostThatIgnoresItsEndIsKilledWhenTheGraceIsOver) {
  const HostId host = node_.start({.class_name = "stubborn"});
  ASSERT_TRUE(node_.wait_ready(host));
  const auto before = std::chrono::steady_clock::now();
  node_.end(host, 300);
  const auto ended = node_.wait_ended(host);
  ASSERT_TRUE(ended);
  EXPECT_GE(std::chrono::steady_clock::now() - before, 290ms);
  EXPECT_LT(std::chrono::steady_clock::now() - before, 1300ms);
  EXPECT_EQ(ended->cause().signal(), SIGKILL);
}

TEST_F(NodeAgentTest, AFrozenHostIsKilledAtOnceWithoutGrace) {
  const HostId host = node_.start({});
  const auto ready = node_.wait_ready(host);
  ASSERT_TRUE(ready);
  ::kill(ready->pid(), SIGSTOP);
  node_.end(host, 0);
  ASSERT_TRUE(node_.wait_ended(host));
  EXPECT_FALSE(is_alive(ready->pid()));
}

TEST_F(NodeAgentTest, EachHostIsToldItsOwnGpusAndEnvironment) {
  const HostId none = node_.start({.env = {{"FAKE_VALUE", "one"}}});
  const HostId two = node_.start({.gpus = {1, 3}});
  std::map<std::string, std::string> lines;
  for (int i = 0; i < 2; ++i) {
    const auto log = node_.wait_for([](const auto& message) { return message.has_log(); });
    ASSERT_TRUE(log);
    ASSERT_EQ(log->log().lines_size(), 1);
    lines[log->log().lines(0).find("env=[one]") == std::string::npos ? "two" : "none"] = log->log().lines(0);
    EXPECT_FALSE(log->log().is_stderr());
  }
  EXPECT_NE(lines["none"].find("gpus=[]"), std::string::npos) << lines["none"];
  EXPECT_NE(lines["two"].find("gpus=[1,3]"), std::string::npos) << lines["two"];
  EXPECT_NE(lines["two"].find("cwd_scratch=0"), std::string::npos) << lines["two"];
  ASSERT_TRUE(node_.wait_ready(none));
  ASSERT_TRUE(node_.wait_ready(two));
}

TEST_F(NodeAgentTest, MessagesGoBothWays) {
  const HostId host = node_.start({});
  ASSERT_TRUE(node_.wait_ready(host));
  protocol::HeadToWorker message;
  message.mutable_relayed()->set_host_id(raw(host));
  message.mutable_relayed()->mutable_message()->mutable_pong()->set_sequence(41);
  node_.send(message);
  const auto relayed = node_.wait_for([](const auto& said) { return said.has_relay(); });
  ASSERT_TRUE(relayed);
  EXPECT_EQ(relayed->relay().message().ping().sequence(), 42u);
}

TEST_F(NodeAgentTest, HostsAreToldOnceOfEachRevokedToken) {
  const HostId host = node_.start({});
  ASSERT_TRUE(node_.wait_ready(host));
  protocol::HeadToWorker message;
  message.mutable_revoked()->add_token_ids("t1");
  message.mutable_revoked()->add_token_ids("t2");
  node_.send(message);
  auto told = node_.wait_for([](const auto& said) { return said.has_relay(); });
  ASSERT_TRUE(told);
  EXPECT_EQ(told->relay().message().ping().sequence(), 1002u);
  message.mutable_revoked()->add_token_ids("t3");  // The head resends all of them when the node returns.
  node_.send(message);
  told = node_.wait_for([](const auto& said) { return said.has_relay(); });
  ASSERT_TRUE(told);
  EXPECT_EQ(told->relay().message().ping().sequence(), 1001u) << "only the one that is new";
}

TEST_F(NodeAgentTest, WhatAHostLeavesInItsGroupIsGoneWithIt) {
  const auto file = folder_.path() / "child.pid";
  const HostId host = node_.start({.class_name = "child", .argument = file.string()});
  const auto ready = node_.wait_ready(host);
  ASSERT_TRUE(ready);
  const pid_t child = read_pid(file);
  ASSERT_GT(child, 0);
  ::kill(ready->pid(), SIGKILL);
  ASSERT_TRUE(node_.wait_ended(host));
  EXPECT_TRUE(wait_gone(child));
}

TEST_F(NodeAgentTest, ADaemonOfAHostIsGoneSoonAfterIt) {
  const auto file = folder_.path() / "daemon.pid";
  const HostId host = node_.start({.class_name = "daemon", .argument = file.string()});
  const auto ready = node_.wait_ready(host);
  ASSERT_TRUE(ready);
  const pid_t daemon = read_pid(file);
  ASSERT_GT(daemon, 0);
  std::this_thread::sleep_for(1500ms);
  EXPECT_TRUE(is_alive(daemon)) << "while its host lives it may live";
  ::kill(ready->pid(), SIGKILL);
  ASSERT_TRUE(node_.wait_ended(host));
  EXPECT_TRUE(wait_gone(daemon));
}

// A FIFO replaces the file: opening it blocks until it is read, like on a hanging disk.
TEST_F(NodeAgentTest, ADiskThatHangsHoldsUpNoHeartbeatAndNoHost) {
  ::signal(SIGPIPE, SIG_IGN);  // From the FIFO when the test has finished with it.
  SystemRandom random;
  const auto actor = new_id<ActorId>(random);
  const auto file = folder_.path() / "logs" / (short_id(actor) + "-0.out");
  ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
  const HostId host = node_.start({.class_name = "flood", .actor = actor});
  ASSERT_TRUE(node_.wait_ready(host));
  EXPECT_TRUE(node_.wait_for([](const auto& message) { return message.has_log(); })) << "the head gets what is printed";
  protocol::HeadToWorker ask;
  ask.mutable_read_logs()->set_request(7);
  node_.send(ask);
  node_.stop_heartbeats();  // They are then sent to the test.
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(node_.wait_for([](const auto& message) { return message.has_heartbeat(); }));
  const HostId other = node_.start({});
  EXPECT_TRUE(node_.wait_ready(other));

  const net::UniqueFd reader(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(reader);
  std::string read(3 << 20, ' ');  // More than is buffered while the disk hangs: the host's output is read
                                   // nevertheless.
  for (size_t got = 0; got < read.size();) {
    const ssize_t part = ::read(reader.get(), read.data() + got, read.size() - got);
    ASSERT_GT(part, 0);
    got += static_cast<size_t>(part);
  }
  const auto tails = node_.wait_for([](const auto& message) { return message.has_log_tails(); });
  ASSERT_TRUE(tails);
  EXPECT_EQ(tails->log_tails().request(), 7u);
}

// A file system whose server never responds: accesses block, as on a dead machine, until released.
class SilentFileSystem {
 public:
  explicit SilentFileSystem(const std::filesystem::path& at) : at_(at) {
    std::filesystem::create_directories(at);
    net::UniqueFd server(::open("/dev/fuse", O_RDWR | O_CLOEXEC));
    const std::string options = "fd=" + std::to_string(server.get()) + ",rootmode=40000,user_id=0,group_id=0";
    is_there_ = server && ::mount("silent", at.c_str(), "fuse", 0, options.c_str()) == 0;
    if (is_there_) server_ = std::move(server);
  }
  ~SilentFileSystem() {
    let_go();
    if (is_there_) ::umount2(at_.c_str(), MNT_DETACH);
  }
  bool is_there() const { return is_there_; }
  void let_go() { server_.reset(); }

 private:
  const std::filesystem::path at_;
  net::UniqueFd server_;
  bool is_there_ = false;
};

TEST_F(NodeAgentTest, AProgramsFileSystemThatHangsHoldsUpNoHeartbeatAndNoOtherProgram) {
  SilentFileSystem silent(folder_.path() / "silent");
  if (!silent.is_there()) GTEST_SKIP() << "not run: it takes the right to mount, and /dev/fuse";
  const HostId hanging = node_.start({.cwd = (folder_.path() / "silent" / "work").string()});
  node_.stop_heartbeats();  // They are then sent to the test.
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(node_.wait_for([](const auto& message) { return message.has_heartbeat(); }));
  EXPECT_TRUE(node_.wait_ready(node_.start({})));
  silent.let_go();
  EXPECT_TRUE(node_.wait_ready(hanging)) << "in a folder of its own: the program's is not there";
}

// Everything is above the threshold; memory of processes is read from a folder of the test.
class FullMemoryTest : public NodeAgentTest {
 protected:
  FullMemoryTest()
      : NodeAgentTest([](AgentOptions& options) {
          options.memory_threshold = 1e-9;
          options.root = options.hosts.log_dir.parent_path() / "root";
        }) {}
};

// A FIFO replaces the file: opening it blocks until it is written.
TEST_F(FullMemoryTest, AProcessThatIsSlowToReadHoldsUpNoHeartbeat) {
  const HostId host = node_.start({});
  const auto ready = node_.wait_ready(host);
  ASSERT_TRUE(ready);
  const std::string pid = std::to_string(ready->pid());
  const auto process = folder_.path() / "root" / "proc" / pid;
  std::filesystem::create_directories(process.parent_path());
  const auto hidden = folder_.path() / pid;  // Until it is complete.
  std::filesystem::create_directories(hidden);
  ASSERT_EQ(::mkfifo((hidden / "stat").c_str(), 0600), 0);
  std::ofstream(hidden / "status") << "RssAnon:\t1000000000 kB\n";
  std::filesystem::rename(hidden, process);
  net::UniqueFd stat(::open((process / "stat").c_str(), O_WRONLY | O_CLOEXEC));  // Until its reader has opened it.
  ASSERT_TRUE(stat);
  node_.stop_heartbeats();  // They are then sent to the test.
  for (int i = 0; i < 5; ++i) ASSERT_TRUE(node_.wait_for([](const auto& message) { return message.has_heartbeat(); }));
  const std::string line = pid + " (fake) S 1 " + pid + " 1 0 0 0 0 0 0 0 1 1 0 0 20 0 1 0 1\n";
  ASSERT_EQ(::write(stat.get(), line.data(), line.size()), static_cast<ssize_t>(line.size()));
  stat.reset();
  const auto ended = node_.wait_ended(host);
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->cause().kind(), DeathCause::OUT_OF_MEMORY);
}

class SmallLogsTest : public NodeAgentTest {
 protected:
  SmallLogsTest() : NodeAgentTest([](AgentOptions& options) { options.hosts.logs.file.files_max = 4; }) {}
};

TEST_F(SmallLogsTest, AFloodOfOutputIsLimitedOnDiskAndOnTheWay) {
  const HostId host = node_.start({.class_name = "flood"});
  ASSERT_TRUE(node_.wait_ready(host));
  uint64_t lines = 0;
  uint64_t dropped = 0;
  const auto until = std::chrono::steady_clock::now() + 4s;
  while (std::chrono::steady_clock::now() < until) {
    const auto log = node_.wait_for([](const auto& message) { return message.has_log(); });
    ASSERT_TRUE(log);
    lines += static_cast<uint64_t>(log->log().lines_size());
    dropped += log->log().dropped();
  }
  EXPECT_LT(lines, 6000u);
  EXPECT_GT(dropped, 100'000u);
  uintmax_t bytes = 0;
  for (const auto& file : files_in(folder_.path() / "logs")) bytes += std::filesystem::file_size(file);
  EXPECT_LE(bytes, (16u << 20) + 64) << "and how many lines came before";
  EXPECT_GT(bytes, 4u << 20);
}

TEST_F(NodeAgentTest, ATemplateThatDiesCostsNoHost) {
  const std::map<std::string, std::string> dies = {{"FAKE_TEMPLATE", "dies"}};
  const HostId one = node_.start({.program_env = dies});
  ASSERT_TRUE(node_.wait_ready(one));
  const HostId two = node_.start({.program_env = dies});
  EXPECT_TRUE(node_.wait_ready(two)) << "made by a new template";
}

TEST_F(NodeAgentTest, ATemplateThatExitsIsNamedWithItsLastLines) {
  const auto ended = node_.wait_ended(node_.start({.program_env = {{"FAKE_TEMPLATE", "exit"}}}));
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->cause().kind(), DeathCause::START_FAILED);
  EXPECT_NE(
      ended->cause().message().find("fake_program ended with code 9 on node heron before it reached volador::init()"),
      std::string::npos)
      << ended->cause().message();
  EXPECT_EQ(ended->cause().stderr_tail(), "cannot read my settings");
}

TEST_F(NodeAgentTest, AProgramWithThreadsIsStartedForEachHost) {
  const std::map<std::string, std::string> threads = {{"FAKE_TEMPLATE", "threads"}};
  const HostId one = node_.start({.program_env = threads, .gpus = {2}});
  const HostId two = node_.start({.program_env = threads});
  const auto first = node_.wait_ready(one);
  const auto second = node_.wait_ready(two);
  ASSERT_TRUE(first && second);
  EXPECT_NE(first->pid(), second->pid());
  node_.end(one, 1000);
  EXPECT_TRUE(node_.wait_ended(one));
}

TEST_F(NodeAgentTest, AProgramThatIsNowhereFailsByName) {
  node_.program.set_machine_id("another");
  const auto ended = node_.wait_ended(node_.start({}));
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->cause().kind(), DeathCause::START_FAILED);
  EXPECT_NE(ended->cause().message().find("the head has no copy"), std::string::npos);
}

TEST_F(NodeAgentTest, HostsOutliveTheLinkAndAreAnnouncedAgain) {
  const HostId host = node_.start({});
  const auto ready = node_.wait_ready(host);
  ASSERT_TRUE(ready);
  node_.lose_link();
  std::this_thread::sleep_for(100ms);
  EXPECT_TRUE(is_alive(ready->pid()));
  node_.connect_again();
  EXPECT_TRUE(is_alive(ready->pid()));
}

TEST_F(NodeAgentTest, StopEndsEverythingWithinASecond) {
  std::vector<pid_t> pids;
  for (const char* kind : {"normal", "stubborn", "normal"}) {
    const auto ready = node_.wait_ready(node_.start({.class_name = kind}));
    ASSERT_TRUE(ready);
    pids.push_back(ready->pid());
  }
  const auto before = std::chrono::steady_clock::now();
  node_.agent().stop("SIGTERM");
  ASSERT_TRUE(node_.wait_finished());
  EXPECT_LT(std::chrono::steady_clock::now() - before, 1s);
  for (const pid_t pid : pids) EXPECT_FALSE(is_alive(pid));
  EXPECT_TRUE(node_.wait_for([](const auto& message) { return message.has_leaving(); }));
}

class SilentTemplateTest : public NodeAgentTest {
 protected:
  SilentTemplateTest() : NodeAgentTest([](AgentOptions& options) { options.templates.held_timeout = 300ms; }) {}
};

TEST_F(SilentTemplateTest, AProgramThatNeverReachesInitIsToldSo) {
  const auto ended = node_.wait_ended(node_.start({.program_env = {{"FAKE_TEMPLATE", "silent"}}}));
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->cause().kind(), DeathCause::START_FAILED);
  EXPECT_NE(ended->cause().message().find("did not reach volador::init() within"), std::string::npos);
  EXPECT_EQ(ended->cause().stderr_tail(), "still loading");
}

TEST(WorkerDeath, NoHostOutlivesAKilledWorkerByASecond) {
  const volador::TemporaryDirectory folder;
  const std::string folder_text = folder.path().string();
  std::vector<std::string> words = {volador::testing::built_program("fake_worker"), folder_text,
                                    volador::testing::built_program("fake_program"), "5"};
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  pid_t worker = 0;
  ASSERT_EQ(::posix_spawn(&worker, argv.front(), nullptr, nullptr, argv.data(), environ), 0);
  for (int i = 0; i < 1000 && !std::filesystem::exists(folder.path() / "pids"); ++i) std::this_thread::sleep_for(10ms);
  std::vector<pid_t> pids;
  std::ifstream in(folder.path() / "pids");
  for (pid_t pid = 0; in >> pid;) pids.push_back(pid);
  ASSERT_EQ(pids.size(), 5u);
  ::kill(worker, SIGKILL);
  ::waitpid(worker, nullptr, 0);
  const auto until = std::chrono::steady_clock::now() + 1s;
  for (const pid_t pid : pids) {
    while (is_alive(pid) && std::chrono::steady_clock::now() < until) std::this_thread::sleep_for(5ms);
    EXPECT_FALSE(is_alive(pid));
  }
}

}  // namespace
}  // namespace volador::worker
