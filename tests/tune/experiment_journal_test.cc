#include "tune/results/experiment_journal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "temporary_directory.h"
#include "tests/tune/trial_simulator.h"
#include "tune/results/experiment_resume.h"
#include "tune/results/experiment_state.h"
#include "tune/results/saved_run.h"
#include "tune/schedulers/asha_scheduler.h"
#include "tune/schedulers/pbt_scheduler.h"
#include "tune/searchers/recording_searcher.h"
#include "tune/searchers/variant_searcher.h"

namespace volador::tune {
namespace {

using ::testing::HasSubstr;
using namespace std::chrono_literals;

const TrialId kTrial{0x3f2a90c1};

// One of each type.
const std::vector<Event>& all_events() {
  static const std::vector<Event> events = {
      TrialStarted{kTrial, 2, "heron"},
      ResultReported{kTrial, 2, 7, {{"accuracy", 0.5}, {"loss", std::nan("")}}, 3s, true},
      TrialFinished{kTrial, 2},
      CheckpointSaved{kTrial, 2, 7, "3f2a90c1/checkpoint_000007"},
      CheckpointFailed{kTrial, 2, 7, "no space"},
      CheckpointLost{kTrial, "3f2a90c1/checkpoint_000007"},
      TrialFailed{kTrial, 2, "boom", false},
      TrialGone{kTrial, 2},
      ActorWaiting{kTrial, 2, "for a CPU"},
      CapacityChanged{16},
      Interrupt{},
      Tick{},
      Abort{{ErrorCode::kUnavailable, "no cluster"}},
      CheckpointCloned{kTrial, 2, 7, "3f2a90c1/checkpoint_000007"},
      CloneFailed{kTrial, 2, 7, "no space"},
      Resumed{},
      CheckpointFound{kTrial, 2, 7, "3f2a90c1/checkpoint_000007"},
      MoreSamples{40},
      StopRequested{kTrial, true},
      PauseRequested{kTrial, false},
      ResumeRequested{kTrial, true},
      ClusterChanged{{{"cpus", 40'000}, {"memory", 1}}},
      ResourcesRefused{kTrial, 3, "the largest node has 2"},
      ConfigAdded{"add-1", {{"lr", 0.5}, {"model", {{"width", 32}}}}, kTrial},
      RetryFailed{true},
      TrialTagged{kTrial, {"keep", "wide"}},
  };
  return events;
}

std::string encoded(const JournalRecord& record) {
  std::string bytes;
  append_journal_record(bytes, record);
  return bytes;
}

std::string journal_of(const std::vector<JournalRecord>& records) {
  std::string bytes = "VLJRNL01" + encoded(JournalHeader{.name = "digits", .seed = 7, .total = 20});
  for (const JournalRecord& record : records) bytes += encoded(record);
  return bytes;
}

TEST(ExperimentJournal, ARunOfBeforeThereWereKeysHasTheIdsOfItsSeed) {
  const auto before = parse_journal("VLJRNL01" + encoded(JournalHeader{.version = 1, .name = "digits", .seed = 7}) +
                                    encoded(JournalSuggestion{0, {}}));
  ASSERT_TRUE(before) << before.error().message;
  EXPECT_EQ(suggested_trials(*before).at(0).id, TrialId::of(7, 0));
  const auto now = parse_journal("VLJRNL01" + encoded(JournalHeader{.name = "digits", .seed = 7, .key = 99}) +
                                 encoded(JournalSuggestion{0, {}}));
  ASSERT_TRUE(now) << now.error().message;
  EXPECT_EQ(now->header.version, kJournalVersion);
  EXPECT_EQ(suggested_trials(*now).at(0).id, TrialId::of(99, 0));
}

TEST(ExperimentJournal, KeepsEveryKindOfEvent) {
  ASSERT_EQ(all_events().size(), std::variant_size_v<Event>);
  std::vector<JournalRecord> records;
  for (size_t i = 0; i < all_events().size(); ++i) {
    ASSERT_EQ(all_events()[i].index(), i) << "the order of events is that of the file: new ones go to the end";
    records.push_back(JournalEvent{std::chrono::nanoseconds(i), 5s, all_events()[i]});
  }
  records.push_back(JournalSuggestion{3, {{"lr", 0.1}, {"model", {{"width", 32}}}}});
  records.push_back(JournalDecision{2,
                                    {.trial = kTrial,
                                     .step = 9,
                                     .act = Act::kCloned,
                                     .rule = "PBT",
                                     .bracket = 1,
                                     .milestone = 9,
                                     .value = 0.5,
                                     .rank = 3,
                                     .of = 4,
                                     .pass = 1,
                                     .cutoff = 0.75,
                                     .other = TrialId(7),
                                     .detail = "because"}});
  records.push_back(JournalProgram{"/bin/digits", std::string(64, 'a'), {"digits", "--lr=1"}, "/home", "heron"});
  records.push_back(JournalPlace{7, 2, "heron", "heron.local", 42});
  records.push_back(JournalEnding{4, "interrupted"});
  records.push_back(JournalEarlierTrial{{{"lr", 0.1}}, {1, 3}, {0.5, 0.25}, 3, {0.25}, {0.25, 2}, {-1}});
  records.push_back(JournalLabels{"Digits", {"paper"}});
  const std::string bytes = journal_of(records);
  const auto contents = parse_journal(bytes);
  ASSERT_TRUE(contents.has_value()) << contents.error().message;
  EXPECT_EQ(contents->header.name, "digits");
  EXPECT_EQ(contents->header.total, 20);
  EXPECT_EQ(contents->whole_bytes, bytes.size());
  EXPECT_EQ(contents->torn, "");
  ASSERT_EQ(contents->records.size(), records.size());
  // Parsed records are written as the same bytes.
  for (size_t i = 0; i < records.size(); ++i) EXPECT_EQ(encoded(contents->records[i]), encoded(records[i])) << i;
  const auto& reported = std::get<ResultReported>(std::get<JournalEvent>(contents->records[1]).event);
  EXPECT_EQ(reported.metrics, std::get<ResultReported>(all_events()[1]).metrics);
  EXPECT_EQ(reported.duration, 3s);
  EXPECT_TRUE(reported.done);
}

TEST(ExperimentJournal, KeepsReasonsAsTextAndAsData) {
  const Reason died = because(reason("died.exited", 3), reason("cause.called_exit"));
  const std::vector<JournalRecord> records{
      JournalEvent{1ns, 1ns, TrialFailed{kTrial, 1, died}},
      JournalEvent{2ns, 2ns, ActorWaiting{kTrial, 2, reason("waits.no_node")}},
      JournalDecision{1, {.trial = kTrial, .act = Act::kPaused, .detail = reason("decision.others_wait", 4)}},
      JournalEvent{3ns, 3ns, CheckpointFailed{kTrial, 2, 1, reason("checkpoint.nothing_saved")}},
      JournalEvent{4ns, 4ns, ResourcesRefused{kTrial, 2, reason("waits.no_node")}},
      JournalEvent{5ns, 5ns, CloneFailed{kTrial, 2, 1, reason("clone.no_checkpoint")}}};
  const std::string bytes = journal_of(records);
  EXPECT_THAT(bytes, HasSubstr(died.text()));
  const auto contents = parse_journal(bytes);
  ASSERT_TRUE(contents.has_value()) << contents.error().message;
  const auto event_at = [&](size_t at) { return std::get<JournalEvent>(contents->records.at(at)).event; };
  EXPECT_EQ(std::get<TrialFailed>(event_at(0)).error.text(Language::kChinese), died.text(Language::kChinese));
  EXPECT_EQ(std::get<ActorWaiting>(event_at(1)).reason.text(Language::kChinese), "还没有节点加入");
  EXPECT_EQ(std::get<JournalDecision>(contents->records.at(2)).record.detail.text(Language::kChinese),
            "其他试验在第 4 步等待空位");
  EXPECT_THAT(std::get<CheckpointFailed>(event_at(3)).error.text(Language::kChinese), HasSubstr("没有保存任何内容"));
  EXPECT_EQ(std::get<ResourcesRefused>(event_at(4)).reason.text(Language::kChinese), "还没有节点加入");
  EXPECT_EQ(std::get<CloneFailed>(event_at(5)).error.text(Language::kChinese), "那个试验没有检查点");
}

TEST(ExperimentJournal, KeepsWhereAnAddedConfigurationComesFrom) {
  const Config config{{"lr", 0.5}};
  const auto contents = parse_journal(journal_of(
      {JournalEvent{1ns, 1ns, ConfigAdded{"1", config}}, JournalEvent{2ns, 2ns, ConfigAdded{"2", config, kTrial}}}));
  ASSERT_TRUE(contents.has_value()) << contents.error().message;
  const auto added_at = [&](size_t at) {
    return std::get<ConfigAdded>(std::get<JournalEvent>(contents->records.at(at)).event);
  };
  EXPECT_FALSE(added_at(0).cloned_from) << "as an earlier Volador wrote it, too";
  EXPECT_EQ(added_at(1).cloned_from, kTrial);
  EXPECT_EQ(added_at(1).config, config);
}

// As written by an earlier Volador: attempt, text and whether it counts, without structured data.
TEST(ExperimentJournal, ReadsRecordsWhoseReasonsAreTextsAlone) {
  const std::string text = "its process exited with code 3";
  const std::string written = codec::write_envelope(1, [&](Encoder& encoder) {
    encode(encoder, 1ns);
    encode(encoder, 2ns);
    encode(encoder, static_cast<uint32_t>(Event(TrialFailed{}).index()));
    encode(encoder, kTrial.value());
    encode(encoder, int64_t{1});
    encode(encoder, text);
    encode(encoder, true);
  });
  const JournalEvent event{1ns, 2ns, TrialFailed{kTrial, 1, Reason(text), true}};
  EXPECT_TRUE(encoded(event).ends_with(written)) << "a text has no data behind it";
  const auto contents = parse_journal(journal_of({event}));
  ASSERT_TRUE(contents.has_value()) << contents.error().message;
  EXPECT_EQ(std::get<TrialFailed>(std::get<JournalEvent>(contents->records.at(0)).event).error, text);
}

TEST(ExperimentJournal, CutsATornLastRecordAndSaysSo) {
  const std::string whole = journal_of({JournalEvent{0ns, 0ns, all_events()[0]}});
  const std::string more = whole + encoded(JournalEvent{1ns, 1ns, all_events()[1]});
  for (size_t length = whole.size() + 1; length < more.size(); ++length) {
    const auto contents = parse_journal(std::string_view(more).substr(0, length));
    ASSERT_TRUE(contents.has_value()) << length << contents.error().message;
    EXPECT_EQ(contents->records.size(), 1u);
    EXPECT_EQ(contents->whole_bytes, whole.size());
    EXPECT_THAT(contents->torn, HasSubstr("from byte " + std::to_string(whole.size())));
  }
  std::string flipped = more;
  flipped.back() ^= 1;
  EXPECT_EQ(parse_journal(flipped)->whole_bytes, whole.size());
  EXPECT_EQ(parse_journal(whole + std::string(4096, '\0'))->whole_bytes, whole.size())
      << "grown, not written, before a power cut";
}

TEST(ExperimentJournal, RefusesOneThatIsDamagedInTheMiddle) {
  const std::string first = journal_of({});
  std::string bytes =
      first + encoded(JournalEvent{0ns, 0ns, all_events()[0]}) + encoded(JournalEvent{1ns, 1ns, all_events()[1]});
  bytes[first.size() + 12] ^= 1;
  EXPECT_THAT(parse_journal(bytes).error().message, HasSubstr("damaged at byte " + std::to_string(first.size())));
  for (const char* bad : {"", "VLJRNL0", "VLJRNL02", "VLJRNL01", "{}"})
    EXPECT_FALSE(parse_journal(bad).has_value()) << bad;
}

TEST(ExperimentJournal, SurvivesAnyDamage) {
  std::vector<JournalRecord> records;
  for (const Event& event : all_events()) records.push_back(JournalEvent{0ns, 0ns, event});
  const std::string whole = journal_of(records);
  SeededRandom random(3);
  for (int i = 0; i < 2000; ++i) {
    std::string damaged = whole;
    for (int flips = 0; flips < 3; ++flips)
      damaged[random.below(damaged.size())] ^= static_cast<char>(1 << random.below(8));
    (void)parse_journal(damaged);  // Parsed or rejected; no exception, no abort.
  }
}

TEST(ExperimentJournal, GoesOnWhereTheWholeRecordsEndAndServesOneProgramAtATime) {
  const TemporaryDirectory directory;
  {
    const auto journal = ExperimentJournal::create(directory.path(), {.name = "digits"}).value();
    journal->add(JournalEvent{0ns, 0ns, all_events()[0]});
    journal->commit();
    EXPECT_EQ(read_journal(directory.path())->records.size(), 1u);
    EXPECT_FALSE(ExperimentJournal::create(directory.path(), {}).has_value());
    const auto second = ExperimentJournal::open(directory.path(), 8);
    ASSERT_FALSE(second.has_value());
    EXPECT_THAT(second.error().message, HasSubstr("another program runs this experiment"));
    journal->add(JournalEvent{0ns, 0ns, all_events()[1]});
  }
  write_text(journal_path(directory.path()), read_text(journal_path(directory.path())) + "torn");
  const auto contents = read_journal(directory.path()).value();
  EXPECT_EQ(contents.records.size(), 2u);
  {
    const auto journal = ExperimentJournal::open(directory.path(), contents.whole_bytes).value();
    journal->add(JournalEvent{0ns, 0ns, all_events()[2]});
  }
  const auto again = read_journal(directory.path()).value();
  EXPECT_EQ(again.records.size(), 3u);
  EXPECT_EQ(again.torn, "");
}

TEST(ExperimentResume, NamesTheOptionThatIsAnother) {
  const JournalHeader before{
      .metric = "loss", .space = "lr uniform(0, 1)\nwidth 3\n", .scheduler = "FIFO", .total = 20};
  const auto message = [&](auto change) {
    JournalHeader now = before;
    change(now);
    const auto same = check_same_run(before, now);
    return same ? std::string() : same.error().message;
  };
  EXPECT_EQ(message([](JournalHeader&) {}), "");
  EXPECT_EQ(message([](JournalHeader& now) { now.total = 30; }), "");
  EXPECT_EQ(message([](JournalHeader& now) { now.total = -1; }), "");
  EXPECT_THAT(message([](JournalHeader& now) { now.total = 10; }), HasSubstr("num_samples is not that of the run"));
  EXPECT_THAT(message([](JournalHeader& now) { now.scheduler = "ASHA"; }),
              HasSubstr("scheduler is not that of the run to go on with: it was \"FIFO\""));
  EXPECT_THAT(message([](JournalHeader& now) { now.space = "lr uniform(0, 1)\nwidth 4\n"; }),
              HasSubstr("it was \"width 3\", now it is \"width 4\""));
  EXPECT_THAT(message([](JournalHeader& now) { now.space += "depth 2\n"; }),
              HasSubstr("it was nothing, now it is \"depth 2\""));
}

TEST(ExperimentResume, DescribesASpaceDownToItsOptions) {
  EXPECT_EQ(space_text({{"lr", uniform(0, 1)}, {"model", {{"width", 32}, {"act", choice({"relu", "tanh"})}}}}),
            "lr uniform(0, 1)\nmodel.width 32\nmodel.act choice of 2\nmodel.act[0] \"relu\"\nmodel.act[1] \"tanh\"\n");
}

// ---- Replaying a journal gives the same state.

struct Recorded {
  std::vector<JournalRecord> records;
  std::string state;  // State at the end.
};

std::unique_ptr<TrialLoop> make_loop(uint64_t seed, std::vector<RecordedSuggestion> suggestions,
                                     RecordingSearcher** recording) {
  const Space space = {{"lr", loguniform(1e-4, 1e-1)}};
  const SchedulerContext context{"accuracy", Mode::kMax, seed};
  auto scheduler = (seed % 2 == 0 ? asha({.max_t = 27, .reduction_factor = 3})
                                  : pbt({.perturbation_interval = 3,
                                         .hyperparam_mutations = {{"lr", loguniform(1e-4, 1e-1)}},
                                         .quantile_fraction = 0.5}))(context)
                       .value();
  auto searcher = std::make_unique<RecordingSearcher>(
      random_search()({.space = space, .num_samples = 12, .seed = seed}).value(), std::move(suggestions), 12);
  *recording = searcher.get();
  LoopOptions options{.metric = "accuracy",
                      .trial_key = seed,
                      .stop = max_steps(15),
                      .max_failures = -1,
                      .checkpoint = {.frequency = 2, .num_to_keep = 1}};
  return TrialLoop::create(std::move(options), std::move(searcher), std::move(scheduler)).value();
}

std::string state_of(const TrialLoop& loop) {
  ExperimentState state;
  state.trials.assign(loop.trials().begin(), loop.trials().end());
  return to_json(state) + loop.scheduler().snapshot();
}

// Runs a simulated experiment whose events are recorded before they are handled.
Recorded record(uint64_t seed) {
  Recorded recorded;
  RecordingSearcher* recording = nullptr;
  const auto loop = make_loop(seed, {}, &recording);
  recording->on_suggestion = [&](int64_t index, const Config& config) {
    recorded.records.push_back(JournalSuggestion{index, config});
  };
  testing::TrialSimulator simulator(
      {.seed = seed,
       .faults = {.crash = 0.05, .node_lost = 0.01, .repeated = 0.2, .checkpoint_failed = 0.1, .clone_failed = 0.1},
       .nodes = 2,
       .slots_per_node = 2},
      *loop);
  simulator.on_event = [&](BootTime now, const Event& event) {
    recorded.records.push_back(JournalEvent{now - BootTime{}, 0ns, event});
  };
  EXPECT_EQ(simulator.run(), "");
  recorded.state = state_of(*loop);
  return recorded;
}

TEST(ExperimentResume, ComesToTheSameStateByTheSameEvents) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    const Recorded recorded = record(seed);
    const auto contents = parse_journal(journal_of(recorded.records));
    ASSERT_TRUE(contents.has_value());
    RecordingSearcher* recording = nullptr;
    const auto loop = make_loop(seed, recorded_suggestions(contents->records), &recording);
    (void)loop->begin(BootTime{});
    for (const JournalEvent& told : effective_events(contents->records))
      (void)loop->handle(BootTime{} + told.at, told.event);
    EXPECT_EQ(state_of(*loop), recorded.state) << "seed " << seed;
    EXPECT_EQ(recording->differences(), 0);
    EXPECT_TRUE(loop->ended());
  }
}

// The driver dies after any event, and another one resumes from the journal: no recorded step is lost, and none counts
// twice.
TEST(ExperimentResume, GoesOnFromAnyEvent) {
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    const Recorded recorded = record(seed);
    for (size_t cut = 0; cut < recorded.records.size(); cut += 1 + cut / 16) {
      const std::vector<JournalRecord> known(recorded.records.begin(),
                                             recorded.records.begin() + static_cast<std::ptrdiff_t>(cut));
      RecordingSearcher* recording = nullptr;
      const auto loop = make_loop(seed, recorded_suggestions(known), &recording);
      testing::TrialSimulator simulator({.seed = seed + cut, .nodes = 2, .slots_per_node = 2}, *loop);
      std::vector<Event> told;
      BootTime last{};
      for (const JournalEvent& event : effective_events(known)) {
        told.push_back(event.event);
        last = BootTime{} + event.at;
      }
      ASSERT_EQ(simulator.resume(told, last), "") << "seed " << seed << " cut " << cut;
    }
  }
}

}  // namespace
}  // namespace volador::tune
