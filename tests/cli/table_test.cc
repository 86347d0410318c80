#include "cli/render/table.h"

#include <gtest/gtest.h>

#include "cli/commands/top_command.h"

namespace volador::cli {
namespace {

TEST(DisplayWidth, CountsColumnsNotBytes) {
  EXPECT_EQ(display_width("heron"), 5u);
  EXPECT_EQ(display_width("飞鱼"), 4u);
  EXPECT_EQ(display_width("é"), 1u);
  EXPECT_EQ(display_width("e\xcc\x81"), 1u) << "a combining accent";
  EXPECT_EQ(display_width("…·"), 2u);
  EXPECT_EQ(display_width("\x1b[31mred\x1b[0m"), 3u);
  EXPECT_EQ(display_width("\xff\xfe"), 2u) << "bytes that are no UTF-8";
  EXPECT_EQ(display_width("\xe9"), 1u) << "a letter cut off";
}

TEST(CutToWidth, EndsWithAMarkAndKeepsColoursAndLetters) {
  EXPECT_EQ(cut_to_width("heron", 5), "heron");
  EXPECT_EQ(cut_to_width("heron", 4), "her…");
  EXPECT_EQ(cut_to_width("heron", 1), "…");
  EXPECT_EQ(cut_to_width("heron", 0), "");
  EXPECT_EQ(cut_to_width("飞鱼飞鱼", 6), "飞鱼…") << "two columns a letter, one for the mark";
  EXPECT_EQ(cut_to_width("飞鱼飞鱼", 4), "飞…") << "half a letter does not fit";
  EXPECT_EQ(cut_to_width("\x1b[31malive\x1b[0m", 3), "\x1b[31mal\x1b[0m…") << "the colour ends";
}

TEST(FitScreen, SaysWhatItLeavesOut) {
  EXPECT_EQ(fit_screen("a\nb\n", 2, 80), "a\nb");
  EXPECT_EQ(fit_screen("a\nb\nc\n", 2, 80), "a\n… 2 more lines");
  EXPECT_EQ(fit_screen("a\nb\n", 1, 80), "… 2 more lines");
  EXPECT_EQ(fit_screen("heron\n\nx", 24, 3), "he…\n\nx");
  EXPECT_EQ(fit_screen("", 24, 80), "");
}

TEST(Table, ColumnsLineUpWhateverTheScript) {
  Table table({{"name"}, {"n", Align::kRight}});
  table.add({"飞鱼", "7"});
  table.add({"heron", "12"});
  EXPECT_EQ(table.text(), "name    n\n飞鱼    7\nheron  12\n");
}

TEST(Table, ColumnsThatAreEmptyEverywhereAreLeftOut) {
  Table table({{"a"}, {"b"}, {"c"}});
  table.add({"1", "", "3"});
  EXPECT_EQ(table.text(), "a  c\n1  3\n");
}

TEST(Table, LinesEndWithoutSpaces) {
  Table table({{"a"}, {"long title"}});
  table.add({"1", "x"});
  EXPECT_EQ(table.text(), "a  long title\n1  x\n");
}

TEST(Printable, ControlCharactersCannotReachTheTerminal) {
  EXPECT_EQ(printable("a\x1b[2Jb\n\x7f\t"), "a?[2Jb???");
  EXPECT_EQ(printable_line("a\tb\r"), "a\tb?");
  EXPECT_EQ(printable("飞鱼"), "飞鱼");
}

}  // namespace
}  // namespace volador::cli
