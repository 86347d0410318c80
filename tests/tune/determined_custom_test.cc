#include "tune/determined/determined_custom.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace volador::tune::determined {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Kind = SearchEvent::Kind;

std::unique_ptr<Search> custom_search() {
  return Search::create({.name = "custom"}, Hyperparameters::from(Config::map()).value(), 1).value();
}
std::vector<Kind> kinds(const Search& search) {
  std::vector<Kind> out;
  for (const SearchEvent& event : search.custom()->events()) out.push_back(event.kind);
  return out;
}
Create make(const std::string& request) {
  return {.request = request, .trial_seed = 42, .hyperparameters = {{"x", 1}}};
}

TEST(DeterminedCustom, ItsProgramReadsEventsAndAnswersThem) {
  const auto search = custom_search();
  EXPECT_TRUE(search->initial_operations().empty());
  EXPECT_TRUE(search->initial_operations().empty());
  EXPECT_THAT(kinds(*search), ElementsAre(Kind::kInitialOperations));
  const Operations made = search->answer(1, {make("a"), ValidateAfter{"a", 10}, make("b")}, 0.25).value();
  EXPECT_EQ(made.size(), 3U);
  EXPECT_EQ(search->progress(), 0.25);
  EXPECT_THAT(kinds(*search), ElementsAre());

  search->created("a");
  search->trained("a", 4);
  search->trained("a", 7);
  EXPECT_TRUE(search->validated("a", 9, 0.5).empty());
  search->validated("a", 10, 0.5);
  search->validated("a", 10, 0.6);  // A repeated report.
  search->exited("b", ExitReason::kInvalidHp);
  search->closed("b");
  EXPECT_THAT(kinds(*search), ElementsAre(Kind::kTrialCreated, Kind::kTrialProgress, Kind::kValidationCompleted,
                                          Kind::kTrialCreated, Kind::kTrialExitedEarly, Kind::kTrialClosed));
  EXPECT_EQ(to_config(search->custom()->events()[2]).to_json(),
            R"({"id":5,"event":"validation_completed","request":"a","length":10,"metric":0.5})");
  EXPECT_EQ(to_config(search->custom()->events()[1]).to_json(),
            R"({"id":4,"event":"trial_progress","request":"a","units":7.0})");

  // Part of the events; the other trial has ended.
  const Operations more = search->answer(5, {ValidateAfter{"a", 20}, ValidateAfter{"b", 20}, Close{"b"}}).value();
  EXPECT_EQ(more.size(), 1U);
  EXPECT_TRUE(search->answer(5, {Close{"a"}}).value().empty()) << "a repeated answer";
  search->validated("a", 0.4);
  EXPECT_FALSE(search->is_shut_down());
  const Operations last = search->answer(search->custom()->last_event(), {Close{"a"}, Shutdown{}}).value();
  EXPECT_EQ(last.size(), 2U);
  EXPECT_TRUE(search->is_shut_down());
  EXPECT_TRUE(search->closed("a").empty()) << "no second Shutdown";
  EXPECT_EQ(search->progress(), 1);
}

TEST(DeterminedCustom, RefusesAnAnswerAsAWhole) {
  const auto search = custom_search();
  search->initial_operations();
  const auto message = [&](int64_t event, const Operations& operations, std::optional<double> progress = {}) {
    return search->answer(event, operations, progress).error().message;
  };
  EXPECT_THAT(message(2, {}), HasSubstr("event 2: expected at most 1"));
  EXPECT_THAT(message(1, {make("a"), make("a")}), HasSubstr("create of trial \"a\": expected a new id"));
  EXPECT_THAT(message(1, {make("")}), HasSubstr("create of trial \"\""));
  EXPECT_THAT(message(1, {ValidateAfter{"a", 1}}), HasSubstr("create the trial first"));
  EXPECT_THAT(message(1, {make("a"), ValidateAfter{"a", 0}}), HasSubstr("at least 1"));
  EXPECT_THAT(message(1, {make("a"), ValidateAfter{"a", 1}, ValidateAfter{"a", 2}}), HasSubstr("length before"));
  EXPECT_THAT(message(1, {make("a"), Close{"a"}, ValidateAfter{"a", 2}}), HasSubstr("closed before"));
  EXPECT_THAT(message(1, {Close{"a"}}), HasSubstr("create the trial first"));
  EXPECT_THAT(message(1, {Shutdown{}, make("a")}), HasSubstr("no operation after it"));
  EXPECT_THAT(message(1, {}, 1.5), HasSubstr("progress: expected 0 to 1, got 1.5"));
  EXPECT_EQ(search->counts().requested, 0);
  EXPECT_TRUE(search->answer(1, {make("a")}).has_value());

  const auto random = Search::create({.name = "random"}, Hyperparameters::from(Config::map()).value(), 1).value();
  EXPECT_THAT(random->answer(1, {}).error().message, HasSubstr("searcher.name is random"));
  EXPECT_EQ(random->custom(), nullptr);
}

TEST(DeterminedCustom, GoesOnFromASnapshot) {
  const auto search = custom_search();
  search->initial_operations();
  ASSERT_TRUE(search->answer(1, {make("a"), ValidateAfter{"a", 10}, make("b"), Close{"b"}}, 0.5).has_value());
  search->trained("a", 3);
  search->validated("a", 10, std::numeric_limits<double>::quiet_NaN());
  search->created("a");
  search->exited("b", ExitReason::kUserCancelled);
  const std::string state = search->snapshot();
  const auto copy = custom_search();
  ASSERT_TRUE(copy->restore(state).has_value());
  EXPECT_EQ(copy->snapshot(), state);
  EXPECT_EQ(copy->custom()->events().size(), search->custom()->events().size());
  for (Search* one : {search.get(), copy.get()}) {
    one->closed("b");
    ASSERT_TRUE(one->answer(one->custom()->last_event(), {Close{"a"}, Shutdown{}}).has_value());
  }
  EXPECT_EQ(copy->snapshot(), search->snapshot());
}

}  // namespace
}  // namespace volador::tune::determined
