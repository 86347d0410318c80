#include "tune/execution/trainable.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "temporary_directory.h"
#include "tune/execution/trainable_registry.h"
#include "tune/execution/trial_actor.h"

namespace volador::tune {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

std::vector<std::string>* events = nullptr;

struct Leaves {
  ~Leaves() { events->push_back("left"); }
};

void counts(const Config& config) {
  const Leaves leaves;
  for (int i = 1; i <= config.integer("reports"); ++i) {
    report({{"i", i}}, [&](const fs::path& directory) {
      if (config.get_or("save_throws", false)) throw std::runtime_error("no space");
      write_text(directory / "i", std::to_string(i));
    });
    events->push_back("after " + std::to_string(i));
  }
}

void swallows(const Config&) {
  for (int i = 0; i < 3; ++i) {
    try {
      report({{"i", i}});
    } catch (const std::exception&) {
      events->push_back("caught");
    }
  }
}

void adds(const Config&, int a, const std::string& b) { report({{"sum", a + static_cast<int>(b.size())}}); }

class TrainableTest : public ::testing::Test {
 protected:
  TrainableTest() { events = &events_; }
  ~TrainableTest() override { events = nullptr; }

  std::unique_ptr<TrainableHost> make(const TrainableRef& ref) {
    auto made = TrainableRegistry::instance().make(ref.name, ref.parameters);
    EXPECT_TRUE(made) << made.error().message;
    return std::move(*made);
  }
  TemporaryDirectory directory_;
  std::vector<std::string> events_;
  TrialContext context_;
};

TEST_F(TrainableTest, AFunctionWaitsInReportUntilTheNextStep) {
  auto host = make(with_parameters<&counts>());
  host->setup(Config{{"reports", 2}}, context_);
  EXPECT_TRUE(events_.empty());
  EXPECT_EQ(host->step().metrics.at("i"), 1);
  EXPECT_TRUE(events_.empty());
  EXPECT_EQ(host->step().metrics.at("i"), 2);
  EXPECT_THAT(events_, ::testing::ElementsAre("after 1"));
  EXPECT_TRUE(host->step().finished);
  EXPECT_TRUE(host->step().finished);
  EXPECT_THAT(events_, ::testing::ElementsAre("after 1", "after 2", "left"));
}

TEST_F(TrainableTest, SaveIsCalledWithinItsReportOnlyWhenAskedFor) {
  auto host = make(with_parameters<&counts>());
  host->setup(Config{{"reports", 3}}, context_);
  EXPECT_FALSE(host->save(directory_.path()));
  host->step();
  host->step();
  EXPECT_TRUE(host->save(directory_.path()));
  EXPECT_EQ(read_text(directory_.path() / "i"), "2");
  EXPECT_EQ(host->step().metrics.at("i"), 3);
  host->step();
  EXPECT_FALSE(host->save(directory_.path()));
}

TEST_F(TrainableTest, AStoppedFunctionUnwindsAndKeepsNothing) {
  auto host = make(with_parameters<&counts>());
  host->setup(Config{{"reports", 9}}, context_);
  host->step();
  host->cleanup();
  host.reset();
  EXPECT_THAT(events_, ::testing::ElementsAre("left"));
}

TEST_F(TrainableTest, HandlersOfExceptionsDoNotKeepAStoppedFunction) {
  auto host = make(with_parameters<&swallows>());
  host->setup({}, context_);
  host->step();
  host.reset();
  EXPECT_TRUE(events_.empty());
}

TEST_F(TrainableTest, WhatSaveThrowsArrivesAndTheFunctionGoesOn) {
  auto host = make(with_parameters<&counts>());
  host->setup(Config{{"reports", 2}, {"save_throws", true}}, context_);
  host->step();
  EXPECT_THROW(host->save(directory_.path()), std::runtime_error);
  EXPECT_EQ(host->step().metrics.at("i"), 2);
}

TEST_F(TrainableTest, ReportOutsideOfATrialIsAnError) {
  EXPECT_THROW(report({{"x", 1}}), Exception);
  EXPECT_THROW((void)get_checkpoint(), Exception);
}

TEST_F(TrainableTest, ParametersComeAfterTheConfiguration) {
  auto host = make(with_parameters<&adds>(40, "ab"));
  host->setup({}, context_);
  EXPECT_EQ(host->step().metrics.at("sum"), 42);
  EXPECT_EQ(with_resources(with_parameters<&adds>(40, "ab"), {.cpus = 2}).resources->cpus, 2);
}

TEST_F(TrainableTest, LabelsAreNamesForPeople) {
  EXPECT_EQ(with_parameters<&counts>().label, "counts");
  EXPECT_EQ(trainables::label_of("shop::TrainDigits"), "TrainDigits");
  EXPECT_EQ(trainables::label_of("& volador::tune::{anonymous}::train"), "train");
  EXPECT_EQ(trainables::label_of("main()::<lambda(const Config&)>"), "trial");
}

TEST_F(TrainableTest, AnUnknownNameListsThoseThereAre) {
  const auto made = TrainableRegistry::instance().make("nobody", "");
  ASSERT_FALSE(made);
  EXPECT_THAT(made.error().message, HasSubstr("counts"));
}

AnyRef piece_of(const std::string& bytes) { return AnyRef(std::make_shared<const std::string>(bytes)); }

TEST_F(TrainableTest, AnActorRepeatsItsAnswersAndDoesNothingTwice) {
  const TrainableRef ref = with_parameters<&counts>();
  TrialActor actor({ref.name, Bytes{ref.parameters}, "experiment", "3f2a90c1", 1});
  actor.setup({.config = Config{{"reports", 5}}});
  EXPECT_GT(actor.setup({}).pid, 0);
  EXPECT_EQ(actor.step(1).metrics.at("i"), 1);
  EXPECT_EQ(actor.step(1).metrics.at("i"), 1);
  EXPECT_TRUE(events_.empty());
  EXPECT_THROW(actor.step(3), Exception);
  EXPECT_EQ(actor.step(2).metrics.at("i"), 2);
  const SaveReply saved = actor.save(2);
  EXPECT_EQ(actor.save(2).parts, saved.parts);
  ASSERT_EQ(saved.parts.size(), 1u);
  const DirectoryPart part = saved.parts[0];
  const auto read = [&](int64_t offset) {
    std::string bytes;
    for (const AnyRef& piece : actor.read_part(part.sha256, offset, true).pieces) bytes += piece.bytes()->text();
    return bytes;
  };
  EXPECT_EQ(read(0).size(), static_cast<size_t>(part.bytes));
  EXPECT_EQ(read(part.bytes - 3).size(), 3U);
  EXPECT_THROW((void)actor.read_part(std::string(64, '0'), 0, true), Exception);

  TrialActor next({ref.name, Bytes{ref.parameters}, "experiment", "3f2a90c1", 2});
  const std::string archive = read(0);
  EXPECT_EQ(next.restore_pieces(part.sha256, 0, {piece_of(archive.substr(0, 10))}).bytes, 10);
  EXPECT_EQ(next.restore_pieces(part.sha256, 0, {piece_of(archive.substr(0, 10))}).bytes, 10);
  EXPECT_THROW(next.restore_pieces(part.sha256, 11, {piece_of("x")}), Exception);
  EXPECT_THROW(next.restore_pieces("../x", 0, {piece_of("x")}), Exception);
  const auto taken = next.restore_pieces(
      part.sha256, 0, {piece_of(archive.substr(0, 10)), piece_of(archive.substr(10, 5)), AnyRef(), piece_of("x")});
  EXPECT_EQ(taken.bytes, 15);
  EXPECT_THAT(taken.lost, HasSubstr("refers to nothing"));
  EXPECT_EQ(next.restore_pieces(part.sha256, 15, {piece_of(archive.substr(15))}).bytes, part.bytes);
  const auto ready = next.setup({.config = Config{{"reports", 5}}, .step = 2, .parts = {part}});
  EXPECT_EQ(ready.restore_error, "");
  EXPECT_EQ(next.step(3).step, 3);

  TrialActor wrong({ref.name, Bytes{ref.parameters}, "experiment", "3f2a90c1", 3});
  const std::string other(64, '0');
  wrong.restore_pieces(other, 0, {piece_of(archive)});
  EXPECT_THAT(wrong.setup({.config = Config{{"reports", 5}}, .step = 2, .parts = {{other, part.bytes}}}).restore_error,
              HasSubstr("checksum"));
}

TEST_F(TrainableTest, ATornArchiveIsAnErrorBeforeAnythingIsSetUp) {
  const TrainableRef ref = with_parameters<&counts>();
  TrialActor actor({ref.name, Bytes{ref.parameters}, "experiment", "3f2a90c1", 2});
  const std::string sha256(64, 'a');
  actor.restore_pieces(sha256, 0, {piece_of("VLDARC01 and then nonsense that is long enough for a checksum")});
  EXPECT_FALSE(
      actor.setup({.config = Config{{"reports", 1}}, .step = 2, .parts = {{sha256, 61}}}).restore_error.empty());
  EXPECT_FALSE(
      actor.setup({.config = Config{{"reports", 1}}, .step = 2, .parts = {{sha256, 61}}}).restore_error.empty())
      << "and it is gone";
}

}  // namespace
}  // namespace volador::tune
