#include "tune/results/experiment_directory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <limits>

#include "temporary_directory.h"

namespace volador::tune {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class ExperimentDirectoryTest : public ::testing::Test {
 protected:
  Result<ExperimentDirectory> create(std::string name, int64_t free_bytes_min = 0) {
    return ExperimentDirectory::create({.name = std::move(name),
                                        .storage_path = directory_.path() / "deep" / "results",
                                        .free_bytes_min = free_bytes_min},
                                       WallTime(std::chrono::seconds(1'700'000'000)));
  }
  TemporaryDirectory directory_;
};

TEST_F(ExperimentDirectoryTest, IsNamedByExperimentAndTime) {
  const auto made = create("digits");
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_THAT(made->key(), ::testing::ContainsRegex("^digits_2023-11-1[45]_[0-9-]{8}$"));
  EXPECT_TRUE(fs::is_empty(made->path()));
}

TEST_F(ExperimentDirectoryTest, TwoOfOneSecondAreApart) {
  const auto first = create("digits");
  const auto second = create("digits");
  ASSERT_TRUE(first && second);
  EXPECT_EQ(second->key(), first->key() + "_2");
}

TEST_F(ExperimentDirectoryTest, BadNamesAreRefused) {
  for (const std::string name : {"", "../up", "a/b", ".hidden", "-flag", "tab\t"}) {
    const auto made = create(name);
    ASSERT_FALSE(made) << name;
    EXPECT_EQ(made.error().code, ErrorCode::kInvalidArgument);
  }
  EXPECT_FALSE(create(std::string(101, 'a')));
  EXPECT_FALSE(fs::exists(directory_.path() / "deep"));
}

TEST_F(ExperimentDirectoryTest, AStoragePathThatIsAFileIsNamed) {
  write_text(directory_.path() / "deep", "a file");
  const auto made = create("digits");
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().message, HasSubstr("deep/results"));
}

TEST_F(ExperimentDirectoryTest, AnAddressIsNoPath) {
  const auto made = ExperimentDirectory::create({.name = "digits", .storage_path = "s3://models/runs"}, WallTime{});
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(made.error().message, ::testing::HasSubstr("s3://models/runs"));
}

TEST_F(ExperimentDirectoryTest, TooLittleSpaceIsSaidBeforeAnythingStarts) {
  const auto made = create("digits", std::numeric_limits<int64_t>::max());
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(made.error().message, HasSubstr("MiB left"));
  EXPECT_TRUE(fs::is_empty(directory_.path() / "deep" / "results"));
}

TEST_F(ExperimentDirectoryTest, StateIsReplacedAtomically) {
  const auto made = create("digits");
  ASSERT_TRUE(made);
  EXPECT_TRUE(made->write_state("{\"a\": 1}"));
  EXPECT_TRUE(made->write_state("{}"));
  EXPECT_EQ(read_text(made->path() / "experiment_state.json"), "{}");
  EXPECT_FALSE(fs::exists(made->path() / "experiment_state.json.partial"));
}

}  // namespace
}  // namespace volador::tune
