#include "runtime/process_file.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>

#include "runtime/paths.h"
#include "tests/temporary_directory.h"

namespace volador {
namespace {

TEST(ProcessRecord, TextComesBackAndOtherTextIsRefused) {
  const ProcessRecord record{.pid = 4711, .start_ticks = 99, .boot_id = "b-1"};
  EXPECT_EQ(parse_process_record(to_text(record)).value(), record);
  for (const char* bad : {"", "4711", "4711 99", "4711 99 b", "x 99 b\n", "-1 99 b\n", "4711 99 \n", "4711  99 b\n"})
    EXPECT_FALSE(parse_process_record(bad)) << bad;
}

TEST(ProcessRecord, AnotherProcessWithTheSameNumberIsNotTheSame) {
  ProcessRecord self = describe_process(::getpid()).value();
  EXPECT_TRUE(is_running(self));
  ProcessRecord earlier = self;
  --earlier.start_ticks;
  EXPECT_FALSE(is_running(earlier));
  ProcessRecord last_boot = self;
  last_boot.boot_id = "other";
  EXPECT_FALSE(is_running(last_boot));
}

TEST(ProcessRecord, AProcessThatEndedDoesNotRunEvenBeforeItIsReaped) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  siginfo_t info{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  EXPECT_FALSE(describe_process(child));
  ::waitpid(child, nullptr, 0);
  EXPECT_FALSE(describe_process(child));
}

TEST(ProcessFile, NamesThisProcessWhileItLives) {
  TemporaryDirectory folder;
  const auto file = folder.path() / "head.pid";
  {
    auto claimed = ProcessFile::claim(file);
    ASSERT_TRUE(claimed) << claimed.error().message;
    ASSERT_TRUE(running_process(file));
    EXPECT_EQ(running_process(file)->pid, ::getpid());
  }
  EXPECT_FALSE(std::filesystem::exists(file));
}

TEST(ProcessFile, IsNotTakenFromAProcessThatRuns) {
  TemporaryDirectory folder;
  const auto file = folder.path() / "head.pid";
  ASSERT_TRUE(write_file_atomic(file, to_text(describe_process(::getppid()).value()), 0600));
  EXPECT_EQ(ProcessFile::claim(file).error().code, ErrorCode::kUnavailable);
}

TEST(ProcessFile, IsTakenFromAProcessThatEnded) {
  TemporaryDirectory folder;
  const auto file = folder.path() / "head.pid";
  std::ofstream(file) << "1 1 another-boot\n";
  EXPECT_FALSE(running_process(file));
  EXPECT_TRUE(ProcessFile::claim(file));
  std::ofstream(file) << "damaged";
  EXPECT_TRUE(ProcessFile::claim(file));
}

TEST(ProcessFile, ForkedChildrenLeaveItInPlace) {
  TemporaryDirectory folder;
  const auto file = folder.path() / "head.pid";
  auto claimed = ProcessFile::claim(file);
  ASSERT_TRUE(claimed);
  const pid_t child = ::fork();
  if (child == 0) {
    { ProcessFile moved = std::move(*claimed); }
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(std::filesystem::exists(file));
}

}  // namespace
}  // namespace volador
