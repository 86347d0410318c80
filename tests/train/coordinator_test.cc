#include "train/core/coordinator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

namespace volador::train {
namespace {

using namespace elastic;  // NOLINT
using namespace std::chrono_literals;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Phase = Coordinator::Phase;
using Ids = std::vector<MemberId>;

// A coordinator with its time and the actions of the last event.
class Driver {
 public:
  explicit Driver(const ElasticOptions& options) : core_(Coordinator::create(options).value()) {
    actions_ = core_.begin(now_);
    check();
  }

  Driver& send(const Event& event) {
    actions_ = core_.handle(now_, event);
    check();
    return *this;
  }
  Driver& after(Coordinator::Time time) {
    now_ += time;
    return send(Tick{});
  }
  // Ticks every 100 ms; all actions are kept.
  Driver& ticks(Coordinator::Time time) {
    Actions all;
    for (const auto end = now_ + time; now_ < end;) {
      after(100ms);
      all.insert(all.end(), actions_.begin(), actions_.end());
    }
    actions_ = std::move(all);
    return *this;
  }

  void ready(const Ids& ids) {
    for (const MemberId id : ids) send(MemberReady{id, "n" + std::to_string(id)});
  }
  void joined(const Ids& ids, int64_t step) {
    for (const MemberId id : ids) send(Joined{id, core_.generation(), {step}});
  }
  void stopped(const Ids& ids, int64_t step, Stop why) {
    for (const MemberId id : ids) send(Stopped{id, core_.generation(), core_.segment(), {step}, why});
  }
  // The status of all these members in the round that is asked for next.
  void statuses(const std::vector<Status>& answers, Coordinator::Time time = 1s) {
    after(time);
    const auto asked = get<AskStatus>();
    ASSERT_TRUE(asked.has_value());
    for (Status status : answers) {
      status.generation = core_.generation();
      status.round = asked->round;
      send(status);
    }
  }
  void silence(const Ids& ids) {
    const auto asked = get<AskStatus>();
    ASSERT_TRUE(asked.has_value());
    for (const MemberId id : ids) send(NoStatus{id, asked->round});
  }

  // The first action of this type in the last actions.
  template <class T>
  std::optional<T> get() const {
    for (const Action& action : actions_)
      if (const T* found = std::get_if<T>(&action)) return *found;
    return std::nullopt;
  }
  template <class T>
  bool has() const {
    return get<T>().has_value();
  }
  std::string failure() const { return has<Fail>() ? to_string(get<Fail>()->error) : ""; }

  Coordinator& core() { return core_; }
  const Actions& actions() const { return actions_; }
  Coordinator::Time now() const { return now_; }

 private:
  void check() {
    core_.check_invariants();
    EXPECT_FALSE(core_.explain().empty());
    const auto next = core_.next_wakeup();
    EXPECT_TRUE(!next || *next > now_);
  }

