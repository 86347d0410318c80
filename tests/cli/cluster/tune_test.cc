// volador tune … on runs of real programs: ended, running and killed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include <chrono>
#include <thread>

#include "tests/built_program.h"
#include "tests/cli/cluster/run_volador.h"

namespace volador::testing {
namespace {

using ::testing::HasSubstr;

class TuneRuns : public ::testing::Test {
 protected:
  int wait_for(pid_t pid) {
    int status = 0;
    ::waitpid(pid, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  nlohmann::json only_run() {
    const Finished listed = user_.run({"tune", "list", "--json"});
    const nlohmann::json runs = listed.code == 0 ? listed.json()["runs"] : nlohmann::json::array();
    return runs.size() == 1 ? runs[0] : nlohmann::json();
  }
  // Returns the run once it has this state and number of trials; null after 20 s.
  nlohmann::json await_run(const std::string& state, int trials) {
    for (int i = 0; i < 200; ++i) {
      const nlohmann::json run = only_run();
      if (!run.is_null() && run["state"] == state && run["trials"] >= trials) return run;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    return {};
  }
  VoladorUser user_;
};

TEST_F(TuneRuns, AnEndedRunIsShownExportedAndCompared) {
  ASSERT_EQ(wait_for(user_.start(built_program("tune_quadratic"), {})), 0);
  const nlohmann::json run = only_run();
  ASSERT_FALSE(run.is_null());
  EXPECT_EQ(run["state"], "finished");
  EXPECT_EQ(run["trials"], 20);
  const std::string directory = run["directory"];
  const nlohmann::json shown = user_.run({"tune", "show", directory, "--json"}).json();
  EXPECT_EQ(shown["best"]["trial_id"], run["best_trial"]);
  EXPECT_EQ(shown["trials"].size(), 20U);
  EXPECT_LT(shown["best"]["value"].get<double>(), 1);
  const nlohmann::json exported = user_.run({"tune", "export", directory, "--json=-"}).json();
  for (const auto& trial : exported["trials"])
    EXPECT_EQ(trial["results"].size(), trial["step_max"].get<size_t>()) << trial["trial_id"];
  for (const auto& trial : shown["trials"]) {
    const nlohmann::json why = user_.run({"tune", "why", directory, trial["trial_id"], "--json"}).json();
    const nlohmann::json decision = why["moments"].back()["decision"];
    EXPECT_EQ(decision["act"], trial["status"]) << why;
    EXPECT_EQ(decision["step"], trial["steps"]) << why;
    if (trial["status"] == "stopped") {
      EXPECT_GT(decision["rank"], decision["pass"]) << why;
      EXPECT_THAT(trial["reason"].get<std::string>(), HasSubstr(decision["text"].get<std::string>()));
    }
  }
  EXPECT_EQ(user_.run({"tune", "why", directory, "no"}).code, 6);
  const Finished drawn = user_.run({"tune", "plot", directory, "--json"});
  EXPECT_EQ(drawn.code, 0) << drawn.error;
  EXPECT_EQ(drawn.json()["plots"].size(), 5U) << "all but the front: it has one metric";
  EXPECT_THAT(drawn.error, HasSubstr("no pareto: "));
  const Finished bars = user_.run({"tune", "plot", directory, "--kind=gantt", "--out=-"});
  EXPECT_THAT(bars.out, HasSubstr("20 trials"));
  for (const auto& trial : shown["trials"])
    EXPECT_THAT(bars.out, HasSubstr("trial " + trial["trial_id"].get<std::string>()));
  const Finished replayed = user_.run({"tune", "replay", directory, "--json"});
  EXPECT_EQ(replayed.code, 0) << replayed.error << replayed.out;
  EXPECT_EQ(replayed.json()["differences"], 0);
  EXPECT_EQ(replayed.json()["suggestions"], 20);
  const Finished simulated =
      user_.run({"tune", "simulate", directory, "--schedulers", "fifo", "asha:reduction_factor=3", "--json"});
  EXPECT_EQ(simulated.code, 0) << simulated.error;
  EXPECT_EQ(simulated.json()["schedulers"][0]["finished"], 20);
  const nlohmann::json compared = user_.run({"tune", "compare", directory, directory, "--json"}).json();
  EXPECT_EQ(compared["runs"][1]["value"], run["best_value"]);
}

TEST_F(TuneRuns, ARunIsSeenWhileItGoesOnAndAfterItsProgramWasKilled) {
  const pid_t driver = user_.start(built_program("tune_sleep"),
                                   {"--num-samples=2", "--seconds=600", "--reports=6000", "--cluster-cpus=2"});
  const nlohmann::json running = await_run("running", 0);
  ASSERT_FALSE(running.is_null());
  EXPECT_THAT(user_.run({"tune", "plot", running["directory"], "--kind=gantt", "--out=-"}).out, HasSubstr("goes on"));
  ::kill(driver, SIGKILL);
  wait_for(driver);
  EXPECT_EQ(only_run()["state"], "crashed");
  const Finished shown = user_.run({"tune", "show", running["directory"]});
  EXPECT_EQ(shown.code, 0) << shown.error;
  EXPECT_THAT(shown.out, HasSubstr("volador tune resume goes on"));
}

TEST_F(TuneRuns, ATrialAndThenTheRunStopOnRequest) {
  const pid_t driver = user_.start(built_program("tune_sleep"), {"--num-samples=8", "--seconds=600", "--reports=6000",
                                                                 "--checkpoint-frequency=100", "--cluster-cpus=2"});
  const nlohmann::json running = await_run("running", 0);
  ASSERT_FALSE(running.is_null());
  const std::string directory = running["directory"];
  std::string first;  // The trial to start first.
  for (int i = 0; i < 200 && first.empty(); ++i) {
    const Finished drawn = user_.run({"tune", "plot", directory, "--kind=gantt", "--out=-"});
    if (const size_t at = drawn.out.find("<title>trial "); at != std::string::npos)
      first = drawn.out.substr(at + 13, 8);
    if (first.empty()) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  ASSERT_FALSE(first.empty());
  EXPECT_EQ(user_.run({"tune", "stop", directory, "zz"}).code, 6);
  const Finished one = user_.run({"tune", "stop", directory, first, "--json"});
  EXPECT_EQ(one.code, 0) << one.error;
  EXPECT_EQ(one.json()["trial"], first);
  EXPECT_EQ(user_.run({"tune", "add", directory, "[3]"}).code, 2);
  EXPECT_THAT(user_.run({"tune", "add", directory, "{\"quality\": 9}"}).error,
              HasSubstr("config: quality is 9: expected a value of"));
  const Finished added = user_.run({"tune", "add", directory, "{\"quality\": 0.5}"});
  EXPECT_EQ(added.code, 0) << added.error;
  EXPECT_EQ(user_.run({"tune", "add", directory}).code, 2);
  EXPECT_EQ(user_.run({"tune", "add", directory, "--like=zz"}).code, 6);
  EXPECT_THAT(user_.run({"tune", "add", directory, "--like=" + first, "{\"width\": 9}"}).error,
              HasSubstr("the space has no such parameter"));
  const Finished cloned =
      user_.run({"tune", "add", directory, "--like=" + first.substr(0, 5), "{\"quality\": 0.25}", "--json"});
  EXPECT_EQ(cloned.code, 0) << cloned.error;
  EXPECT_EQ(cloned.json()["trial"], first);
  EXPECT_EQ(user_.run({"tune", "stop", "moon"}).code, 6);
  const Finished all = user_.run({"tune", "stop", "sleep"});
  EXPECT_EQ(all.code, 0) << all.error;
  EXPECT_THAT(all.out, HasSubstr("save a checkpoint"));
  wait_for(driver);
  const nlohmann::json shown = user_.run({"tune", "show", directory, "--json"}).json();
  EXPECT_EQ(shown["state"], "interrupted");
  EXPECT_EQ(shown["reason"], "stopped on request");
  EXPECT_THAT(shown["notices"].dump(), HasSubstr("cloned from trial " + first)) << "it waits behind the others";
  for (const auto& trial : shown["trials"]) {
    EXPECT_TRUE(trial["cloned_from"].is_null());
    EXPECT_EQ(trial["status"], trial["trial_id"] == first ? "stopped" : "interrupted");
    if (trial["trial_id"] == first) {
      EXPECT_EQ(trial["reason"], "stopped on request");
    }
  }
  EXPECT_THAT(user_.run({"tune", "why", directory, first}).out, HasSubstr("somebody asked for it to stop"));
  EXPECT_EQ(user_.run({"tune", "stop", directory}).code, 6) << "no program runs it";
  EXPECT_EQ(user_.run({"tune", "stop", (user_.home() / "nowhere").native()}).code, 6);
}

TEST_F(TuneRuns, AKilledRunIsResumedByItsOwnProgram) {
  const pid_t driver = user_.start(built_program("tune_sleep"), {"--num-samples=4", "--seconds=4", "--reports=8",
                                                                 "--checkpoint-frequency=1", "--cluster-cpus=2"});
  const nlohmann::json running = await_run("running", 0);
  ASSERT_FALSE(running.is_null());
  const std::string directory = running["directory"];
  const Finished already = user_.run({"tune", "resume", directory});
  EXPECT_EQ(already.code, 0) << already.error;
  EXPECT_THAT(already.out, HasSubstr("what was paused waits for places again"))
      << "its program runs: no other one is started";
  ::kill(driver, SIGKILL);
  wait_for(driver);
  const Finished resumed = user_.run({"tune", "resume", directory});
  EXPECT_EQ(resumed.code, 0) << resumed.error;
  const nlohmann::json after = only_run();
  EXPECT_EQ(after["directory"], directory) << "no second run";
  EXPECT_EQ(after["state"], "finished");
  EXPECT_EQ(after["trials_by_status"]["finished"], 4);
  EXPECT_EQ(user_.run({"tune", "resume", (user_.home() / "nowhere").native()}).code, 6);
}

}  // namespace
}  // namespace volador::testing
