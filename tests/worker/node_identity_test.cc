#include "worker/shell/node_identity.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/temporary_directory.h"
#include "worker/hosts/children.h"
#include "worker/hosts/exit_cause.h"
#include "worker/hosts/lease_memory.h"
#include "worker/hosts/spawn.h"

namespace volador::worker {
namespace {

using namespace std::chrono_literals;

TEST(NodeIdentity, AnIdIsKeptAndASecondWorkerOfTheNameIsRefused) {
  const volador::TemporaryDirectory folder;
  const NodePaths paths{folder.path() / "heron"};
  SeededRandom random(1);
  NodeId id;
  {
    const auto node = claim_node(paths, "heron", random);
    ASSERT_TRUE(node);
    EXPECT_TRUE(node->fresh);
    id = node->id;
    const auto second = claim_node(paths, "heron", random);
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, ErrorCode::kUnavailable);
    EXPECT_NE(second.error().message.find("a worker of node heron runs on this machine already"), std::string::npos);
  }
  const auto again = claim_node(paths, "heron", random);
  ASSERT_TRUE(again);
  EXPECT_FALSE(again->fresh);
  EXPECT_EQ(again->id, id);
}

TEST(NodeIdentity, ADamagedFileIsNamed) {
  const volador::TemporaryDirectory folder;
  SeededRandom random(1);
  for (const char* text : {"", "{", "[]", "{\"node_id\": 7}", "{\"node_id\": \"xyz\"}"}) {
    std::ofstream(folder.path() / "node.json") << text;
    const auto node = claim_node({folder.path()}, "heron", random);
    ASSERT_FALSE(node) << text;
    EXPECT_NE(node.error().message.find("remove the file"), std::string::npos);
  }
}

TEST(NodeIdentity, AddressesAreReadWithTheirPorts) {
  EXPECT_EQ(parse_host_port("10.0.0.1:6380")->port, 6380);
  EXPECT_EQ(parse_host_port("[::1]:80")->host, "::1");
  for (const char* bad : {"", "host", "host:", ":80", "host:0", "host:70000", "host:8x"})
    EXPECT_FALSE(parse_host_port(bad)) << bad;
  EXPECT_EQ(*source_address_towards({"127.0.0.1", 80}), "127.0.0.1");
}

TEST(LeaseMemory, NobodyElseCanWriteIt) {
  auto lease = LeaseMemory::create();
  ASSERT_TRUE(lease);
  void* memory = ::mmap(nullptr, 4096, PROT_READ, MAP_SHARED, lease->fd(), 0);
  ASSERT_NE(memory, MAP_FAILED);
  const auto* page = static_cast<const LeasePage*>(memory);
  EXPECT_EQ(page->magic, LeasePage::kMagic);
  EXPECT_FALSE(page->valid_at(BootTime(1ns))) << "parked until a head says otherwise";
  lease->set_deadline(BootTime(10s));
  EXPECT_TRUE(page->valid_at(BootTime(9s)));
  EXPECT_FALSE(page->valid_at(BootTime(10s)));
  EXPECT_EQ(::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, lease->fd(), 0), MAP_FAILED);
  EXPECT_NE(::ftruncate(lease->fd(), 0), 0);
  EXPECT_LT(::write(lease->fd(), "x", 1), 0);
  ::munmap(memory, 4096);
}

TEST(Spawn, AProgramThatIsNotThereIsNamed) {
  const auto pid = spawn({.path = "/nowhere/prog"});
  ASSERT_FALSE(pid);
  EXPECT_EQ(pid.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(pid.error().message.find("cannot start /nowhere/prog: No such file"), std::string::npos);
}

TEST(Spawn, AChildHasItsOwnSessionAndOnlyTheDescriptorsItWasGiven) {
  const auto output = run_for_output(
      {.path = "/bin/sh",
       .argv = {"sh", "-c",
                "ls /proc/self/fd | tr '\\n' ' '; echo; [ $(ps -o sid= -p $$) -eq $$ ] && echo leader; echo $GREETING"},
       .env = {{"GREETING", "hello"}, {"PATH", "/usr/bin:/bin"}}},
      10s);
  ASSERT_TRUE(output);
  EXPECT_TRUE(output->text.starts_with("0 1 2 3 \n")) << output->text << "(3 is the folder that ls reads)";
  EXPECT_TRUE(output->text.ends_with("hello\n")) << output->text;
}

TEST(Spawn, WhatTakesTooLongIsEnded) {
  const auto output = run_for_output(
      {.path = "/bin/sh", .argv = {"sh", "-c", "echo begun; sleep 60"}, .env = own_environment()}, 100ms);
  ASSERT_TRUE(output);
  EXPECT_TRUE(output->timed_out);
  EXPECT_EQ(output->text, "begun\n");
}

TEST(Leftovers, EndsWhatCarriesTheVariableAndNothingElse) {
  const auto ours = spawn({.path = "/bin/sleep", .argv = {"sleep", "60"}, .env = {{"LEFTOVER_TEST", "one"}}});
  const auto other = spawn({.path = "/bin/sleep", .argv = {"sleep", "60"}, .env = {{"LEFTOVER_TEST", "one two"}}});
  ASSERT_TRUE(ours && other);
  for (const pid_t pid : {*ours, *other}) {  // It has its environment once it runs the program.
    while (!std::filesystem::read_symlink("/proc/" + std::to_string(pid) + "/exe").string().ends_with("sleep"))
      std::this_thread::sleep_for(1ms);
  }
  EXPECT_EQ(kill_by_environment("LEFTOVER_TEST", "one", 2s), 1u);
  int status = 0;
  EXPECT_EQ(::waitpid(*ours, &status, 0), *ours);
  EXPECT_EQ(WTERMSIG(status), SIGKILL);
  EXPECT_EQ(::waitpid(*other, &status, WNOHANG), 0);
  ::kill(*other, SIGKILL);
  ::waitpid(*other, &status, 0);
}

TEST(ExitCause, SaysWhatHappenedAndWhatToDo) {
  EXPECT_EQ(cause_of_exit({.exit_code = 3}).exit_code(), 3);
  EXPECT_EQ(cause_of_exit({.exit_code = 3}).message(), "");
  EXPECT_EQ(cause_of_exit({.signal = SIGSEGV}).message(), "invalid memory access");
  EXPECT_EQ(cause_of_exit({.signal = SIGKILL, .out_of_memory = true}).kind(), protocol::DeathCause::OUT_OF_MEMORY);
  EXPECT_EQ(cause_of_exit({.exit_code = 137, .out_of_memory = true, .memory_limit_bytes = 512 << 20}).message(),
            "it used more than its 512 MiB of memory, the limit of its job or actor; ask for more with --memory, or "
            ".memory of .resources()");
  EXPECT_EQ(cause_of_exit({.signal = 57}).signal(), 57);
}

}  // namespace
}  // namespace volador::worker
