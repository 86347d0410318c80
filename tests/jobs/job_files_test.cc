#include "jobs/job_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <string_view>

#include "runtime/protocol/volador/v1/jobs.pb.h"
#include "runtime/result.h"
#include "runtime/security/digest.h"
#include "tests/temporary_directory.h"

namespace volador::jobs {
namespace {

using testing::HasSubstr;

std::string job_files_hash(std::string_view content, bool raw = false) {
  security::Sha256 hash;
  hash.update(content);
  const auto digest = hash.finish();
  return raw ? std::string(reinterpret_cast<const char*>(digest.data()), digest.size()) : security::hex(digest);
}

class JobFilesTest : public testing::Test {
 protected:
  Result<v1::PutJobFilesReply> put(JobFiles& files, const std::string& hash, int64_t size, int64_t offset,
                                   const std::string& data) {
    v1::PutJobFilesRequest part;
    part.set_sha256(hash);
    part.set_size_bytes(size);
    part.set_offset(offset);
    part.set_data(data);
    return files.put(part, [this](const std::string& sha256) { return needed_.contains(sha256); });
  }
  // Sends the whole content in one part.
  Result<v1::PutJobFilesReply> put(JobFiles& files, const std::string& content) {
    return put(files, job_files_hash(content), static_cast<int64_t>(content.size()), 0, content);
  }
  bool complete(const Result<v1::PutJobFilesReply>& reply) {
    EXPECT_TRUE(reply) << reply.error().message;
    return reply && reply->complete();
  }
  bool has(const JobFiles& files, const std::string& content) {
    return files.bytes_of(job_files_hash(content)).has_value();
  }
  // Makes the archive older by this many hours.
  void age(const std::string& content, int hours) {
    const auto path = folder_ / job_files_hash(content);
    std::filesystem::last_write_time(path, std::filesystem::last_write_time(path) - std::chrono::hours(hours));
  }
  int entries() const { return static_cast<int>(std::distance(std::filesystem::directory_iterator(folder_), {})); }

  TemporaryDirectory temporary_;
  const std::filesystem::path folder_ = temporary_.path() / "files";
  std::set<std::string> needed_;
};

TEST_F(JobFilesTest, PartsInOrderMakeAnArchive) {
  JobFiles files(folder_);
  const std::string content = "one two three";
  const std::string hash = job_files_hash(content);
  const auto size = static_cast<int64_t>(content.size());
  EXPECT_FALSE(complete(put(files, hash, size, 0, "")));
  EXPECT_FALSE(complete(put(files, hash, size, 0, "one ")));
  EXPECT_FALSE(files.bytes_of(hash));
  EXPECT_FALSE(complete(put(files, hash, size, 4, "two ")));
  EXPECT_TRUE(complete(put(files, hash, size, 8, "three")));
  EXPECT_EQ(files.bytes_of(hash), size);
  const auto path = files.path_of(job_files_hash(content, true));
  ASSERT_TRUE(path);
  std::ifstream in(*path, std::ios::binary);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), content);
  EXPECT_EQ(entries(), 1);
}

TEST_F(JobFilesTest, ARepeatedUploadIsCompleteAtOnce) {
  JobFiles files(folder_);
  EXPECT_TRUE(complete(put(files, "content")));
  EXPECT_TRUE(complete(put(files, job_files_hash("content"), 7, 0, "")));
  EXPECT_TRUE(complete(put(files, job_files_hash("content"), 7, 0, "con")));
  JobFiles again(folder_);
  EXPECT_TRUE(complete(put(again, job_files_hash("content"), 7, 0, "")));
}

