#include "runtime/crc32c.h"

#include <gtest/gtest.h>

#include <string>

namespace volador {
namespace {

TEST(Crc32c, IsTheOneOfTheStandard) {
  EXPECT_EQ(crc32c(""), 0u);
  EXPECT_EQ(crc32c("123456789"), 0xe3069283u);
  EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aau);  // RFC 3720, B.4.
}

// For every split of the bytes into parts that are summed in parallel.
TEST(Crc32c, IsThatOfTheTableForEveryLength) {
  std::string bytes;
  uint32_t state = 1;
  while (bytes.size() < 60'000) bytes += static_cast<char>((state = state * 1664525 + 1013904223) >> 24);
  for (const size_t around : {size_t{0}, size_t{4096}, size_t{12'288}, size_t{24'576}, size_t{40'000}}) {
    for (size_t more = 0; more < 20; ++more) {
      for (const size_t from : {size_t{0}, size_t{3}}) {
        const std::string_view part = std::string_view(bytes).substr(from, around + more);
        EXPECT_EQ(crc32c(part), ~crc32c_parts::by_table(~0U, part)) << part.size() << " bytes from " << from;
      }
    }
  }
}

}  // namespace
}  // namespace volador
