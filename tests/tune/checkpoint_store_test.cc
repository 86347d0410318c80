#include "tune/checkpoint_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "temporary_directory.h"
#include "runtime/files/directory_archive.h"

namespace volador::tune {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CheckpointStoreTest : public ::testing::Test {
 protected:
  CheckpointStoreTest() : store_(directory_.path() / "experiment") {}

  // The archive of a directory with one file; `sha256_` is its checksum afterwards.
  std::string archive_of(const std::string& text) {
    const fs::path source = directory_.path() / "source";
    fs::remove_all(source);
    write_text(source / "model", text);
    const auto packed = pack_directory(source, directory_.path() / "packed.vla");
    EXPECT_TRUE(packed);
    sha256_ = packed->sha256;
    return read_text(directory_.path() / "packed.vla");
  }
  Result<StoredCheckpoint> save(int64_t step, uint64_t attempt, const std::string& text) {
    const std::string bytes = archive_of(text);
    auto writer = store_.begin("3f2a", step, attempt);
    if (!writer) return make_error(writer.error());
    for (size_t at = 0; at < bytes.size(); at += 7) VOLADOR_TRY(writer->append(std::string_view(bytes).substr(at, 7)));
    return writer->commit(sha256_, WallTime(std::chrono::seconds(5)));
  }
  std::vector<int64_t> steps() const {
    std::vector<int64_t> out;
    for (const auto& checkpoint : store_.list("3f2a").valid) out.push_back(checkpoint.step);
    return out;
  }
  std::string model_of(const StoredCheckpoint& checkpoint) {
    const fs::path target = directory_.path() / "restored";
    fs::remove_all(target);
    EXPECT_TRUE(unpack_archive(checkpoint.archive(), target));
    return read_text(target / "model");
  }

