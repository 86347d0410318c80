#include "tune/results/mirror_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace volador::tune {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(MirrorPlan, WritesInProgressAndRequestsStayHere) {
  for (const char* path : {"journal.vlj", "experiment_state.json", "3f2a/result.json",
                           "3f2a/checkpoint_000010/archive.vla", "storage.json"})
    EXPECT_TRUE(MirrorPlan::belongs(path)) << path;
  for (const char* path : {".mirror", ".mirror/journal.vlj", "requests/stop-1.json", "3f2a/.checkpoint_000010.partial",
                           "3f2a/.x/archive.vla", "experiment_state.json.partial"})
    EXPECT_FALSE(MirrorPlan::belongs(path)) << path;
}

TEST(MirrorPlan, DataGoesBeforeManifestsBeforeTheJournal) {
  MirrorPlan plan;
  const std::vector<SeenFile> seen{{"a/checkpoint_000001/archive.vla", 5, 1},
                                   {"a/checkpoint_000001/checkpoint.json", 2, 1},
                                   {"journal.vlj", 9, 1},
                                   {"searcher.state.json", 3, 1}};
  const MirrorBatch batch = plan.next(seen, false);
  EXPECT_THAT(batch.data, ElementsAre("a/checkpoint_000001/archive.vla"));
  EXPECT_THAT(batch.marks, ElementsAre("a/checkpoint_000001/checkpoint.json"));
  EXPECT_TRUE(batch.journal);
  EXPECT_THAT(batch.states, ElementsAre("searcher.state.json"));
  plan.stored(seen, batch);
  EXPECT_TRUE(plan.next(seen, false).empty());
}

TEST(MirrorPlan, MarksOfTrainingRunsAreBesideTheirCheckpoints) {
  const MirrorBatch batch = MirrorPlan().next({{"checkpoints/checkpoint_000010.json", 9, 1},
                                               {"checkpoints/checkpoint_000010/config.json", 5, 1},
                                               {"train-3f2a/params.json", 2, 1}},
                                              false);
  EXPECT_THAT(batch.marks, ElementsAre("checkpoints/checkpoint_000010.json"));
  EXPECT_THAT(batch.data, ElementsAre("checkpoints/checkpoint_000010/config.json", "train-3f2a/params.json"));
}

TEST(MirrorPlan, OnlyWhatChangedIsSentAgain) {
  MirrorPlan plan;
  std::vector<SeenFile> seen{{"a/result.json", 5, 1}, {"b/result.json", 5, 1}, {"journal.vlj", 9, 1}};
  plan.stored(seen, plan.next(seen, false));
  seen[0].bytes = 6;
  seen[1].changed_ns = 2;
  const MirrorBatch batch = plan.next(seen, false);
  EXPECT_THAT(batch.data, ElementsAre("a/result.json", "b/result.json"));
  EXPECT_FALSE(batch.journal);
  // Without success everything is due again.
  EXPECT_THAT(plan.next(seen, false).data, ElementsAre("a/result.json", "b/result.json"));
}

TEST(MirrorPlan, WhatIsGoneIsRemovedOnceTheJournalOfTheCopyIsNewer) {
  MirrorPlan plan;
  const std::vector<SeenFile> two{
      {"a/checkpoint_000001/archive.vla", 5, 1}, {"a/checkpoint_000001/checkpoint.json", 2, 1}, {"journal.vlj", 9, 1}};
  const std::vector<SeenFile> later{{"journal.vlj", 10, 2}};
  plan.stored(two, plan.next(two, false));
  const MirrorBatch first = plan.next(later, false);
  EXPECT_THAT(first.removed_marks, IsEmpty());
  EXPECT_THAT(plan.next(later, true).removed_marks, ElementsAre("a/checkpoint_000001/checkpoint.json"));
  plan.stored(later, first);
  const MirrorBatch second = plan.next(later, false);
  EXPECT_THAT(second.removed_marks, ElementsAre("a/checkpoint_000001/checkpoint.json"));
  EXPECT_THAT(second.removed_data, ElementsAre("a/checkpoint_000001/archive.vla"));
  plan.stored(later, second);
  EXPECT_TRUE(plan.next(later, false).empty());
}

}  // namespace
}  // namespace volador::tune
