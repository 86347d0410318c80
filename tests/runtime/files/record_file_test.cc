#include "runtime/files/record_file.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "tests/temporary_directory.h"

namespace volador {
namespace {

class RecordFileTest : public ::testing::Test {
 protected:
  std::vector<std::string> read(bool torn = false, uint64_t bytes = 0) {
    std::vector<std::string> records;
    const auto read = read_records(file_, [&](std::string_view record) { records.emplace_back(record); });
    EXPECT_TRUE(read.has_value());
    if (!read) return records;
    EXPECT_EQ(read->torn, torn);
    if (bytes != 0) {
      EXPECT_EQ(read->bytes, bytes);
    }
    return records;
  }
  uint64_t write(uint64_t at, const std::vector<std::string>& payloads) {
    std::string records;
    for (const std::string& payload : payloads) append_record(records, payload);
    const auto written = write_records(file_, at, records, true);
    EXPECT_TRUE(written.has_value());
    return written.value_or(0);
  }
  TemporaryDirectory directory_;
  const std::filesystem::path file_ = std::filesystem::path(directory_.path()) / "one.open";
};

TEST_F(RecordFileTest, GrowsAtItsEnd) {
  const uint64_t first = write(0, {"one", ""});
  const uint64_t second = write(first, {std::string(3'000'000, 'x')});
  EXPECT_EQ(std::filesystem::file_size(file_), second);
  EXPECT_EQ(read(false, second), (std::vector<std::string>{"one", "", std::string(3'000'000, 'x')}));
  write(0, {"anew"});
  EXPECT_EQ(read(), std::vector<std::string>{"anew"});
}

TEST_F(RecordFileTest, TornAnywhereItHasTheWholeRecordsBefore) {
  const uint64_t one = write(0, {"one"});
  const uint64_t two = write(one, {"two"});
  const uint64_t three = write(two, {"three"});
  for (uint64_t cut = three; cut-- > 0;) {
    std::filesystem::resize_file(file_, cut);
    const size_t whole = cut >= two ? 2 : cut >= one ? 1 : 0;
    const bool at_an_end = cut == two || cut == one || cut == 8 || cut == 0;
    EXPECT_EQ(read(!at_an_end).size(), whole) << cut;
  }
}

TEST_F(RecordFileTest, WhatIsAddedAfterATornEndTakesItsPlace) {
  const uint64_t one = write(0, {"one"});
  const uint64_t two = write(one, {"two"});
  std::filesystem::resize_file(file_, two - 1);
  read(true, one);
  write(one, {"three"});
  EXPECT_EQ(read(), (std::vector<std::string>{"one", "three"}));
}

TEST_F(RecordFileTest, DamageIsNeverReadAsARecord) {
  const uint64_t end = write(0, {"one", "two", "three"});
  std::string bytes;
  {
    std::ifstream in(file_, std::ios::binary);
    bytes.assign(std::istreambuf_iterator<char>(in), {});
  }
  ASSERT_EQ(bytes.size(), end);
  for (size_t at = 8; at < bytes.size(); ++at) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x40);
    std::ofstream(file_, std::ios::binary) << damaged;
    const auto records = read(true);
    EXPECT_LT(records.size(), 3u) << at;
    for (size_t record = 0; record < records.size(); ++record)
      EXPECT_EQ(records[record], (std::vector<std::string>{"one", "two", "three"})[record]);
  }
}

TEST_F(RecordFileTest, OtherFilesAreRefusedByName) {
  std::ofstream(file_) << "something else";
  const auto other = read_records(file_, [](std::string_view) {});
  ASSERT_FALSE(other.has_value());
  EXPECT_EQ(other.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(other.error().message.find(file_.string()), std::string::npos);
  EXPECT_EQ(read_records(directory_.path() / "nothing", [](std::string_view) {}).error().code, ErrorCode::kNotFound);
  EXPECT_FALSE(write_records(directory_.path() / "no/folder", 0, "", false).has_value());
}

TEST(NextRecordTest, ALengthBeyondTheLimitIsDamage) {
  std::istringstream huge(std::string("\xff\xff\xff\xff\0\0\0\0rest", 12));
  EXPECT_FALSE(next_record(huge).has_value());
}

}  // namespace
}  // namespace volador
