#include "head/experiments/experiment_notes.h"

#include <gtest/gtest.h>

#include "runtime/protocol/volador/v1/cluster.pb.h"

namespace volador::head {
namespace {

v1::AnnotateExperimentRequest tags(std::vector<std::string> add, std::vector<std::string> remove = {}) {
  v1::AnnotateExperimentRequest request;
  for (std::string& tag : add) request.add_add_tags(std::move(tag));
  for (std::string& tag : remove) request.add_remove_tags(std::move(tag));
  return request;
}

std::vector<std::string> tags_of(const ExperimentNotes& notes, const std::string& name, const std::string& directory) {
  const auto* record = notes.find(name, directory);
  return record == nullptr ? std::vector<std::string>{}
                           : std::vector<std::string>(record->tags().begin(), record->tags().end());
}

using Words = std::vector<std::string>;

TEST(ExperimentNotes, TagsAreKeptInTheOrderOfTheirNamesAndAddedOnce) {
  ExperimentNotes notes;
  const auto change = notes.annotate("digits", "/runs/1", tags({"slow", "best", "best"}));
  ASSERT_TRUE(change);
  EXPECT_EQ(change->in_words, (Words{"tag slow", "tag best"}));
  EXPECT_EQ(tags_of(notes, "digits", "/runs/1"), (Words{"best", "slow"}));
  const auto again = notes.annotate("digits", "/runs/1", tags({"best"}, {"not there"}));
  ASSERT_TRUE(again);
  EXPECT_FALSE(again->journal);
  EXPECT_TRUE(again->in_words.empty());
}

TEST(ExperimentNotes, WhatWasSaidOfARunIsNotSaidOfALaterOneOfItsName) {
  ExperimentNotes notes;
  ASSERT_TRUE(notes.annotate("digits", "/runs/1", tags({"best"})));
  EXPECT_EQ(notes.find("digits", "/runs/2"), nullptr);
  ASSERT_TRUE(notes.annotate("digits", "/runs/2", tags({"new"})));
  EXPECT_EQ(tags_of(notes, "digits", "/runs/2"), (Words{"new"}));
  EXPECT_EQ(notes.find("digits", "/runs/1"), nullptr);
}

TEST(ExperimentNotes, RowsOfTheJournalBringEverythingBack) {
  ExperimentNotes notes;
  v1::AnnotateExperimentRequest request = tags({"best"});
  request.set_note("lr was too high\nbefore");
  request.set_archived(true);
  const auto change = notes.annotate("digits", "/runs/1", request);
  ASSERT_TRUE(change && change->journal && change->journal->value);
  EXPECT_EQ(change->journal->table, kExperimentNotesTable);
  ExperimentNotes later;
  ASSERT_TRUE(later.load(change->journal->key, *change->journal->value));
  const auto* record = later.find("digits", "/runs/1");
  ASSERT_NE(record, nullptr);
  EXPECT_EQ(record->note(), "lr was too high\nbefore");
  EXPECT_TRUE(record->archived());
  EXPECT_FALSE(later.load("digits", "\xff\xff"));
}

TEST(ExperimentNotes, ARecordThatSaysNothingMoreLeavesTheJournal) {
  ExperimentNotes notes;
  ASSERT_TRUE(notes.annotate("digits", "/runs/1", tags({"best"})));
  const auto change = notes.annotate("digits", "/runs/1", tags({}, {"best"}));
  ASSERT_TRUE(change && change->journal);
  EXPECT_FALSE(change->journal->value);
  EXPECT_EQ(notes.find("digits", "/runs/1"), nullptr);
}

TEST(ExperimentNotes, WhatBreaksALimitChangesNothing) {
  ExperimentNotes notes;
  ASSERT_TRUE(notes.annotate("digits", "/runs/1", tags({"best"})));
  for (const std::string& bad :
       {std::string(), std::string("two words"), std::string("a,b"), std::string(65, 'x'), std::string("a\tb")}) {
    const auto change = notes.annotate("digits", "/runs/1", tags({"good", bad}, {"best"}));
    ASSERT_FALSE(change);
    EXPECT_EQ(change.error().code, ErrorCode::kInvalidArgument);
  }
  std::vector<std::string> many;
  for (size_t n = 0; n < ExperimentNotes::kTagsMax; ++n) many.push_back("t" + std::to_string(n));
  EXPECT_FALSE(notes.annotate("digits", "/runs/1", tags(many)));
  v1::AnnotateExperimentRequest request;
  request.set_note(std::string(ExperimentNotes::kNoteBytesMax + 1, 'x'));
  EXPECT_FALSE(notes.annotate("digits", "/runs/1", request));
  EXPECT_EQ(tags_of(notes, "digits", "/runs/1"), (Words{"best"}));
}

}  // namespace
}  // namespace volador::head
