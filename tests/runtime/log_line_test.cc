#include "runtime/log_line.h"

#include <gtest/gtest.h>

namespace volador::log {
namespace {

TEST(LogLine, LinesOfVoladorSayLevelAndTime) {
  const LineFacts facts = facts_of_line("2026-11-23T01:26:28.123Z warn  head \"node lost\" error=\"timeout\"");
  EXPECT_EQ(facts.level, "warn");
  EXPECT_EQ(facts.time_ms, 1'795'397'188'123);
  EXPECT_EQ(facts_of_line("2026-11-23T01:26:28.123Z info  head \"retried\" error=\"timeout\"").level, "info");
  EXPECT_EQ(facts_of_line("2026-13-23T01:26:28.123Z info  head \"x\"").time_ms, 0) << "there is no month 13";
}

TEST(LogLine, ALevelInCapitalsNearTheStartCounts) {
  EXPECT_EQ(facts_of_line("[2026-11-23 01:26:28] [INFO] 0 errors so far").level, "info");
  EXPECT_EQ(facts_of_line("WARNING:root:gradient norm 18.2").level, "warn");
  EXPECT_EQ(facts_of_line("CRITICAL out of disk").level, "error");
  EXPECT_EQ(facts_of_line("2026-11-23 DEBUG loader failed over").level, "debug");
  EXPECT_EQ(facts_of_line("I1125 10:47:14.123456 7 a.cc:3] no error").level, "info");
  EXPECT_EQ(facts_of_line("E1125 10:47:14.123456 7 a.cc:3] lost").level, "error");
  EXPECT_EQ(facts_of_line("INFORMATION").level, "");
  EXPECT_EQ(facts_of_line("MY_INFO 3").level, "");
}

TEST(LogLine, ElseWordsCount) {
  EXPECT_EQ(facts_of_line("Traceback (most recent call last):").level, "error");
  EXPECT_EQ(facts_of_line("warning: gradient norm clipped").level, "warn");
  EXPECT_EQ(facts_of_line("mirrors, errors_total 0, forewarned").level, "");
  EXPECT_EQ(facts_of_line("").level, "");
}

}  // namespace
}  // namespace volador::log
