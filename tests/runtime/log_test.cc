#include "runtime/log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "runtime/paths.h"
#include "tests/temporary_directory.h"

namespace volador {
namespace {

TEST(LogFields, PlainWordsStayAndOthersAreQuoted) {
  EXPECT_EQ(log::quoted_if_needed("abc-1.2"), "abc-1.2");
  EXPECT_EQ(log::quoted_if_needed("a b"), "\"a b\"");
  EXPECT_EQ(log::quoted_if_needed(""), "\"\"");
  const std::string escaped = log::quoted_if_needed("a\"b\n");
  EXPECT_EQ(escaped.find('\n'), std::string::npos);
  EXPECT_EQ(escaped.front(), '"');
}

TEST(Log, LinesGoToTheFileInTheirForm) {
  TemporaryDirectory folder;
  const auto file = folder.path() / "x.log";
  log::configure({.level = log::Level::kInfo, .file = file.string()});
  log::debug("test", "not written");
  log::info("test", "node joined", {{"node", "a b"}, {"cpus", 2}});
  log::configure({});
  const std::string text = read_file_limited(file, 10'000).value();
  EXPECT_NE(text.find("node joined"), std::string::npos) << text;
  EXPECT_NE(text.find("node=\"a b\" cpus=2"), std::string::npos) << text;
  EXPECT_EQ(text.find("not written"), std::string::npos);
}

// A FIFO replaces the file: when it is full, a write blocks until it is read, as on a hanging disk.
TEST(Log, ADiskThatHangsHoldsUpNobody) {
  ::signal(SIGPIPE, SIG_IGN);
  TemporaryDirectory folder;
  const auto file = folder.path() / "x.log";
  ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
  const int reader = ::open(file.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(reader, 0);
  log::configure({.level = log::Level::kInfo, .file = file.string()});
  constexpr int kLines = 2000;
  const std::string filler(200, 'x');  // Exceeds the capacity of a pipe.
  for (int i = 0; i < kLines; ++i) log::info("test", "line", {{"number", i}, {"filler", filler}});
  ::fcntl(reader, F_SETFL, 0);
  std::string text;
  while (std::count(text.begin(), text.end(), '\n') < kLines) {
    char buffer[4096];
    const ssize_t got = ::read(reader, buffer, sizeof buffer);
    ASSERT_GT(got, 0);
    text.append(buffer, static_cast<size_t>(got));
  }
  log::drain();
  log::configure({});
  ::close(reader);
  for (const int number : {0, kLines / 2, kLines - 1})
    EXPECT_NE(text.find(fmt::format("number={} ", number)), std::string::npos);
}

}  // namespace
}  // namespace volador
