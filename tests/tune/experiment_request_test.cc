#include "tune/execution/experiment_request.h"

#include <gtest/gtest.h>

#include "runtime/random.h"
#include "tests/tune/temporary_directory.h"

namespace volador::tune {
namespace {

TEST(ExperimentRequest, IsReadAsItWasAskedUntilItsFileIsRemoved) {
  const TemporaryDirectory folder;
  SeededRandom random(1);
  EXPECT_TRUE(experiment_requests(folder.path()).empty()) << "nobody asked";
  std::vector<std::filesystem::path> files;
  const auto ask = [&](RequestAct act, std::optional<TrialId> trial) {
    files.push_back(ask_of_experiment(folder.path(), act, trial, random).value());
    std::filesystem::last_write_time(files.back(), std::filesystem::file_time_type(std::chrono::seconds(files.size())));
  };
  ask(RequestAct::kStop, std::nullopt);
  ask(RequestAct::kPause, TrialId(0x3f2a90c1));
  ask(RequestAct::kResume, TrialId(0x3f2a90c1));
  ask(RequestAct::kPause, std::nullopt);
  const std::vector<RequestAsked> asked = experiment_requests(folder.path());
  ASSERT_EQ(asked.size(), 4U);
  for (size_t i = 0; i < asked.size(); ++i) EXPECT_EQ(asked[i].file, files[i]) << "in the order asked";
  EXPECT_EQ(asked[0].act, RequestAct::kStop);
  EXPECT_FALSE(asked[0].trial);
  EXPECT_EQ(asked[1].act, RequestAct::kPause);
  EXPECT_EQ(asked[1].trial, TrialId(0x3f2a90c1));
  EXPECT_EQ(asked[2].act, RequestAct::kResume);
  EXPECT_FALSE(asked[3].trial);
  for (const RequestAsked& one : asked) std::filesystem::remove(one.file);
  EXPECT_TRUE(experiment_requests(folder.path()).empty());
}

TEST(ExperimentRequest, WhatIsNoRequestIsRemovedAndMeansNothing) {
  const TemporaryDirectory folder;
  for (const char* text :
       {"", "[]", "{\"act\": \"add\"}", "{}", "{\"act\": \"explode\"}", "{\"act\": 3}",
        "{\"act\": \"stop\", \"trial\": 3}", "{\"act\": \"stop\", \"trial\": \"no\"}", "{\"trial\""}) {
    const auto file = folder.path() / "requests" / "stop-1.json";
    write_text(file, text);
    EXPECT_TRUE(experiment_requests(folder.path()).empty()) << text;
    EXPECT_FALSE(std::filesystem::exists(file)) << text;
  }
  write_text(folder.path() / "requests" / "notes.txt", "kept");
  write_text(folder.path() / "requests" / "notes.json", "kept");
  EXPECT_TRUE(experiment_requests(folder.path()).empty());
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "requests" / "notes.txt"));
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "requests" / "notes.json"));
}

TEST(ExperimentRequest, AConfigurationIsReadWholeAndARefusalReachesWhoAsked) {
  const TemporaryDirectory folder;
  SeededRandom random(1);
  const Config config{{"lr", 0.25}, {"model", {{"width", 32}}}};
  const auto file = ask_to_add(folder.path(), config, std::nullopt, random).value();
  auto asked = experiment_requests(folder.path());
  ASSERT_EQ(asked.size(), 1U);
  EXPECT_EQ(asked[0].act, RequestAct::kAdd);
  EXPECT_EQ(Config::from_json(asked[0].config).value(), config);
  answer_request(asked[0], Error{ErrorCode::kInvalidArgument, "config: lr is 3"});
  EXPECT_TRUE(experiment_requests(folder.path()).empty());
  const auto refused = await_request(folder.path(), file, std::chrono::milliseconds(100));
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(refused.error().message, "config: lr is 3");
  EXPECT_TRUE(std::filesystem::is_empty(folder.path() / "requests"));
  const auto taken = ask_to_add(folder.path(), config, std::nullopt, random).value();
  answer_request(experiment_requests(folder.path()).at(0));
  EXPECT_TRUE(await_request(folder.path(), taken, std::chrono::milliseconds(100)));
  const auto nobody = ask_to_add(folder.path(), config, std::nullopt, random).value();
  EXPECT_EQ(await_request(folder.path(), nobody, std::chrono::milliseconds(0)).error().code, ErrorCode::kNotFound);
  EXPECT_FALSE(std::filesystem::exists(nobody)) << "nobody takes it later";
  EXPECT_EQ(ask_to_add(folder.path(), Config(3), std::nullopt, random).error().code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(ask_to_add(folder.path(), {{"text", std::string(70'000, 'x')}}, std::nullopt, random).error().code,
            ErrorCode::kInvalidArgument);
  EXPECT_EQ(add_configuration(folder.path(), config).error().code, ErrorCode::kNotFound) << "no run is there";
  EXPECT_EQ(clone_trial(folder.path(), TrialId(7)).error().code, ErrorCode::kNotFound);
}

TEST(ExperimentRequest, ACloneNamesItsTrial) {
  const TemporaryDirectory folder;
  SeededRandom random(1);
  (void)ask_to_add(folder.path(), Config::map(), TrialId(0x3f2a90c1), random).value();
  const auto asked = experiment_requests(folder.path());
  ASSERT_EQ(asked.size(), 1U);
  EXPECT_EQ(asked[0].act, RequestAct::kAdd);
  EXPECT_EQ(asked[0].trial, TrialId(0x3f2a90c1));
  EXPECT_EQ(asked[0].config, "{}");
}

TEST(ExperimentRequest, TheLoopIsToldOfOneTrialOrOfAll) {
  EXPECT_TRUE(std::get<StopRequested>(event_of(RequestAct::kStop, std::nullopt)).whole);
  EXPECT_TRUE(std::get<ResumeRequested>(event_of(RequestAct::kResume, std::nullopt)).whole);
  const auto pause = std::get<PauseRequested>(event_of(RequestAct::kPause, TrialId(7)));
  EXPECT_FALSE(pause.whole);
  EXPECT_EQ(pause.trial, TrialId(7));
  for (const RequestAct act : {RequestAct::kStop, RequestAct::kPause, RequestAct::kResume, RequestAct::kAdd})
    EXPECT_EQ(request_act_of(to_string(act)), act);
  EXPECT_FALSE(request_act_of(""));
}

}  // namespace
}  // namespace volador::tune
