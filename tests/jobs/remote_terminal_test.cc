// Commands that users run in a rank: terminals, limits and callers that are gone.
#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <future>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "jobs/rank_process.h"
#include "jobs/remote/remote_commands.h"
#include "runtime/net/unique_fd.h"

namespace volador::jobs {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::MatchesRegex;

class UserCommandTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "commands-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
    surroundings_ = {.job = "job-1",
                     .rank = 0,
                     .folder = folder_,
                     .directory = folder_,
                     .environment = environment_of_rank({{"PS1", "$ "}, {"HOME", folder_.string()}})};
    commands_.emplace(surroundings_);
  }
  void TearDown() override {
    commands_.reset();
    std::filesystem::remove_all(folder_);
  }

  Result<void> start(std::vector<std::string> words, bool terminal = true, const std::string& id = "c") {
    return commands_->start({.id = id,
                             .command_line = {},
                             .input = true,
                             .words = std::move(words),
                             .terminal = terminal,
                             .rows = 30,
                             .columns = 100,
                             .by_user = true});
  }
  RemoteCommands::Events take(std::chrono::milliseconds wait = 1h, const std::string& id = "c") {
    std::promise<RemoteCommands::Events> given;
    commands_->take(
        id, [&](RemoteCommands::Events events) { given.set_value(std::move(events)); }, wait);
    return given.get_future().get();
  }
  // Reads until the output has the text, or the command has ended.
  std::string read_until(const std::string& text) {
    std::string output;
    while (output.find(text) == std::string::npos && !code_) {
      const auto events = take();
      if (events.empty()) break;
      for (const RemoteEvent& event : events) {
        output += event.bytes.data;
        if (event.kind == RemoteEvent::kEnded) code_ = event.code;
      }
    }
    return output;
  }
  std::string read_all() { return read_until("no output has this"); }
  void type(const std::string& keys) { ASSERT_TRUE(commands_->offer("c", keys, false)); }
  // Waits for a line in a named pipe of the folder.
  std::string read_pipe(const char* name) const {
    const net::UniqueFd fifo(::open((folder_ / name).c_str(), O_RDONLY | O_CLOEXEC));
    std::array<char, 64> line{};
    const ssize_t got = ::read(fifo.get(), line.data(), line.size());
    return {line.data(), static_cast<size_t>(std::max<ssize_t>(got, 0))};
  }
  void make_pipe(const char* name) const { ASSERT_EQ(::mkfifo((folder_ / name).c_str(), 0600), 0); }

  std::filesystem::path folder_;
  RankSurroundings surroundings_;
  std::optional<RemoteCommands> commands_;
  std::optional<int> code_;
};

TEST_F(UserCommandTest, ATerminalHasANameASizeAndOneStream) {
  ASSERT_TRUE(start({"bash", "-c", "tty; stty size; echo \"$TERM\" >&2; test -t 1 -a -t 2; exit 3"}));
  EXPECT_THAT(read_all(), MatchesRegex("/dev/pts/[0-9]+\r\n30 100\r\nxterm-256color\r\n"));
  EXPECT_EQ(code_, 3);
}

TEST_F(UserCommandTest, ControlCEndsTheProgramInTheTerminal) {
  ASSERT_TRUE(start({"sleep", "1000"}));
  type("\x03");
  read_all();
  EXPECT_EQ(code_, 130);
}

TEST_F(UserCommandTest, AShellControlsItsJobs) {
  ASSERT_TRUE(start({"bash", "--norc", "-i"}));
  type("bash -c 'echo u\"\"p; sleep 1000'\n");  // It is in the foreground when it says so.
  EXPECT_THAT(read_until("up\r\n"), HasSubstr("up\r\n"));
  type("\x03");
  type("echo c''ode $?\n");
  EXPECT_THAT(read_until("code 130\r\n"), HasSubstr("code 130\r\n"));
  type("sleep 1000 & jobs\n");
  EXPECT_THAT(read_until("Running"), HasSubstr("[1]"));
  type("kill %1; exit 5\n");
  EXPECT_THAT(read_all(), testing::Not(HasSubstr("no job control")));
  EXPECT_EQ(code_, 5);
}

TEST_F(UserCommandTest, ANewSizeReachesTheProgram) {
  ASSERT_TRUE(start({"bash", "-c", "trap 'stty size; exit' WINCH; echo up; sleep 1000 & wait"}));
  read_until("up");
  commands_->resize("c", 50, 120);
  EXPECT_THAT(read_all(), HasSubstr("50 120"));
}

