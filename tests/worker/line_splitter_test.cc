#include "worker/logs/line_splitter.h"

#include <gtest/gtest.h>

#include "runtime/random.h"

namespace volador::worker {
namespace {

using Lines = std::vector<std::string>;

TEST(LineSplitter, LinesComeWholeHoweverTheBytesArrive) {
  LineSplitter splitter;
  EXPECT_EQ(splitter.feed("one\ntw"), Lines({"one"}));
  EXPECT_TRUE(splitter.has_partial());
  EXPECT_EQ(splitter.feed("o\r\n\nthree"), Lines({"two", ""}));
  EXPECT_EQ(splitter.flush(), Lines({"three"}));
  EXPECT_TRUE(splitter.flush().empty());
}

TEST(LineSplitter, OfAProgressBarTheLastStateStays) {
  LineSplitter splitter;
  EXPECT_EQ(splitter.feed(" 10%\r 50%\r100%\n"), Lines({"100%"}));
}

TEST(LineSplitter, ALineWithoutEndIsCutAndSaysHowMuchIsMissing) {
  LineSplitter splitter;
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(splitter.feed(std::string(1024, 'x')).empty());
  const Lines lines = splitter.feed("\nnext\n");
  ASSERT_EQ(lines.size(), 2u);
  EXPECT_EQ(lines[0], std::string(kLogLineBytesMax, 'x') + " … [1007616 bytes cut]");
  EXPECT_EQ(lines[1], "next");
}

TEST(LineSplitter, ControlCharactersAreEscapedAndColoursTakenOut) {
  EXPECT_EQ(printable(std::string("a\0b\x07\tc\x1b[2J", 10)), "a\\x00b\\x07\tc\\x1b[2J");
  EXPECT_EQ(printable("\x1b[1;31mred\x1b[0m"), "red");
}

TEST(LineSplitter, BytesThatAreNotUtf8AreReplaced) {
  EXPECT_EQ(printable("gr\xC3\xBC\xC3\x9F \xE2\x82\xAC \xF0\x9F\x90\x9F"),
            "gr\xC3\xBC\xC3\x9F \xE2\x82\xAC \xF0\x9F\x90\x9F");
  EXPECT_EQ(printable("\xFF\xC0\xAF"), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD") << "overlong";
  EXPECT_EQ(printable("\xE2\x82"), "\xEF\xBF\xBD\xEF\xBF\xBD") << "cut short";
  EXPECT_EQ(printable("\xED\xA0\x80"), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD") << "a surrogate";
}

TEST(LineSplitter, AnyBytesGiveLinesWithoutControlCharacters) {
  SeededRandom random(11);
  for (int round = 0; round < 2000; ++round) {
    LineSplitter splitter;
    std::string bytes;
    for (uint64_t i = random.below(200); i > 0; --i) bytes += static_cast<char>(random.below(256));
    Lines lines = splitter.feed(bytes);
    for (std::string& line : splitter.flush()) lines.push_back(std::move(line));
    for (const std::string& line : lines) {
      EXPECT_EQ(printable(line), line);
      for (const char c : line) EXPECT_TRUE(static_cast<unsigned char>(c) >= 0x20 || c == '\t');
    }
  }
}

TEST(LineTail, KeepsTheLastTwentyLinesWithinFourKilobytes) {
  LineTail tail;
  for (int i = 0; i < 100; ++i) tail.add("line " + std::to_string(i));
  EXPECT_TRUE(tail.text().starts_with("line 80\n"));
  EXPECT_TRUE(tail.text().ends_with("\nline 99"));
  for (int i = 0; i < 20; ++i) tail.add(std::string(1000, 'y'));
  EXPECT_EQ(tail.text().size(), 4003u);
  tail.add(std::string(100'000, 'z'));
  EXPECT_EQ(tail.text(), std::string(LineTail::kBytesMax, 'z'));
}

}  // namespace
}  // namespace volador::worker