  Coordinator::Time now_ = 1s;
  Coordinator core_;
  Actions actions_;
};

// A run of `world` members that trains at `step` in generation 1.
Driver trained(const ElasticOptions& options, int world, int64_t step) {
  Driver driver(options);
  Ids ids;
  for (int i = 1; i <= world; ++i) ids.push_back(static_cast<MemberId>(i));
  driver.ready(ids);
  driver.send(SegmentStart{1000});
  EXPECT_TRUE(driver.has<Form>());
  driver.joined(ids, 0);
  EXPECT_TRUE(driver.has<elastic::Run>());
  std::vector<Status> statuses;
  for (const MemberId id : ids) statuses.push_back({.id = id, .progress = {step}});
  driver.statuses(statuses);
  return driver;
}

TEST(Coordinator, RejectsOptionsOutOfRange) {
  const auto message = [](const ElasticOptions& options) {
    const auto made = Coordinator::create(options);
    return made ? std::string() : to_string(made.error());
  };
  EXPECT_THAT(message({.min_workers = 0}), HasSubstr("min_workers: expected at least 1, got 0"));
  EXPECT_THAT(message({.min_workers = 3, .max_workers = 2}),
              HasSubstr("max_workers: expected at least min_workers = 3"));
  EXPECT_THAT(message({.max_failures = -2}), HasSubstr("max_failures"));
  EXPECT_THAT(message({.start_timeout = 0s}), HasSubstr("start_timeout"));
  EXPECT_THAT(message({.grow_wait = -1s}), HasSubstr("grow_wait"));
  EXPECT_THAT(message({.hang_factor = 0.5}), HasSubstr("hang_factor"));
  EXPECT_EQ(message({}), "");
}

TEST(Coordinator, SpawnsFormsRunsAndFinishes) {
  Driver driver({.min_workers = 2, .max_workers = 2});
  EXPECT_THAT(driver.get<Spawn>()->members, ElementsAre(1, 2));
  driver.send(SegmentStart{10});
  EXPECT_EQ(driver.core().phase(), Phase::kWaiting);
  EXPECT_THAT(driver.core().explain(), HasSubstr("0 ready, 2 starting, at least 2 needed"));
  driver.ready({2, 1});
  const auto form = driver.get<Form>();
  ASSERT_TRUE(form.has_value());
  EXPECT_EQ(form->generation, 1U);
  EXPECT_THAT(form->members, ElementsAre(1, 2));
  EXPECT_EQ(form->source, MemberId{1});
  EXPECT_THAT(form->receivers, ElementsAre(2));
  driver.joined({1}, 0);
  EXPECT_FALSE(driver.has<elastic::Run>());
  driver.joined({2}, 0);
  EXPECT_THAT(driver.get<elastic::Run>()->members, ElementsAre(1, 2));
  driver.stopped({1}, 10, Stop::kFinished);
  EXPECT_FALSE(driver.has<Finish>());
  driver.stopped({2}, 10, Stop::kFinished);
  ASSERT_EQ(driver.get<Finish>()->members.size(), 2U);
  EXPECT_EQ(driver.get<Finish>()->members[1].progress.step, 10);
  EXPECT_EQ(driver.core().phase(), Phase::kIdle);
}

TEST(Coordinator, KeepsTheGenerationBetweenSegments) {
  Driver driver = trained({.min_workers = 2, .max_workers = 2}, 2, 5);
  driver.stopped({1, 2}, 10, Stop::kFinished);
  driver.send(SegmentStart{10});
  EXPECT_FALSE(driver.has<Form>());
  EXPECT_EQ(driver.get<elastic::Run>()->generation, 1U);
  EXPECT_EQ(driver.get<elastic::Run>()->segment, 2U);
}

TEST(Coordinator, IgnoresARepeatedFinishOfTheSegmentBefore) {
  Driver driver = trained({.min_workers = 1, .max_workers = 1}, 1, 5);
  driver.stopped({1}, 10, Stop::kFinished);
  driver.send(SegmentStart{10});
  driver.send(Stopped{1, 1, 1, {10}, Stop::kFinished});
  EXPECT_EQ(driver.core().phase(), Phase::kRunning);
  driver.stopped({1}, 20, Stop::kFinished);
  EXPECT_TRUE(driver.has<Finish>());
}

TEST(Coordinator, BeginsWithMinWorkersAndGrowsAtAStepBoundary) {
  Driver driver({.min_workers = 1, .max_workers = 3});
  driver.send(SegmentStart{100});
  driver.ready({2});
  EXPECT_THAT(driver.get<Form>()->members, ElementsAre(2));
  driver.joined({2}, 0);
  ASSERT_TRUE(driver.has<elastic::Run>());
  driver.ready({3});
  EXPECT_THAT(driver.get<Pause>()->members, ElementsAre(2));
  driver.ready({1});  // During the pause: one Form takes both in, older first.
  EXPECT_THAT(driver.actions(), IsEmpty());
  driver.stopped({2}, 4, Stop::kPaused);
  const auto form = driver.get<Form>();
  EXPECT_EQ(form->generation, 2U);
  EXPECT_THAT(form->members, ElementsAre(2, 1, 3));
  EXPECT_EQ(form->source, MemberId{2});
  EXPECT_THAT(form->receivers, ElementsAre(1, 3));
}

TEST(Coordinator, WaitsForFurtherWorkersForGrowWait) {
  Driver driver({.min_workers = 1, .max_workers = 3, .grow_wait = 2s});
  driver.send(SegmentStart{100});
  driver.ready({1});
  EXPECT_EQ(driver.core().phase(), Phase::kWaiting);
  driver.ticks(1900ms);
  EXPECT_EQ(driver.core().phase(), Phase::kWaiting);
  driver.after(100ms);
  EXPECT_THAT(driver.get<Form>()->members, ElementsAre(1));
  driver.joined({1}, 0);
  driver.ready({2});
  EXPECT_FALSE(driver.has<Pause>());
  EXPECT_EQ(driver.core().next_wakeup(), driver.now() + 1s);  // Status; the newcomer waits 2 s.
  driver.ready({3});                                          // No other member is starting.
  EXPECT_TRUE(driver.has<Pause>());
}

TEST(Coordinator, GoesOnWithTheSurvivorsAtOnce) {
  Driver driver = trained({.min_workers = 2, .max_workers = 3}, 3, 7);
  driver.send(MemberLost{1, "killed by signal 9"});
  EXPECT_THAT(driver.get<Abort>()->members, ElementsAre(2, 3));
  EXPECT_THAT(driver.get<Spawn>()->members, ElementsAre(4));
  EXPECT_THAT(driver.core().explain(), HasSubstr("killed by signal 9"));
  driver.send(MemberLost{1, "again"});
  EXPECT_THAT(driver.actions(), IsEmpty());
  driver.stopped({2}, 7, Stop::kAborted);
  EXPECT_FALSE(driver.has<Form>());
  driver.stopped({3}, 8, Stop::kAborted);
  const auto form = driver.get<Form>();
  ASSERT_TRUE(form.has_value());
  EXPECT_THAT(form->members, ElementsAre(2, 3));
  EXPECT_EQ(form->source, MemberId{3});
  EXPECT_THAT(form->receivers, ElementsAre(2));
  driver.joined({2, 3}, 8);
  EXPECT_TRUE(driver.has<elastic::Run>());
  EXPECT_EQ(driver.core().failures(), 1);
}

TEST(Coordinator, CopiesNothingAmongEqualSurvivors) {
  Driver driver = trained({.min_workers = 1, .max_workers = 3}, 3, 7);
  driver.send(MemberLost{2, "died"});
  driver.stopped({3, 1}, 7, Stop::kAborted);
  EXPECT_EQ(driver.get<Form>()->source, MemberId{1});
  EXPECT_THAT(driver.get<Form>()->receivers, IsEmpty());
}

TEST(Coordinator, AbortsTheOthersWhenAMemberNoticesTheLossFirst) {
  Driver driver = trained({.min_workers = 2, .max_workers = 3}, 3, 7);
  driver.stopped({1}, 7, Stop::kAborted);
  EXPECT_THAT(driver.get<Abort>()->members, ElementsAre(2, 3));
  driver.stopped({2}, 7, Stop::kAborted);
  EXPECT_FALSE(driver.has<Form>());
  driver.send(MemberLost{3, "node lost"});
  EXPECT_THAT(driver.get<Form>()->members, ElementsAre(1, 2));
}

TEST(Coordinator, FormsAgainAfterAnAbortWithoutALoss) {
  Driver driver = trained({.min_workers = 2, .max_workers = 2}, 2, 7);
  driver.stopped({1, 2}, 7, Stop::kAborted);
  EXPECT_THAT(driver.get<Form>()->members, ElementsAre(1, 2));
  EXPECT_EQ(driver.core().failures(), 0);
}

TEST(Coordinator, FailsWhenGroupsNeverHold) {
  Driver driver({.min_workers = 2, .max_workers = 2});
  driver.send(SegmentStart{});
  driver.ready({1, 2});
  int forms = 1;
  for (int i = 0; i < 10000 && driver.core().phase() != Phase::kFailed; ++i) {
    if (driver.core().phase() == Phase::kForming) {
      const uint64_t generation = driver.core().generation();
      driver.send(JoinFailed{1, generation, "connection refused"});
      driver.send(Stopped{2, generation, 0, {}, Stop::kAborted});
      forms += driver.has<Form>();
    } else {
      driver.after(100ms);
      forms += driver.has<Form>();
    }
  }
  EXPECT_THAT(driver.failure(), HasSubstr("connection refused"));
  EXPECT_THAT(driver.failure(), HasSubstr("kUnavailable"));
  EXPECT_LT(forms, 30);
  EXPECT_GT(forms, 5);
}

TEST(Coordinator, FixedWorldWaitsForTheReplacement) {
  Driver driver = trained({.min_workers = 2, .max_workers = 2}, 2, 7);
  driver.send(MemberLost{1, "died"});
  driver.stopped({2}, 7, Stop::kAborted);
  EXPECT_EQ(driver.core().phase(), Phase::kWaiting);
  driver.ready({3});
  EXPECT_THAT(driver.get<Form>()->members, ElementsAre(2, 3));
  EXPECT_EQ(driver.get<Form>()->source, MemberId{2});
}

TEST(Coordinator, FailsWithNumbersAfterStartTimeout) {
  Driver driver = trained({.min_workers = 2, .max_workers = 2}, 2, 7);
  driver.send(MemberLost{1, "out of memory"});
  driver.stopped({2}, 7, Stop::kAborted);
  driver.after(59s);
  EXPECT_EQ(driver.core().phase(), Phase::kWaiting);
  EXPECT_EQ(driver.core().next_wakeup(), driver.now() + 1s);
  driver.after(1s);
  EXPECT_THAT(driver.failure(), HasSubstr("1 of the 2 workers it needs (min_workers)"));
  EXPECT_THAT(driver.failure(), HasSubstr("60.0 s"));
  EXPECT_THAT(driver.failure(), HasSubstr("out of memory"));
  EXPECT_THAT(driver.failure(), HasSubstr("raise start_timeout"));
  EXPECT_THAT(driver.send(Tick{}).actions(), IsEmpty());
  EXPECT_EQ(driver.core().next_wakeup(), std::nullopt);
}

TEST(Coordinator, AddsUpTheWaitingOfACrashLoop) {
  Driver driver({.min_workers = 1, .max_workers = 1});
  driver.send(SegmentStart{});
  int spawned = 1;
  MemberId id = 1;
  while (driver.core().phase() != Phase::kFailed && driver.now() < 300s) {
    driver.send(MemberLost{id, "the constructor crashed"});
    while (driver.core().phase() != Phase::kFailed && driver.now() < 300s && !driver.has<Spawn>()) driver.after(100ms);
    if (driver.has<Spawn>()) id = driver.get<Spawn>()->members.front(), ++spawned;
  }
  EXPECT_THAT(driver.failure(), HasSubstr("the constructor crashed"));
  EXPECT_LT(spawned, 25);
  EXPECT_LT(driver.now(), 62s);
}

TEST(Coordinator, RestoresFromOutsideWhenAllStateIsGone) {
  Driver driver = trained({.min_workers = 2, .max_workers = 2}, 2, 7);
  driver.send(MemberLost{1, "node lost"});
  driver.send(MemberLost{2, "node lost"});
  driver.ready({3, 4});
  const auto form = driver.get<Form>();
  ASSERT_TRUE(form.has_value());
  EXPECT_EQ(form->source, std::nullopt);
  EXPECT_THAT(form->receivers, ElementsAre(3, 4));
  driver.joined({3, 4}, 5);
  EXPECT_TRUE(driver.has<elastic::Run>());
  driver.stopped({3, 4}, 9, Stop::kFinished);
  EXPECT_EQ(driver.get<Finish>()->members[0].progress.step, 9);
}

TEST(Coordinator, DoesNotTakeAnIncompleteCopyAsSource) {
  Driver driver = trained({.min_workers = 1, .max_workers = 2}, 1, 7);
  driver.ready({2});
  driver.stopped({1}, 8, Stop::kPaused);
  EXPECT_THAT(driver.get<Form>()->receivers, ElementsAre(2));
  driver.send(MemberLost{1, "died"});
  EXPECT_THAT(driver.get<Abort>()->members, ElementsAre(2));
  driver.stopped({2}, 8, Stop::kAborted);
  ASSERT_TRUE(driver.has<Form>());
  EXPECT_EQ(driver.get<Form>()->source, std::nullopt);
}

TEST(Coordinator, DoesNotTakeASurvivorWithAnIncompleteCopyAsSource) {
  Driver driver = trained({.min_workers = 1, .max_workers = 3}, 3, 7);
  driver.send(MemberLost{3, "died"});
  driver.stopped({1}, 8, Stop::kAborted);
  driver.stopped({2}, 7, Stop::kAborted);
  EXPECT_THAT(driver.get<Form>()->receivers, ElementsAre(2));
  driver.send(MemberLost{1, "died"});
  driver.send(JoinFailed{2, driver.core().generation(), "connection reset"});
  ASSERT_TRUE(driver.has<Form>());
  EXPECT_EQ(driver.get<Form>()->source, std::nullopt);
  EXPECT_THAT(driver.get<Form>()->receivers, ElementsAre(2));
}

TEST(Coordinator, CountsALostNodeOnceForTheBackoff) {
  Driver driver({.min_workers = 1, .max_workers = 4});
  for (const MemberId id : {1, 2, 3, 4}) driver.send(MemberLost{id, "node lost"});
  EXPECT_TRUE(driver.has<Spawn>());
}

TEST(Coordinator, TrustsACopyWhoseJoinedCameLate) {
  Driver driver = trained({.min_workers = 1, .max_workers = 3}, 1, 7);
  driver.ready({2, 3});
  driver.stopped({1}, 8, Stop::kPaused);
  driver.send(MemberLost{1, "died"});
  driver.stopped({2}, 8, Stop::kAborted);
  driver.joined({2}, 8);
  driver.stopped({3}, 8, Stop::kAborted);
  EXPECT_EQ(driver.get<Form>()->source, MemberId{2});
}

TEST(Coordinator, FormsTheNextGenerationAfterALossWhileJoining) {
  Driver driver({.min_workers = 2, .max_workers = 3});
  driver.send(SegmentStart{});
  driver.ready({1, 2});
  driver.joined({1}, 0);
  driver.send(MemberLost{2, "died"});
  EXPECT_FALSE(driver.has<Abort>());  // Member 1 has joined and waits.
  EXPECT_EQ(driver.core().phase(), Phase::kWaiting);
  driver.ready({3});
  EXPECT_EQ(driver.get<Form>()->generation, 2U);
  EXPECT_THAT(driver.get<Form>()->members, ElementsAre(1, 3));
}

TEST(Coordinator, FormsTheNextGenerationAfterALossWhilePausing) {
  Driver driver = trained({.min_workers = 2, .max_workers = 3}, 2, 7);
  driver.ready({3});
  driver.stopped({1}, 8, Stop::kPaused);
  driver.send(MemberLost{2, "died"});
  EXPECT_THAT(driver.get<Form>()->members, ElementsAre(1, 3));
}

TEST(Coordinator, FinishesWhenALossComesAfterTheLastStep) {
  Driver driver = trained({.min_workers = 2, .max_workers = 2}, 2, 7);
  driver.stopped({1}, 10, Stop::kFinished);
  driver.send(MemberLost{2, "died"});
  EXPECT_EQ(driver.get<Finish>()->members.size(), 1U);
  driver.ready({3});
  driver.send(SegmentStart{});
  EXPECT_THAT(driver.get<Form>()->members, ElementsAre(1, 3));
}

TEST(Coordinator, RepeatsASegmentThatNeedsAllMembersAfterALoss) {
  // Validation: each member has the results of its own share only.
  Driver driver = trained({.min_workers = 1, .max_workers = 2}, 2, 100);
  driver.stopped({1, 2}, 100, Stop::kFinished);
  driver.send(SegmentStart{.repeats = true});
  driver.stopped({1}, 100, Stop::kFinished);
  driver.send(MemberLost{2, "killed"});
  EXPECT_FALSE(driver.has<Finish>());
  ASSERT_TRUE(driver.has<Form>());
  driver.joined({1}, 100);
  EXPECT_THAT(driver.get<elastic::Run>()->members, ElementsAre(1));
  driver.stopped({1}, 100, Stop::kFinished);
  EXPECT_TRUE(driver.has<Finish>());
}

TEST(Coordinator, RepeatsTheLastStepForASurvivorThatMissedIt) {
  Driver driver = trained({.min_workers = 2, .max_workers = 3}, 3, 7);
  driver.stopped({1}, 10, Stop::kFinished);
  driver.send(MemberLost{2, "died"});
  driver.stopped({3}, 9, Stop::kAborted);
  EXPECT_EQ(driver.get<Form>()->source, MemberId{1});
  EXPECT_THAT(driver.get<Form>()->receivers, ElementsAre(3));
  driver.joined({1, 3}, 10);
  driver.stopped({1, 3}, 10, Stop::kFinished);
  EXPECT_TRUE(driver.has<Finish>());
}

TEST(Coordinator, FailsBeyondMaxFailuresAndNamesTheCauses) {
  Driver driver = trained({.min_workers = 1, .max_workers = 3, .max_failures = 1}, 3, 7);
  driver.send(MemberLost{1, "first cause"});
  EXPECT_EQ(driver.core().phase(), Phase::kAborting);
  driver.send(MemberLost{2, "second cause"});
  EXPECT_THAT(driver.failure(), HasSubstr("2 workers failed, max_failures is 1"));
  EXPECT_THAT(driver.failure(), HasSubstr("first cause"));
  EXPECT_THAT(driver.failure(), HasSubstr("second cause"));
  EXPECT_THAT(driver.failure(), HasSubstr("kActorDied"));
}

TEST(Coordinator, FailsOnAUserErrorWithoutRetry) {
  Driver driver = trained({.min_workers = 1, .max_workers = 2}, 2, 7);
  driver.send(UserError{1, 0, "of an older generation"});
  EXPECT_EQ(driver.core().phase(), Phase::kRunning);
  driver.send(UserError{1, 1, "std::out_of_range: label 10"});
  EXPECT_THAT(driver.failure(), HasSubstr("label 10"));
  EXPECT_THAT(driver.failure(), HasSubstr("kApplication"));
}

TEST(Coordinator, FailsOnAUserErrorOfAConstructor) {
  Driver driver({});
  driver.send(UserError{1, 0, "no such file"});
  EXPECT_THAT(driver.failure(), HasSubstr("no such file"));
}

TEST(Coordinator, IgnoresMessagesOfAnOlderGeneration) {
  Driver driver = trained({.min_workers = 1, .max_workers = 3}, 3, 7);
  driver.send(MemberLost{3, "died"});
  driver.stopped({1, 2}, 7, Stop::kAborted);
  ASSERT_EQ(driver.core().generation(), 2U);
  driver.send(Joined{1, 1, {0}});
  driver.send(JoinFailed{1, 1, "late"});
  driver.send(Stopped{1, 1, 1, {7}, Stop::kAborted});
  driver.send(MemberReady{1, "n1"});
  driver.send(Status{.id = 1, .generation = 1, .round = 1});
  EXPECT_EQ(driver.core().phase(), Phase::kForming);
  driver.joined({2}, 7);
  EXPECT_FALSE(driver.has<elastic::Run>());
  driver.joined({1}, 7);
  EXPECT_TRUE(driver.has<elastic::Run>());
}

TEST(Coordinator, LetsAMemberWithNoticeLeaveAtAStepBoundary) {
  Driver driver = trained({.min_workers = 1, .max_workers = 2}, 2, 7);
  driver.send(MemberNotice{1});
  EXPECT_THAT(driver.get<Spawn>()->members, ElementsAre(3));
  EXPECT_THAT(driver.get<Pause>()->members, ElementsAre(1, 2));
  driver.send(MemberNotice{1});
  EXPECT_THAT(driver.actions(), IsEmpty());
  driver.stopped({1, 2}, 8, Stop::kPaused);
  EXPECT_THAT(driver.get<Form>()->members, ElementsAre(2));
  EXPECT_THAT(driver.get<Form>()->receivers, IsEmpty());
  EXPECT_FALSE(driver.has<Kill>());
  driver.joined({2}, 8);
  EXPECT_TRUE(driver.has<elastic::Run>());
  EXPECT_EQ(driver.get<Kill>()->id, 1U);
  EXPECT_EQ(driver.get<Kill>()->cause, KillCause::kLeaving);
  EXPECT_EQ(driver.core().failures(), 0);
}

TEST(Coordinator, ReplacesAMemberWithNoticeByOneForm) {
  Driver driver = trained({.min_workers = 1, .max_workers = 2}, 2, 7);
  driver.send(MemberNotice{1});
  driver.stopped({1}, 8, Stop::kPaused);
  driver.ready({3});
  driver.stopped({2}, 8, Stop::kPaused);
  EXPECT_THAT(driver.get<Form>()->members, ElementsAre(2, 3));
  driver.joined({2, 3}, 8);
  EXPECT_EQ(driver.core().generation(), 2U);
  EXPECT_EQ(driver.core().phase(), Phase::kRunning);
}

TEST(Coordinator, TrainsWithAMemberWithNoticeUntilItsReplacementIsReady) {
  Driver driver = trained({.min_workers = 2, .max_workers = 2}, 2, 7);
  driver.send(MemberNotice{1});
  EXPECT_TRUE(driver.has<Spawn>());
  EXPECT_FALSE(driver.has<Pause>());
  driver.ready({3});
  EXPECT_TRUE(driver.has<Pause>());
  driver.stopped({1, 2}, 8, Stop::kPaused);
  EXPECT_THAT(driver.get<Form>()->members, ElementsAre(2, 3));
  EXPECT_EQ(driver.get<Form>()->source, MemberId{2});
}

TEST(Coordinator, HandsTheStateOfTheOnlyMemberOver) {
  Driver driver = trained({}, 1, 7);
  driver.send(MemberNotice{1});
  driver.ready({2});
  driver.stopped({1}, 8, Stop::kPaused);
  EXPECT_THAT(driver.get<Form>()->members, ElementsAre(1, 2));
  EXPECT_EQ(driver.get<Form>()->source, MemberId{1});
  EXPECT_THAT(driver.core().explain(), HasSubstr("hands the state"));
  driver.joined({1, 2}, 8);
  EXPECT_FALSE(driver.has<elastic::Run>());
  EXPECT_THAT(driver.get<Form>()->members, ElementsAre(2));
  driver.joined({2}, 8);
  EXPECT_THAT(driver.get<elastic::Run>()->members, ElementsAre(2));
  EXPECT_EQ(driver.get<Kill>()->id, 1U);
}

TEST(Coordinator, HandsTheStateOverBetweenSegmentsToo) {
  Driver driver = trained({}, 1, 7);
  driver.stopped({1}, 10, Stop::kFinished);
  driver.send(MemberNotice{1});
  EXPECT_FALSE(driver.has<Kill>());
  driver.ready({2});
  EXPECT_THAT(driver.get<Form>()->members, ElementsAre(1, 2));
  driver.joined({1, 2}, 10);
  EXPECT_EQ(driver.core().phase(), Phase::kIdle);
  EXPECT_EQ(driver.get<Kill>()->id, 1U);
  driver.send(SegmentStart{});
  driver.joined({2}, 10);
  EXPECT_TRUE(driver.has<elastic::Run>());
}

TEST(Coordinator, DoesNotCountTheLossOfALeavingMember) {
  Driver driver = trained({.min_workers = 1, .max_workers = 2, .max_failures = 0}, 2, 7);
  driver.send(MemberNotice{1});
  driver.send(MemberLost{1, "node lost"});
  EXPECT_EQ(driver.core().failures(), 0);
  driver.stopped({2}, 7, Stop::kAborted);
  EXPECT_THAT(driver.get<Form>()->members, ElementsAre(2));
}

TEST(Coordinator, WaitsForRoomBeyondMinWorkers) {
  Driver driver({.min_workers = 1, .max_workers = 3});
  driver.send(NoRoom{3});
  driver.send(NoRoom{2});
  driver.ready({1});
  driver.send(SegmentStart{});
  driver.joined({1}, 0);
  driver.ticks(20s);
  EXPECT_FALSE(driver.has<Spawn>());
  driver.send(RoomAvailable{1});
  EXPECT_THAT(driver.get<Spawn>()->members, ElementsAre(4));
  driver.send(RoomAvailable{5});
  EXPECT_THAT(driver.get<Spawn>()->members, ElementsAre(5));
}

TEST(Coordinator, AsksForMinWorkersAgainWithBackoff) {
  Driver driver({.min_workers = 1, .max_workers = 1});
  driver.send(SegmentStart{});
  MemberId id = 1;
  int asked = 1;
  while (driver.core().phase() != Phase::kFailed && driver.now() < 300s) {
    driver.send(NoRoom{id});
    EXPECT_FALSE(driver.has<Spawn>());
    while (driver.core().phase() != Phase::kFailed && driver.now() < 300s && !driver.has<Spawn>()) driver.after(100ms);
    if (driver.has<Spawn>()) id = driver.get<Spawn>()->members.front(), ++asked;
  }
  EXPECT_GT(asked, 8);
  EXPECT_LT(asked, 25);
  EXPECT_THAT(driver.failure(), HasSubstr("no room"));
  EXPECT_EQ(driver.core().failures(), 0);
}

TEST(Coordinator, KillsAFrozenMemberAfterTwoMissedStatuses) {
  Driver driver = trained({.min_workers = 1, .max_workers = 2}, 2, 7);
  const Status waits{.id = 1, .progress = {7}, .waiting_for = {2}, .in_step_for = 1s};
  driver.after(1s);
  driver.silence({2});
  EXPECT_FALSE(driver.has<Kill>());
  driver.statuses({waits});
  EXPECT_FALSE(driver.has<Kill>());
  driver.after(1s);
  driver.silence({2});
  EXPECT_EQ(driver.get<Kill>()->id, 2U);
  EXPECT_EQ(driver.get<Kill>()->cause, KillCause::kFrozen);
  EXPECT_THAT(driver.get<Kill>()->reason, HasSubstr("rank 1 (member 2 on node n2) is frozen"));
  EXPECT_THAT(driver.get<Abort>()->members, ElementsAre(1));
  EXPECT_EQ(driver.core().failures(), 1);
}

TEST(Coordinator, CountsARepeatedNoStatusOnceAndForgetsItAfterAnAnswer) {
  Driver driver = trained({.min_workers = 1, .max_workers = 2}, 2, 7);
  const Status waits{.id = 1, .progress = {7}, .waiting_for = {2}};
  driver.statuses({waits});
  driver.send(NoStatus{2, 2});
  driver.send(NoStatus{2, 2});
  EXPECT_EQ(driver.core().phase(), Phase::kRunning);
  driver.statuses({waits, {.id = 2, .progress = {7}}});
  driver.statuses({waits});
  driver.send(NoStatus{2, 4});
  EXPECT_EQ(driver.core().phase(), Phase::kRunning);
}

TEST(Coordinator, KillsALoneFrozenMemberAfterItsLimit) {
  Driver driver = trained({}, 1, 100);
  for (int i = 1; i <= 4; ++i) {
    driver.after(1s);
    driver.silence({1});
    EXPECT_FALSE(driver.has<Kill>()) << i;
  }
  driver.after(1s);
  EXPECT_EQ(driver.get<Kill>()->cause, KillCause::kFrozen);
  EXPECT_THAT(driver.get<Spawn>()->members, ElementsAre(2));
  EXPECT_EQ(driver.core().phase(), Phase::kWaiting);
  EXPECT_EQ(driver.core().failures(), 1);
}

TEST(Coordinator, KillsAMemberThatHangsInItsOwnCode) {
  Driver driver = trained({.min_workers = 1, .max_workers = 3}, 3, 100);  // Steps of 10 ms.
  const auto hang = [&](Coordinator::Time time) {
    driver.statuses({{.id = 1, .progress = {100}, .waiting_for = {2}, .in_step_for = time},
                     {.id = 3, .progress = {100}, .waiting_for = {2}, .in_step_for = time},
                     {.id = 2, .progress = {100}, .in_step_for = time}});
  };
  hang(4900ms);
  EXPECT_FALSE(driver.has<Kill>());
  hang(5s);
  EXPECT_EQ(driver.get<Kill>()->id, 2U);
  EXPECT_EQ(driver.get<Kill>()->cause, KillCause::kHung);
  EXPECT_THAT(driver.get<Kill>()->reason, HasSubstr("in its own code in step 101 for 5.0 s"));
}

TEST(Coordinator, WaitsTenMedianStepTimesForAMember) {
  Driver driver = trained({.min_workers = 1, .max_workers = 2}, 2, 1);
  for (int64_t step = 2; step <= 4; ++step) {
    driver.statuses({{.id = 1, .progress = {step}}, {.id = 2, .progress = {step}}}, 2s);
  }
  EXPECT_EQ(driver.core().median_step_time(), 2s);
  const auto behind = [&](Coordinator::Time time) {
    driver.statuses({{.id = 1, .progress = {4}, .waiting_for = {2}, .in_step_for = time},
                     {.id = 2, .progress = {4}, .in_step_for = time}});
  };
  behind(19s);
  EXPECT_FALSE(driver.has<Kill>());
  behind(20s);
  EXPECT_TRUE(driver.has<Kill>());
}

TEST(Coordinator, MeasuresStepTimesUpToTheLastStepAndNotToTheStatus) {
  // 100 steps in the first 100 ms, then nothing more.
  Driver driver({.min_workers = 2, .max_workers = 2});
  driver.ready({1, 2});
  driver.send(SegmentStart{});
  driver.joined({1, 2}, 0);
  driver.statuses({{.id = 1, .progress = {100}, .waiting_for = {2}, .in_step_for = 900ms}});
  EXPECT_EQ(driver.core().median_step_time(), 1ms);
}

TEST(Coordinator, AllowsStartTimeoutForTheFirstStep) {
  Driver driver({.min_workers = 2, .max_workers = 2});
  driver.send(SegmentStart{});
  driver.ready({1, 2});
  driver.joined({1, 2}, 0);
  const auto behind = [&](Coordinator::Time time) {
    driver.statuses({{.id = 1, .waiting_for = {2}, .in_step_for = time}, {.id = 2, .in_step_for = time}});
  };
  behind(59s);
  EXPECT_FALSE(driver.has<Kill>());
  behind(60s);
  EXPECT_EQ(driver.get<Kill>()->id, 2U);
}

TEST(Coordinator, LetsLongStepsInWhichNobodyWaitsGoOn) {
  Driver driver = trained({.min_workers = 1, .max_workers = 2}, 2, 100);
  driver.statuses({{.id = 1, .progress = {100}, .in_step_for = 90s}, {.id = 2, .progress = {100}, .in_step_for = 90s}});
  EXPECT_EQ(driver.core().phase(), Phase::kRunning);
  EXPECT_THAT(driver.core().explain(), HasSubstr("rank 1 (member 2 on node n2) has been in step 101 for 90.0 s"));
}

TEST(Coordinator, AbortsACollectiveInWhichAllWait) {
  Driver driver = trained({.min_workers = 1, .max_workers = 2}, 2, 100);
  driver.statuses({{.id = 1, .progress = {100}, .waiting_for = {2}, .in_step_for = 6s},
                   {.id = 2, .progress = {100}, .waiting_for = {1}, .in_step_for = 6s}});
  EXPECT_THAT(driver.get<Abort>()->members, ElementsAre(1, 2));
  EXPECT_FALSE(driver.has<Kill>());
}

TEST(Coordinator, KillsAMemberThatIgnoresAbort) {
  Driver driver = trained({.min_workers = 1, .max_workers = 3}, 3, 100);
  driver.send(MemberLost{1, "died"});
  driver.stopped({2}, 100, Stop::kAborted);
  driver.ticks(4900ms);
  EXPECT_FALSE(driver.has<Kill>());
  driver.after(100ms);
  EXPECT_EQ(driver.get<Kill>()->id, 3U);
  EXPECT_THAT(driver.get<Form>()->members, ElementsAre(2));
}

TEST(Coordinator, KillsAMemberThatNeverJoins) {
  Driver driver({.min_workers = 2, .max_workers = 2});
  driver.send(SegmentStart{});
  driver.ready({1, 2});
  for (int i = 0; i < 59; ++i)
    driver.statuses({{.id = 1, .waiting_for = {2}, .in_step_for = 1s}, {.id = 2, .in_step_for = 1s}});
  EXPECT_FALSE(driver.has<Kill>());
  driver.after(1s);
  EXPECT_EQ(driver.get<Kill>()->id, 2U);
  EXPECT_THAT(driver.get<Kill>()->reason, HasSubstr("has not joined"));
}

TEST(Coordinator, ReportsASlowMemberAtMostOnceAMinute) {
  Driver driver = trained({.min_workers = 1, .max_workers = 3}, 3, 0);
  std::vector<ReportSlow> reports;
  for (int64_t i = 1; i <= 100; ++i) {
    const bool wait = i % 3 != 0;
    driver.after(1s);
    const auto report = driver.get<ReportSlow>();
    if (report) reports.push_back(*report);
    const auto asked = driver.get<AskStatus>();
    ASSERT_TRUE(asked.has_value());
    for (const MemberId id : {1, 2, 3}) {
      Status status{.id = id, .generation = 1, .round = asked->round, .progress = {i}};
      if (wait && id != 3) status.waiting_for = {3};
      driver.send(status);
    }
  }
  EXPECT_EQ(driver.core().phase(), Phase::kRunning);
  ASSERT_EQ(reports.size(), 2U);
  EXPECT_EQ(reports[0].id, 3U);
  EXPECT_NEAR(reports[0].factor, 3, 0.5);
}

TEST(Coordinator, DelaysReplacementsOfMembersThatDieBeforeAStep) {
  Driver driver = trained({.min_workers = 1, .max_workers = 2}, 2, 7);
  driver.send(MemberLost{2, "died"});
  EXPECT_TRUE(driver.has<Spawn>());  // After a step: at once.
  driver.send(MemberLost{3, "died"});
  EXPECT_TRUE(driver.has<Spawn>());
  driver.send(MemberLost{4, "died"});
  EXPECT_FALSE(driver.has<Spawn>());
  EXPECT_EQ(driver.core().next_wakeup(), driver.now() + 100ms);
  EXPECT_TRUE(driver.after(100ms).has<Spawn>());
}

TEST(Coordinator, TakesALossBetweenSegmentsIntoAccountAtTheNext) {
  Driver driver = trained({.min_workers = 1, .max_workers = 2}, 2, 7);
  driver.stopped({1, 2}, 10, Stop::kFinished);
  driver.send(MemberLost{1, "died"});
  EXPECT_TRUE(driver.has<Spawn>());
  EXPECT_FALSE(driver.has<Form>());
  driver.send(SegmentStart{});
  EXPECT_THAT(driver.get<Form>()->members, ElementsAre(2));
  EXPECT_EQ(driver.get<Form>()->source, MemberId{2});
}

TEST(Coordinator, CountsFromAStateThatReplacedThatOfTheMembers) {
  Driver driver = trained({.min_workers = 1, .max_workers = 2, .start_timeout = 10s}, 2, 100);
  driver.send(StateReplaced{{5}});  // Ignored: a segment runs.
  driver.stopped({1, 2}, 101, Stop::kFinished);
  driver.send(StateReplaced{{5}});
  driver.send(SegmentStart{});
  EXPECT_TRUE(driver.has<elastic::Run>());
  // A step after the earlier state is progress, although the run had done more steps before.
  driver.statuses({{.id = 1, .progress = {7}}, {.id = 2, .progress = {7}}});
  EXPECT_THAT(driver.core().explain(), HasSubstr("7 steps committed"));
  driver.send(MemberLost{2, "killed"});
  driver.stopped({1}, 7, Stop::kAborted);
  EXPECT_EQ(driver.get<Form>()->source, 1);
}

TEST(Coordinator, ExplainsEachPhase) {
  Driver driver({.min_workers = 1, .max_workers = 2});
  EXPECT_THAT(driver.core().explain(), HasSubstr("No segment runs"));
  driver.ready({1});
  driver.send(SegmentStart{50});
  EXPECT_THAT(driver.core().explain(), HasSubstr("waits for rank 0 (member 1 on node n1) to join"));
  driver.joined({1}, 0);
  EXPECT_THAT(driver.core().explain(), HasSubstr("generation 1 (1 worker), 0 steps of 50"));
  EXPECT_THAT(driver.core().explain(), HasSubstr("1 more worker is starting"));
  driver.ready({2});
  EXPECT_THAT(driver.core().explain(), HasSubstr("pauses generation 1"));
}

TEST(Coordinator, TrainsWithAMemberWithNoticeInLaterSegmentsUntilItsReplacementIsReady) {
  Driver driver = trained({.min_workers = 2, .max_workers = 2}, 2, 10);
  driver.send(MemberNotice{1});
  driver.stopped({1, 2}, 20, Stop::kFinished);
  EXPECT_FALSE(driver.has<Kill>());
  driver.send(SegmentStart{10});
  EXPECT_THAT(driver.get<elastic::Run>()->members, ElementsAre(1, 2));
  driver.ready({3});
  EXPECT_TRUE(driver.has<Pause>());
  driver.stopped({1, 2}, 21, Stop::kPaused);
  EXPECT_THAT(driver.get<Form>()->members, ElementsAre(2, 3));
  driver.joined({2, 3}, 21);
  EXPECT_EQ(driver.get<Kill>()->id, 1U);
}

}  // namespace
}  // namespace volador::train