  TemporaryDirectory directory_;
  CheckpointStore store_;
  std::string sha256_;
};

TEST_F(CheckpointStoreTest, ACommittedCheckpointIsListedAndRestores) {
  const auto saved = save(10, 1, "weights");
  ASSERT_TRUE(saved) << saved.error().message;
  EXPECT_EQ(saved->directory.filename(), "checkpoint_000010");
  const auto latest = store_.latest("3f2a");
  ASSERT_TRUE(latest.checkpoint);
  EXPECT_EQ(latest.checkpoint->step, 10);
  EXPECT_EQ(latest.checkpoint->attempt, 1U);
  EXPECT_EQ(latest.checkpoint->saved, WallTime(std::chrono::seconds(5)));
  EXPECT_EQ(model_of(*latest.checkpoint), "weights");
}

TEST_F(CheckpointStoreTest, AnUncommittedCheckpointDoesNotCount) {
  {
    auto writer = store_.begin("3f2a", 4, 1);
    ASSERT_TRUE(writer);
    ASSERT_TRUE(writer->append("half"));
    EXPECT_TRUE(steps().empty());
  }
  EXPECT_FALSE(store_.latest("3f2a").checkpoint);
  EXPECT_TRUE(fs::is_empty(directory_.path() / "experiment" / "3f2a"));
}

TEST_F(CheckpointStoreTest, ATornTransferIsRefused) {
  const std::string bytes = archive_of("weights");
  auto writer = store_.begin("3f2a", 4, 1);
  ASSERT_TRUE(writer && writer->append(bytes.substr(0, bytes.size() - 1)));
  const auto saved = writer->commit(sha256_, {});
  ASSERT_FALSE(saved);
  EXPECT_EQ(saved.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(saved.error().message, HasSubstr("torn"));
  EXPECT_TRUE(fs::is_empty(directory_.path() / "experiment" / "3f2a"));
}

TEST_F(CheckpointStoreTest, TheLatestSkipsTornOnesAndSaysSo) {
  ASSERT_TRUE(save(1, 1, "one"));
  ASSERT_TRUE(save(2, 1, "two"));
  ASSERT_TRUE(save(3, 1, "three"));
  ASSERT_TRUE(save(4, 1, "four"));
  const fs::path trial = directory_.path() / "experiment" / "3f2a";
  std::string bytes = read_text(trial / "checkpoint_000004" / "archive.vla");
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
  write_text(trial / "checkpoint_000004" / "archive.vla", bytes);
  write_text(trial / "checkpoint_000003" / "archive.vla", "short");
  fs::remove(trial / "checkpoint_000002" / "checkpoint.json");
  const auto latest = store_.latest("3f2a");
  ASSERT_TRUE(latest.checkpoint);
  EXPECT_EQ(latest.checkpoint->step, 1);
  EXPECT_EQ(latest.torn.size(), 3U);
}

TEST_F(CheckpointStoreTest, AStaleAttemptIsRefusedAtBeginAndAtCommit) {
  const std::string bytes = archive_of("old");
  auto old = store_.begin("3f2a", 5, 1);
  ASSERT_TRUE(old && old->append(bytes));
  store_.fence("3f2a", 2);
  const auto saved = old->commit(sha256_, {});
  ASSERT_FALSE(saved);
  EXPECT_EQ(saved.error().code, ErrorCode::kPermissionDenied);
  EXPECT_FALSE(store_.begin("3f2a", 6, 1));
  EXPECT_TRUE(save(5, 2, "new"));
  EXPECT_TRUE(store_.begin("9999", 5, 1));  // Another trial.
  EXPECT_THAT(steps(), ElementsAre(5));
}

TEST_F(CheckpointStoreTest, TheSameStepIsReplacedByTheNewerAttempt) {
  ASSERT_TRUE(save(5, 1, "first"));
  ASSERT_TRUE(save(5, 2, "second"));
  EXPECT_THAT(steps(), ElementsAre(5));
  EXPECT_EQ(model_of(*store_.latest("3f2a").checkpoint), "second");
}

TEST_F(CheckpointStoreTest, ACloneOutlivesWhatItWasMadeFrom) {
  const auto saved = save(10, 1, "weights");
  ASSERT_TRUE(saved);
  const auto clone = store_.clone(*saved, "77aa", 3, WallTime(std::chrono::seconds(9)));
  ASSERT_TRUE(clone) << clone.error().message;
  EXPECT_EQ(clone->sha256, saved->sha256);
  ASSERT_TRUE(store_.remove(*saved));
  const auto latest = store_.latest("77aa");
  ASSERT_TRUE(latest.checkpoint);
  EXPECT_EQ(latest.checkpoint->step, 10);
  EXPECT_EQ(latest.checkpoint->attempt, 3u);
  EXPECT_EQ(model_of(*latest.checkpoint), "weights");
  EXPECT_FALSE(store_.clone(*saved, "77aa", 3, WallTime()));
  EXPECT_EQ(store_.list("77aa").valid.size(), 1u);
  EXPECT_FALSE(store_.clone(*clone, "77aa", 2, WallTime())) << "a stale attempt";
}

TEST_F(CheckpointStoreTest, RemovingTwiceIsNoError) {
  const auto saved = save(5, 1, "first");
  ASSERT_TRUE(saved);
  ASSERT_TRUE(save(6, 1, "other"));
  EXPECT_TRUE(store_.remove(*saved));
  EXPECT_TRUE(store_.remove(*saved));
  EXPECT_THAT(steps(), ElementsAre(6));
}

TEST_F(CheckpointStoreTest, WhatAnEarlierProcessLeftHalfWrittenIsRemoved) {
  ASSERT_TRUE(save(5, 1, "first"));
  const fs::path trial = directory_.path() / "experiment" / "3f2a";
  write_text(trial / ".checkpoint_000006.partial" / "archive.vla", "half");
  store_.remove_partial("3f2a");
  EXPECT_FALSE(fs::exists(trial / ".checkpoint_000006.partial"));
  EXPECT_THAT(steps(), ElementsAre(5));
}

}  // namespace
}  // namespace volador::tune
