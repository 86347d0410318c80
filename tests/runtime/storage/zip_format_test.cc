#include "runtime/storage/zip_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace volador::storage {
namespace {

TEST(ZipFormat, TheChecksumIsThatOfZipFiles) {
  EXPECT_EQ(zip_crc32(0, "123456789"), 0xcbf43926u);
  EXPECT_EQ(zip_crc32(0, ""), 0u);
  const std::string text = "The quick brown fox jumps over the lazy dog";
  EXPECT_EQ(zip_crc32(0, text), 0x414fa339u);
  for (size_t at = 0; at <= text.size(); ++at)
    EXPECT_EQ(zip_crc32(zip_crc32(0, text.substr(0, at)), text.substr(at)), 0x414fa339u) << at;
}

TEST(ZipFormat, RecordsHaveTheLengthsOfTheFormat) {
  ZipFormat zip;
  EXPECT_EQ(zip.begin_entry("ab", 0644, 3).size(), 30u + 2 + 20);
  EXPECT_EQ(zip.end_entry(zip_crc32(0, "abc"), 3).size(), 24u);
  const std::string end = zip.finish();
  EXPECT_EQ(end.size(), 46u + 2 + 28 + 56 + 20 + 22);
}

}  // namespace
}  // namespace volador::storage