TEST_F(JobFilesTest, AWrongOffsetEndsTheUpload) {
  JobFiles files(folder_);
  const std::string hash = job_files_hash("abcdef");
  EXPECT_FALSE(complete(put(files, hash, 6, 0, "ab")));
  const auto gap = put(files, hash, 6, 3, "def");
  ASSERT_FALSE(gap);
  EXPECT_EQ(gap.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(gap.error().message, HasSubstr("offset: expected 2, got 3"));
  EXPECT_EQ(entries(), 0);
  const auto later = put(files, hash, 6, 2, "cdef");
  ASSERT_FALSE(later);
  EXPECT_THAT(later.error().message, HasSubstr("offset: expected 0, got 2"));
  const auto negative = put(files, hash, 6, -1, "a");
  ASSERT_FALSE(negative);
  EXPECT_THAT(negative.error().message, HasSubstr("got -1"));
  EXPECT_TRUE(complete(put(files, "abcdef")));
}

TEST_F(JobFilesTest, AnUploadMayStartAgain) {
  JobFiles files(folder_);
  const std::string hash = job_files_hash("abcdef");
  EXPECT_FALSE(complete(put(files, hash, 6, 0, "ab")));
  EXPECT_FALSE(complete(put(files, hash, 6, 0, "abc")));
  EXPECT_TRUE(complete(put(files, hash, 6, 3, "def")));
}

TEST_F(JobFilesTest, MoreThanWasAnnouncedIsRefused) {
  JobFiles files(folder_);
  const auto refused = put(files, job_files_hash("abc"), 2, 0, "abc");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(entries(), 0);
}

TEST_F(JobFilesTest, AnotherHashIsRefused) {
  JobFiles files(folder_);
  const auto refused = put(files, job_files_hash("abc"), 3, 0, "abd");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(refused.error().message, HasSubstr("another hash than " + job_files_hash("abc")));
  EXPECT_FALSE(has(files, "abc"));
  EXPECT_EQ(entries(), 0);
  EXPECT_TRUE(complete(put(files, "abc")));
}

TEST_F(JobFilesTest, WhatIsNoHashIsRefused) {
  JobFiles files(folder_);
  for (const std::string& hash :
       {std::string(), std::string("../passwd"), std::string(63, 'a'), std::string(64, 'A'), std::string(65, 'a')}) {
    const auto refused = put(files, hash, 3, 0, "abc");
    ASSERT_FALSE(refused) << hash;
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(refused.error().message, HasSubstr("sha256: expected 64 hex digits, got \"" + hash + "\""));
    EXPECT_FALSE(files.bytes_of(hash));
  }
  EXPECT_FALSE(files.path_of("short"));
  EXPECT_FALSE(files.path_of(""));
}

TEST_F(JobFilesTest, TheLimitOfAnArchiveIsExact) {
  JobFiles files(folder_, {.archive_bytes = 4});
  EXPECT_TRUE(complete(put(files, "abcd")));
  for (const int64_t size : {int64_t{5}, int64_t{0}, int64_t{-1}, INT64_MAX}) {
    const auto refused = put(files, job_files_hash("abcde"), size, 0, "abcde");
    ASSERT_FALSE(refused) << size;
    EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
    EXPECT_THAT(refused.error().message, HasSubstr("at most 4 B"));
  }
}

TEST_F(JobFilesTest, TheOldestUnneededArchiveMakesRoom) {
  JobFiles files(folder_, {.bytes = 12});
  for (const char* content : {"aaaa", "bbbb", "cccc"}) EXPECT_TRUE(complete(put(files, content)));
  age("aaaa", 1);
  age("bbbb", 3);
  age("cccc", 2);
  needed_ = {job_files_hash("bbbb")};
  EXPECT_TRUE(complete(put(files, "dddd")));
  EXPECT_TRUE(has(files, "aaaa"));
  EXPECT_TRUE(has(files, "bbbb"));
  EXPECT_FALSE(has(files, "cccc"));
  EXPECT_TRUE(has(files, "dddd"));
}

TEST_F(JobFilesTest, AnUploadThatIsRepeatedIsNotTheOldest) {
  JobFiles files(folder_, {.bytes = 8});
  for (const char* content : {"aaaa", "bbbb"}) EXPECT_TRUE(complete(put(files, content)));
  age("aaaa", 2);
  age("bbbb", 1);
  EXPECT_TRUE(complete(put(files, "aaaa")));
  EXPECT_TRUE(complete(put(files, "cccc")));
  EXPECT_TRUE(has(files, "aaaa"));
  EXPECT_FALSE(has(files, "bbbb"));
}

TEST_F(JobFilesTest, WithoutRoomTheUploadIsRefusedForNow) {
  JobFiles files(folder_, {.bytes = 8});
  for (const char* content : {"aaaa", "bbbb"}) EXPECT_TRUE(complete(put(files, content)));
  needed_ = {job_files_hash("aaaa"), job_files_hash("bbbb")};
  const auto refused = put(files, "cccc");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  EXPECT_TRUE(has(files, "aaaa"));
  EXPECT_TRUE(has(files, "bbbb"));
  needed_.clear();
  EXPECT_TRUE(complete(put(files, "cccc")));
}

// Unfinished uploads count with the size that they will have.
TEST_F(JobFilesTest, UploadsAtTheSameTimeShareTheRoom) {
  JobFiles files(folder_, {.bytes = 8});
  EXPECT_FALSE(complete(put(files, job_files_hash("aaaaa"), 5, 0, "a")));
  const auto refused = put(files, job_files_hash("bbbbb"), 5, 0, "b");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  EXPECT_TRUE(complete(put(files, job_files_hash("aaaaa"), 5, 1, "aaaa")));
}

TEST_F(JobFilesTest, AnUploadThatStartsAgainNeedsItsRoomOnce) {
  JobFiles files(folder_, {.bytes = 8});
  EXPECT_FALSE(complete(put(files, job_files_hash("aaaaaa"), 6, 0, "aaaaa")));
  EXPECT_FALSE(complete(put(files, job_files_hash("aaaaaa"), 6, 0, "aaa")));
  EXPECT_TRUE(complete(put(files, job_files_hash("aaaaaa"), 6, 3, "aaa")));
}

TEST_F(JobFilesTest, TooManyUploadsAreRefusedForNow) {
  JobFiles files(folder_, {.uploads = 2});
  EXPECT_FALSE(complete(put(files, job_files_hash("aa"), 2, 0, "a")));
  EXPECT_FALSE(complete(put(files, job_files_hash("bb"), 2, 0, "b")));
  const auto refused = put(files, job_files_hash("cc"), 2, 0, "c");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kUnavailable);
  EXPECT_TRUE(complete(put(files, job_files_hash("aa"), 2, 1, "a")));
  EXPECT_FALSE(complete(put(files, job_files_hash("cc"), 2, 0, "c")));
}

TEST_F(JobFilesTest, UnfinishedUploadsAreRemovedAtTheStart) {
  {
    JobFiles files(folder_);
    EXPECT_TRUE(complete(put(files, "whole")));
    EXPECT_FALSE(complete(put(files, job_files_hash("half"), 4, 0, "ha")));
  }
  EXPECT_EQ(entries(), 2);
  JobFiles files(folder_);
  EXPECT_EQ(entries(), 1);
  EXPECT_TRUE(has(files, "whole"));
  const auto refused = put(files, job_files_hash("half"), 4, 2, "lf");
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("offset: expected 0, got 2"));
  EXPECT_TRUE(complete(put(files, "half")));
}

}  // namespace
}  // namespace volador::jobs
