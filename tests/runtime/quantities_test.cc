#include "runtime/quantities.h"

#include <gtest/gtest.h>

namespace volador {
namespace {

using namespace std::chrono_literals;

TEST(Quantities, DurationsNeedUnits) {
  EXPECT_EQ(parse_duration("500ms").value(), 500ms);
  EXPECT_EQ(parse_duration("3.5s").value(), 3500ms);
  EXPECT_EQ(parse_duration("10min").value(), 10min);
  EXPECT_EQ(parse_duration("10m").value(), 10min);
  EXPECT_EQ(parse_duration("1h30m").value(), 90min);
  EXPECT_EQ(parse_duration("1 h 30 s").value(), 3630s);
  EXPECT_EQ(parse_duration("0").value(), 0ns);
  for (const char* bad : {"", "5", "s", "-1s", "1x", "1s2", "1e9999s", "nan s", "999999999999d", "1S"})
    EXPECT_FALSE(parse_duration(bad)) << bad;
}

TEST(Quantities, SizesKnowBothKindsOfPrefixes) {
  EXPECT_EQ(parse_byte_count("800").value(), 800);
  EXPECT_EQ(parse_byte_count("64KiB").value(), 65536);
  EXPECT_EQ(parse_byte_count("2GB").value(), 2'000'000'000);
  EXPECT_EQ(parse_byte_count("1.5 GiB").value(), 1'610'612'736);
  for (const char* bad : {"", "GB", "-1", "1kib", "1 GB 2", "1e30GB", "0x10"})
    EXPECT_FALSE(parse_byte_count(bad)) << bad;
}

TEST(Quantities, NumbersAreTheWholeText) {
  EXPECT_EQ(parse_integer("-12").value(), -12);
  EXPECT_EQ(parse_real("1e-3").value(), 1e-3);
  for (const char* bad : {"", "1 ", " 1", "1.0", "9223372036854775808", "ten", "+1"})
    EXPECT_FALSE(parse_integer(bad)) << bad;
  for (const char* bad : {"", "nan", "inf", "1x", "1e999"}) EXPECT_FALSE(parse_real(bad)) << bad;
  EXPECT_EQ(parse_integer("ten").error().message, "expected an integer, got \"ten\"");
}

TEST(Quantities, PairsAreSplitAtCommasAndTheFirstEqualsSign) {
  EXPECT_TRUE(parse_pairs("").value().empty());
  EXPECT_EQ(parse_pairs("a=1,b=x=y").value(), (std::map<std::string, std::string>{{"a", "1"}, {"b", "x=y"}}));
  for (const char* bad : {"a", "=1", "a=1,", "a=1,a=2", ","}) EXPECT_FALSE(parse_pairs(bad)) << bad;
}

TEST(Quantities, DurationsAreShownWithTwoUnitsAtMost) {
  EXPECT_EQ(format_duration(120ms), "0.12 s");
  EXPECT_EQ(format_duration(41s), "41 s");
  EXPECT_EQ(format_duration(200s), "3 min 20 s");
  EXPECT_EQ(format_duration(125min), "2 h 5 min");
  EXPECT_EQ(format_duration(97h), "4 d 1 h");
}

TEST(Quantities, OneIsSingular) {
  EXPECT_EQ(counted(1, "object"), "1 object");
  EXPECT_EQ(counted(0, "object"), "0 objects");
  EXPECT_EQ(counted(size_t{12345}, "object"), "12345 objects");
  EXPECT_EQ(counted(1, "actor has", "actors have"), "1 actor has");
  EXPECT_EQ(counted(2, "actor has", "actors have"), "2 actors have");
  EXPECT_EQ(counted("0.5", "CPU"), "0.5 CPUs");
  EXPECT_EQ(counted("1", "CPU"), "1 CPU");
}

}  // namespace
}  // namespace volador