TEST_F(UserCommandTest, TheEndOfInputIsControlDInATerminal) {
  ASSERT_TRUE(start({"cat"}));
  ASSERT_TRUE(commands_->offer("c", "word\n", true));
  EXPECT_EQ(read_all(), "word\r\nword\r\n");
  EXPECT_EQ(code_, 0);
}

TEST_F(UserCommandTest, ACallerThatIsGoneHangsUpTheTerminal) {
  make_pipe("end");
  ASSERT_TRUE(start({"bash", "-c", "trap '' TERM; trap 'echo ended > end; exit' HUP; echo up; sleep 1000 & wait"}));
  read_until("up");
  commands_->abandon("c");
  EXPECT_EQ(read_pipe("end"), "ended\n");
}

TEST_F(UserCommandTest, OutputThatIsNotReadEndsTheCommand) {
  make_pipe("end");
  commands_.emplace(surroundings_, RemoteCommands::Limits{.reader_patience = 300ms});
  ASSERT_TRUE(
      start({"bash", "-c", "trap 'echo ended > end; exit' TERM; echo up; sleep 1000 & while :; do wait; done"}, false));
  read_until("up");
  EXPECT_EQ(read_pipe("end"), "ended\n");
  EXPECT_TRUE(take().empty());
  // Also when its output has filled everything.
  ASSERT_TRUE(
      start({"bash", "-c", "trap 'echo ended > end; exit' TERM; echo up; yes & while :; do wait; done"}, false, "d"));
  EXPECT_FALSE(take(1h, "d").empty());
  EXPECT_EQ(read_pipe("end"), "ended\n");
}

TEST_F(UserCommandTest, AReaderIsAnsweredWhenItsTimeIsOver) {
  ASSERT_TRUE(start({"sleep", "1000"}));
  const auto events = take(1ms);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].kind, RemoteEvent::kNothing);
  EXPECT_TRUE(take(1h, "other").empty());
}

TEST_F(UserCommandTest, ASecondReaderTakesThePlaceOfTheFirst) {
  ASSERT_TRUE(start({"bash", "-c", "read -r line; echo \"got $line\""}, false));
  std::promise<RemoteCommands::Events> first;
  commands_->take("c", [&](RemoteCommands::Events events) { first.set_value(std::move(events)); });
  std::promise<RemoteCommands::Events> second;
  commands_->take("c", [&](RemoteCommands::Events events) { second.set_value(std::move(events)); });
  EXPECT_TRUE(first.get_future().get().empty());
  type("word\n");
  EXPECT_EQ(second.get_future().get().front().bytes.data, "got word\n");
}

TEST_F(UserCommandTest, OutputForAReaderThatIsGoneStaysForTheNextOne) {
  ASSERT_TRUE(start({"bash", "-c", "read -r line; echo \"got $line\"; read -r line"}, false));
  std::promise<RemoteCommands::Events> first;
  commands_->take(
      "c", [&](RemoteCommands::Events events) { first.set_value(std::move(events)); }, 1h, [] { return true; });
  type("word\n");
  EXPECT_TRUE(first.get_future().get().empty());
  EXPECT_EQ(take().front().bytes.data, "got word\n");
}

TEST_F(UserCommandTest, UsersRunALimitedNumberOfCommands) {
  commands_.emplace(surroundings_, RemoteCommands::Limits{.commands = 2});
  ASSERT_TRUE(start({"sleep", "1000"}, false, "a"));
  ASSERT_TRUE(start({"sleep", "1000"}, false, "c"));
  const auto third = start({"true"}, false, "b");
  ASSERT_FALSE(third);
  EXPECT_EQ(third.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(third.error().message, "2 commands that users started run in this rank, the limit; end some of them first");
  commands_->abandon("c");
  while (!start({"true"}, false, "b")) {  // Its end takes a moment.
  }
}

TEST_F(UserCommandTest, InputThatIsNotReadIsRefusedBeyondALimit) {
  ASSERT_TRUE(start({"sleep", "1000"}, false));
  ASSERT_TRUE(commands_->offer("c", std::string(size_t{1} << 20, 'x'), false));
  const auto more = commands_->offer("c", "x", false);
  ASSERT_FALSE(more);
  EXPECT_EQ(more.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(more.error().message, HasSubstr("has not read"));
  EXPECT_TRUE(commands_->offer("other", "x", false));  // A command that has ended takes nothing and is no error.
}

}  // namespace
}  // namespace volador::jobs
