// Commands that are a fork of the process itself.
#include "jobs/own_command.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "jobs/output_tap.h"

namespace volador::jobs {
namespace {

namespace fs = std::filesystem;

constexpr int kManyLines = 20'000;
const std::vector<std::string> kWords = {"bash", "-c", "exec program run"};

std::string text_of(const fs::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

// What the fork sees, as a file in its working directory.
int note_what_is_seen() {
  std::ofstream out("seen");
  const char* variable = std::getenv("OWN");
  const char* directory = std::getenv("PWD");
  const char* home = std::getenv("HOME");
  struct sigaction action {};
  ::sigaction(SIGTERM, nullptr, &action);
  struct stat input {
  }, none{};
  ::fstat(STDIN_FILENO, &input);
  ::stat("/dev/null", &none);
  out << (variable == nullptr ? "" : variable) << "|" << (directory == nullptr ? "" : directory) << "|"
      << (home == nullptr ? "none" : home) << "|" << (::getpgrp() == ::getpid()) << "|"
      << (action.sa_handler == SIG_DFL) << "|" << (input.st_rdev == none.st_rdev);
  return 7;
}

class OwnCommands : public testing::Test {
 protected:
  OwnCommands() {
    set_own_command({.words = kWords, .run = note_what_is_seen});
    char name[] = "/tmp/own-command-XXXXXX";
    folder_ = ::mkdtemp(name);
  }
  ~OwnCommands() override {
    set_own_command({});
    fs::remove_all(folder_);
  }
  fs::path folder_;
};

TEST_F(OwnCommands, AreThoseWithTheWordsAndWithoutVariablesThatOnlyANewProcessReads) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the runtime starts no threads in such a fork";
#endif
  EXPECT_TRUE(is_own_command(kWords, {"A=1", "PATH=/bin"}));
  EXPECT_FALSE(is_own_command({"bash", "-c", "exec program stop"}, {}));
  EXPECT_FALSE(is_own_command(kWords, {"BASH_ENV=/etc/profile"}));
  EXPECT_FALSE(is_own_command(kWords, {"LD_PRELOAD=/lib/other.so"}));
  ::setenv("LD_OWN_COMMAND_TEST", "1", 1);
  EXPECT_TRUE(is_own_command(kWords, {"LD_OWN_COMMAND_TEST=1"}));  // This process was loaded with it.
  ::unsetenv("LD_OWN_COMMAND_TEST");
  set_own_command({});
  EXPECT_FALSE(is_own_command(kWords, {}));
}

TEST_F(OwnCommands, HaveWhatANewProcessWouldHave) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the runtime starts no threads in such a fork";
#endif
  const auto before = std::signal(SIGTERM, SIG_IGN);
  const pid_t pid = fork_own_command(folder_, {"OWN=yes", "PWD=/elsewhere"});
  std::signal(SIGTERM, before);
  ASSERT_GT(pid, 0);
  int status = 0;
  ASSERT_EQ(::waitpid(pid, &status, 0), pid);
  EXPECT_EQ(WEXITSTATUS(status), 7);
  EXPECT_EQ(text_of(folder_ / "seen"), "yes|" + folder_.string() + "|none|1|1|1");
}

// More than a pipe takes at first, on one stream, and a line on the other.
int write_much() {
  for (int line = 0; line < kManyLines; ++line) std::printf("line %d\n", line);
  std::fflush(stdout);
  std::fprintf(stderr, "an error");
  return 0;
}

TEST_F(OwnCommands, WriteToATapThatReadsAfterTheirStart) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the runtime starts no threads in such a fork";
#endif
  set_own_command({.words = kWords, .run = write_much});
  std::string expected;
  for (int line = 0; line < kManyLines; ++line) expected += fmt::format("line {}\n", line);
  LogMatches matches;
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  auto tap = OutputTap::create({{.pattern = "^line 9$"}}, matches);
  ASSERT_TRUE(tap) << tap.error().message;
  const auto streams = (*tap)->streams();
  const pid_t pid = fork_own_command(folder_, {}, {.out = streams.out, .err = streams.err});
  ASSERT_GT(pid, 0);
  (*tap)->start();
  int status = 0;
  ASSERT_EQ(::waitpid(pid, &status, 0), pid);
  (*tap)->finish();
  EXPECT_EQ(status, 0);
  EXPECT_EQ(testing::internal::GetCapturedStdout(), expected);
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "an error");
}

TEST_F(OwnCommands, EndAsAShellsDoWithoutTheirFolder) {
#if defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the runtime starts no threads in such a fork";
#endif
  const pid_t pid = fork_own_command(folder_ / "absent", {});
  ASSERT_GT(pid, 0);
  int status = 0;
  ASSERT_EQ(::waitpid(pid, &status, 0), pid);
  EXPECT_EQ(WEXITSTATUS(status), 126);
}

}  // namespace
}  // namespace volador::jobs
