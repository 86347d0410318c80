#include "tune/execution/checkpoint_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/files/directory_parts.h"
#include "runtime/random.h"
#include "temporary_directory.h"

namespace volador::tune {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CheckpointStoreTest : public ::testing::Test {
 protected:
  CheckpointStoreTest() : store_(directory_.path() / "experiment") {}

  // Packs a directory with one file; sets `sha256_` to its checksum.
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
    VOLADOR_TRY(begin(*writer, bytes));
    for (size_t at = 0; at < bytes.size(); at += 7) VOLADOR_TRY(writer->append(std::string_view(bytes).substr(at, 7)));
    VOLADOR_TRY(writer->end_part());
    return writer->commit(WallTime(std::chrono::seconds(5)));
  }
  Result<void> begin(CheckpointWriter& writer, const std::string& archive) const {
    return writer.begin_part({sha256_, static_cast<int64_t>(archive.size())});
  }
  // Saves a directory with two large files and a small one in parts; returns the number of bytes written.
  int64_t save_large(const std::string& trial, int64_t step, char first, char second) {
    const fs::path source = directory_.path() / "large";
    fs::remove_all(source);
    write_text(source / "weights" / "first", noise(first));
    write_text(source / "weights" / "second", noise(second));
    write_text(source / "step", std::to_string(step));
    const auto parts = packer_.pack(source);
    EXPECT_TRUE(parts);
    auto writer = store_.begin(trial, step, 1);
    EXPECT_TRUE(writer);
    int64_t written = 0;
    for (const DirectoryPart& part : *parts) {
      if (writer->reuse(part)) continue;
      const std::string bytes = read_text(packer_.archive(part.sha256));
      EXPECT_TRUE(writer->begin_part(part) && writer->append(bytes) && writer->end_part());
      written += part.bytes;
    }
    const auto saved = writer->commit(WallTime());
    EXPECT_TRUE(saved);
    EXPECT_EQ(saved->received_bytes, written);
    EXPECT_EQ(saved->parts.size(), 3u);
    return written;
  }
  // 100 kB of incompressible data.
  static std::string noise(char seed) {
    SeededRandom random(static_cast<uint64_t>(seed));
    std::string text;
    while (text.size() < 100'000) text += static_cast<char>(random.below(256));
    return text;
  }

  std::vector<int64_t> steps() const {
    std::vector<int64_t> out;
    for (const auto& checkpoint : store_.list("3f2a").valid) out.push_back(checkpoint.step);
    return out;
  }
  std::string model_of(const StoredCheckpoint& checkpoint) {
    const fs::path target = directory_.path() / "restored";
    fs::remove_all(target);
    EXPECT_TRUE(unpack_archives(checkpoint.archives(), target));
    return read_text(target / (fs::exists(target / "model") ? "model" : "weights/first"));
  }

  TemporaryDirectory directory_;
  CheckpointStore store_;
  DirectoryPacker packer_{directory_.path() / "packed"};
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
    ASSERT_TRUE(begin(*writer, archive_of("weights")) && writer->append("half"));
    EXPECT_TRUE(steps().empty());
  }
  EXPECT_FALSE(store_.latest("3f2a").checkpoint);
  EXPECT_TRUE(fs::is_empty(directory_.path() / "experiment" / "3f2a"));
}

TEST_F(CheckpointStoreTest, ATornTransferIsRefused) {
  const std::string bytes = archive_of("weights");
  auto writer = store_.begin("3f2a", 4, 1);
  ASSERT_TRUE(writer && begin(*writer, bytes) && writer->append(bytes.substr(0, bytes.size() - 1)));
  const auto ended = writer->end_part();
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(ended.error().message, HasSubstr("torn"));
  { const auto dropped = std::move(*writer); }
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
  ASSERT_TRUE(old && begin(*old, bytes) && old->append(bytes) && old->end_part());
  store_.fence("3f2a", 2);
  const auto saved = old->commit({});
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
  EXPECT_EQ(clone->parts, saved->parts);
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

TEST_F(CheckpointStoreTest, WhatDidNotChangeIsNotWrittenAgain) {
  const int64_t all = save_large("3f2a", 1, 'a', 'b');
  EXPECT_GT(all, 200'000);
  const int64_t some = save_large("3f2a", 2, 'a', 'c');
  EXPECT_GT(some, 100'000);
  EXPECT_LT(some, 101'000) << "the second file and the small one";
  EXPECT_LT(save_large("77aa", 2, 'a', 'b'), 1'000) << "another trial's";
  // Each is independent: its source may be removed, even before a process that does not know of it.
  ASSERT_TRUE(store_.remove(*store_.find("3f2a", 1)));
  EXPECT_EQ(model_of(*store_.latest("3f2a").checkpoint), noise('a'));
  EXPECT_EQ(CheckpointStore(store_.experiment_directory()).latest("77aa").checkpoint->bytes(),
            store_.find("77aa", 2)->bytes());
  EXPECT_LT(save_large("3f2a", 3, 'a', 'b'), 1'000) << "the other trial's are still known";
  // Like keeping the last few of many.
  for (int64_t step = 4; step < 8; ++step) {
    EXPECT_LT(save_large("3f2a", step, 'a', 'b'), 1'000) << step;
    ASSERT_TRUE(store_.remove(*store_.find("3f2a", step - 1)));
  }
}

TEST_F(CheckpointStoreTest, APartThatIsGoneIsWrittenAgain) {
  save_large("3f2a", 1, 'a', 'b');
  fs::remove_all(directory_.path() / "experiment" / "3f2a" / "checkpoint_000001");
  EXPECT_GT(save_large("3f2a", 2, 'a', 'b'), 200'000);
  EXPECT_EQ(model_of(*store_.latest("3f2a").checkpoint), noise('a'));
}

TEST_F(CheckpointStoreTest, APartMayNotBeNamedAsAPath) {
  auto writer = store_.begin("3f2a", 1, 1);
  ASSERT_TRUE(writer);
  EXPECT_EQ(writer->begin_part({"../../x", 10}).error().code, ErrorCode::kInvalidArgument);
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
