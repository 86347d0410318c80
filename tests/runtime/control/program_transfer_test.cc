#include "runtime/control/program_transfer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

#include "tests/runtime/control/test_credentials.h"
#include "tests/runtime/control/test_head.h"

namespace volador::control {
namespace {

using namespace std::chrono_literals;
using security::Role;
using testing::HasSubstr;

class ProgramTransfer : public testing::Test {
 protected:
  ProgramTransfer() {
    char name[] = "/tmp/volador_transfer_XXXXXX";
    folder_ = ::mkdtemp(name);
  }
  ~ProgramTransfer() override { std::filesystem::remove_all(folder_); }

  std::filesystem::path write(const std::string& name, const std::string& bytes) {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
    return folder_ / name;
  }
  std::string read(const std::string& name) {
    std::ifstream file(folder_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  size_t files() const {
    return static_cast<size_t>(
        std::distance(std::filesystem::directory_iterator(folder_), std::filesystem::directory_iterator()));
  }

  TestHead head_;
  Channel channel_{head_.address(), credentials_for(head_.authority(), Role::kDriver, "ada")};
  std::filesystem::path folder_;
};

std::string some_bytes(size_t size) {
  std::string out(size, '\0');
  for (size_t i = 0; i < size; ++i) out[i] = static_cast<char>(i * 2654435761U >> 13);
  return out;
}

TEST_F(ProgramTransfer, ArrivesAsItWasSent) {
  for (const size_t size : {size_t{0}, size_t{1}, size_t{1} << 20, (size_t{5} << 19) + 3}) {
    const std::string bytes = some_bytes(size);
    const auto path = write("program", bytes);
    const auto sha256 = sha256_of_file(path);
    ASSERT_TRUE(sha256);
    EXPECT_EQ(*sha256, security::sha256(bytes));
    const auto sent = upload_program(channel_, path, *sha256, 10s);
    ASSERT_TRUE(sent) << sent.error().message;
    const auto fetched = download_program(channel_, *sha256, folder_ / "copy", 10s);
    ASSERT_TRUE(fetched) << fetched.error().message;
    EXPECT_EQ(read("copy"), bytes);
    struct stat info {};
    ASSERT_EQ(::stat((folder_ / "copy").c_str(), &info), 0);
    EXPECT_EQ(info.st_mode & 0777, 0700U);
    EXPECT_EQ(files(), 2U);
  }
}

TEST_F(ProgramTransfer, AFileThatChangedIsNotSent) {
  const auto path = write("program", "rebuilt");
  const auto sent = upload_program(channel_, path, security::sha256("as it was started"), 10s);
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(sent.error().message, HasSubstr("has changed"));
}

TEST_F(ProgramTransfer, WhatDoesNotFitItsHashIsThrownAway) {
  const auto expected = security::sha256("good");
  head_.service().put_program(security::raw(expected), "evil");
  const auto fetched = download_program(channel_, expected, folder_ / "copy", 10s);
  ASSERT_FALSE(fetched);
  EXPECT_EQ(fetched.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(files(), 0U);
}

TEST_F(ProgramTransfer, ALostConnectionIsTriedAgain) {
  const std::string bytes = some_bytes(3 << 20);
  head_.service().put_program(security::raw(security::sha256(bytes)), bytes);
  head_.service().lose_next(2);
  const auto fetched = download_program(channel_, security::sha256(bytes), folder_ / "copy", 10s);
  ASSERT_TRUE(fetched) << fetched.error().message;
  EXPECT_EQ(read("copy"), bytes);
  EXPECT_EQ(files(), 1U);
}

TEST_F(ProgramTransfer, AnUnknownProgramAndOneAboveTheLimitLeaveNothingBehind) {
  const auto unknown = download_program(channel_, security::sha256("?"), folder_ / "copy", 10s);
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, ErrorCode::kNotFound);
  const auto large = security::sha256("large");
  head_.service().put_program(security::raw(large), "large");
  const auto limited = download_program(channel_, large, folder_ / "copy", 10s, 4);
  ASSERT_FALSE(limited);
  EXPECT_EQ(limited.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(limited.error().message, HasSubstr("at most 4"));
  EXPECT_EQ(files(), 0U);
}

TEST_F(ProgramTransfer, AnAbsentFileIsNotFound) {
  EXPECT_EQ(sha256_of_file(folder_ / "none").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(upload_program(channel_, folder_ / "none", {}, 10s).error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace volador::control
