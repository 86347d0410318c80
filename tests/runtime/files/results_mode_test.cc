#include "runtime/files/results_mode.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "runtime/files/durable_file.h"

namespace volador {
namespace {

using testing::HasSubstr;

unsigned mode_of(const std::filesystem::path& path) {
  struct stat info {};
  return ::lstat(path.c_str(), &info) == 0 ? info.st_mode & 07777 : 0;
}

class ResultsModeOfNewFiles : public testing::TestWithParam<mode_t> {
 protected:
  void SetUp() override {
    std::string name = testing::TempDir() + "results-mode-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    before_ = ::umask(GetParam());
  }
  void TearDown() override {
    ::umask(before_);
    std::filesystem::remove_all(folder_);
  }

  std::filesystem::path folder_;
  mode_t before_ = 0;
};

TEST_P(ResultsModeOfNewFiles, OnlyTheOwnerMayReadThem) {
  ASSERT_TRUE(make_results_directory(folder_ / "a" / "b"));
  ASSERT_TRUE(write_file_atomically(folder_ / "a" / "whole", "x", Durability::kProcess));
  ASSERT_TRUE(FileHandle::open(folder_ / "a" / "b" / "appended", O_WRONLY | O_CREAT | O_APPEND));
  EXPECT_EQ(mode_of(folder_ / "a"), 0700);
  EXPECT_EQ(mode_of(folder_ / "a" / "b"), 0700);
  EXPECT_EQ(mode_of(folder_ / "a" / "whole"), 0600);
  EXPECT_EQ(mode_of(folder_ / "a" / "b" / "appended"), 0600);
}

INSTANTIATE_TEST_SUITE_P(Umask, ResultsModeOfNewFiles, testing::Values(0, 022));

TEST(ResultsMode, FoldersMayBeEnteredByThoseWhoMayReadFiles) {
  EXPECT_EQ(parse_results_mode("0600").value(), (ResultsMode{0600, 0700}));
  EXPECT_EQ(parse_results_mode("640").value(), (ResultsMode{0640, 0750}));
  EXPECT_EQ(parse_results_mode("0660").value(), (ResultsMode{0660, 0770}));
  EXPECT_EQ(parse_results_mode("0644").value(), (ResultsMode{0644, 0755}));
}

TEST(ResultsMode, OtherTextsAreRefusedByNameAndRule) {
  for (const char* text : {"", "rw-r-----", "0800", "0400", "0700", "0620", "0602", "1600", "00600", "600 ", "-600"}) {
    const auto mode = parse_results_mode(text);
    ASSERT_FALSE(mode) << text;
    EXPECT_EQ(mode.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(mode.error().message, HasSubstr("VOLADOR_RESULTS_MODE"));
    EXPECT_THAT(mode.error().message, HasSubstr(std::string("got \"") + text + "\""));
  }
}

}  // namespace
}  // namespace volador
