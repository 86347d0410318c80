#include "tune/experiment_request.h"

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
       {"", "[]", "{}", "{\"act\": \"explode\"}", "{\"act\": 3}", "{\"act\": \"stop\", \"trial\": 3}",
        "{\"act\": \"stop\", \"trial\": \"no\"}", "{\"trial\""}) {
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

TEST(ExperimentRequest, TheLoopIsToldOfOneTrialOrOfAll) {
  EXPECT_TRUE(std::get<StopRequested>(event_of(RequestAct::kStop, std::nullopt)).whole);
  EXPECT_TRUE(std::get<ResumeRequested>(event_of(RequestAct::kResume, std::nullopt)).whole);
  const auto pause = std::get<PauseRequested>(event_of(RequestAct::kPause, TrialId(7)));
  EXPECT_FALSE(pause.whole);
  EXPECT_EQ(pause.trial, TrialId(7));
  for (const RequestAct act : {RequestAct::kStop, RequestAct::kPause, RequestAct::kResume})
    EXPECT_EQ(request_act_of(to_string(act)), act);
  EXPECT_FALSE(request_act_of(""));
}

}  // namespace
}  // namespace volador::tune
