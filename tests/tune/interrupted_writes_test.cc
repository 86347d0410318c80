#include "tune/results/interrupted_writes.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>

#include "runtime/files/durable_file.h"
#include "temporary_directory.h"
#include "tune/results/experiment_journal.h"

namespace volador::tune {
namespace {

namespace fs = std::filesystem;

class InterruptedWrites : public ::testing::Test {
 protected:
  // A run with a complete checkpoint and a partial one.
  fs::path add_run(const std::string& name) {
    const fs::path run = storage() / name;
    write_text(journal_path(run), "journal");
    write_text(run / "t1" / "checkpoint_000010" / "archive.vla", "whole");
    write_text(run / "t1" / ".checkpoint_000020.partial" / "archive.vla", "half");
    write_text(run / "t1" / ".checkpoint_000005.removed" / "archive.vla", "half");
    write_text(run / "t2" / ".artifacts_1_3.vla", "half");
    return run;
  }
  static bool is_clean(const fs::path& run) {
    return !fs::exists(run / "t1" / ".checkpoint_000020.partial") &&
           !fs::exists(run / "t1" / ".checkpoint_000005.removed") && !fs::exists(run / "t2" / ".artifacts_1_3.vla");
  }
  const fs::path& storage() const { return directory_.path(); }

  TemporaryDirectory directory_;
};

TEST_F(InterruptedWrites, GoFromEarlierRunsOfTheExperiment) {
  const fs::path run = add_run("digits_2026-01-01_10-00-00");
  EXPECT_EQ(remove_interrupted_writes(storage(), "digits", storage() / "digits_2026-01-02_10-00-00"), 3);
  EXPECT_TRUE(is_clean(run));
  EXPECT_TRUE(fs::exists(run / "t1" / "checkpoint_000010" / "archive.vla"));
}

TEST_F(InterruptedWrites, StayInTheOwnRunInOthersAndInThoseThatAreDriven) {
  const fs::path own = add_run("digits_2026-01-02_10-00-00");
  const fs::path other = add_run("letters_2026-01-01_10-00-00");
  const fs::path driven = add_run("digits_2026-01-01_10-00-00");
  const auto journal = FileHandle::open(journal_path(driven), O_RDONLY);
  ASSERT_TRUE(journal);
  ASSERT_EQ(::flock(journal->get(), LOCK_EX), 0);
  EXPECT_EQ(remove_interrupted_writes(storage(), "digits", own), 0);
  EXPECT_FALSE(is_clean(own) || is_clean(other) || is_clean(driven));
}

TEST_F(InterruptedWrites, OnlyTheNewestRunsAreLookedAt) {
  const fs::path older = add_run("digits_2026-01-01_10-00-00");
  const fs::path newer = add_run("digits_2026-01-02_10-00-00");
  EXPECT_EQ(remove_interrupted_writes(storage(), "digits", storage() / "digits_2026-01-03_10-00-00", 1), 3);
  EXPECT_TRUE(is_clean(newer));
  EXPECT_FALSE(is_clean(older));
}

TEST_F(InterruptedWrites, AFolderThatIsNotThereHasNone) {
  EXPECT_EQ(remove_interrupted_writes(storage() / "none", "digits", storage()), 0);
}

}  // namespace
}  // namespace volador::tune
