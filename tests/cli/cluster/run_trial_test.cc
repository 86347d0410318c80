// The commands that jobs of experiments run on their nodes, as the real binary, against a head of the test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <fstream>
#include <nlohmann/json.hpp>

#include "runtime/protocol/volador/v1/experiments.pb.h"
#include "tests/cli/cluster/run_volador.h"
#include "tests/cli/fake_head.h"

namespace volador::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

class RunTrial : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) { std::ofstream(user_.home() / name) << text; }
  void answer(std::vector<std::string> command, const std::string& entrypoint = R"("x")",
              const std::string& trial_class = "") {
    head_.on<v1::StartTrialRunRequest, v1::StartTrialRunReply>(
        "Experiments/StartTrialRun",
        [=, this](const v1::StartTrialRunRequest& request) -> Result<v1::StartTrialRunReply> {
          asked_ = request;
          v1::StartTrialRunReply reply;
          reply.mutable_trial()->set_id(request.trial());
          reply.mutable_trial()->set_run(request.run());
          reply.mutable_trial()->set_hparams("{\"lr\":0.1}");
          for (const std::string& word : command) reply.add_command(word);
          reply.set_trial_class(trial_class);
          reply.set_config("{\"entrypoint\":" + entrypoint + "}");
          (*reply.mutable_env())["DET_TRIAL_ID"] = std::to_string(request.trial());
          reply.set_slots_on_node(1);
          reply.set_slots(1);
          return reply;
        });
  }
  Finished run_trial(std::map<std::string, std::string> more = {}) {
    std::map<std::string, std::string> env{{"VOLADOR_ADDRESS", head_.address()},
                                           {"VOLADOR_TOKEN", head_.token()},
                                           {"VOLADOR_TRIAL", "7"},
                                           {"VOLADOR_TRIAL_RUN", "2"},
                                           {"VOLADOR_JOB_ID", "job-9"},
                                           {"VOLADOR_JOB_DIR", (folder_.path() / "job").string()},
                                           {"VOLADOR_JOB_RANK", "0"},
                                           {"VOLADOR_JOB_NODE", "first"},
                                           {"VOLADOR_JOB_NODES", "1"},
                                           {"VOLADOR_JOB_HOSTS", "127.0.0.1"}};
    for (auto& [name, value] : more) env[name] = value;
    return user_.run({"experiment", "run-trial"}, env);
  }

  cli::FakeHead head_;
  VoladorUser user_;
  TemporaryDirectory folder_;
  v1::StartTrialRunRequest asked_;
};

TEST_F(RunTrial, ReplacesItselfByTheEntrypoint) {
  answer({"echo $DET_TRIAL_ID $DET_AGENT_ID $DET_SLOT_IDS; pwd; ls $VOLADOR_INFO_DIR; ls -l /proc/self/fd | grep -cE "
          "'socket|anon_inode'; exit 3"},
         R"("echo …")");
  const Finished run = run_trial();
  EXPECT_EQ(run.code, 3) << run.error;
  EXPECT_EQ(run.error, "");
  // No connection stays open.
  EXPECT_EQ(run.out, "7 first [0]\n" + user_.home().string() +
                         "\ncluster.json\nconfig.json\nrendezvous.json\nresources.json\nstorage.json\ntrial.json\n0\n");
  EXPECT_EQ(asked_.trial(), 7);
  EXPECT_EQ(asked_.run(), 2);
  EXPECT_EQ(asked_.nodes(), 1);
  EXPECT_EQ(asked_.node(), "first");
  namespace fs = std::filesystem;
  for (const auto& entry : fs::directory_iterator(folder_.path() / "job/trial"))
    EXPECT_EQ(entry.status().permissions(), fs::perms::owner_read | fs::perms::owner_write) << entry << " has secrets";
}

TEST_F(RunTrial, AStartupHookChangesTheEnvironment) {
  write("startup-hook.sh", "export LIBRARY=installed\n");
  answer({"bash", "-c", "echo $LIBRARY \"$0\"", "a b"}, R"(["bash"])");
  EXPECT_EQ(run_trial().out, "installed a b\n");
  write("startup-hook.sh", "echo no such package >&2\n(exit 5)\necho never\n");
  const Finished failed = run_trial();
  EXPECT_EQ(failed.code, 5);
  EXPECT_EQ(failed.out, "");
  EXPECT_EQ(failed.error, "no such package\n");
}

TEST_F(RunTrial, AsksAHeadThatIsAwayAgain) {
  std::atomic<int> calls = 0;
  head_.on<v1::StartTrialRunRequest, v1::StartTrialRunReply>(
      "Experiments/StartTrialRun", [&](const v1::StartTrialRunRequest&) -> Result<v1::StartTrialRunReply> {
        if (++calls < 3) return make_error(ErrorCode::kUnavailable, "the head is starting");
        v1::StartTrialRunReply reply;
        reply.add_command("true");
        return reply;
      });
  const Finished run = run_trial();
  EXPECT_EQ(run.code, 0) << run.error;
  EXPECT_EQ(calls, 3);
  EXPECT_THAT(run.error, HasSubstr("asked again for up to 10 minutes: the head is starting"));
}

TEST_F(RunTrial, AnEarlierRunEndsWithoutAnError) {
  head_.on<v1::StartTrialRunRequest, v1::StartTrialRunReply>(
      "Experiments/StartTrialRun", [](const v1::StartTrialRunRequest&) -> Result<v1::StartTrialRunReply> {
        return make_error(ErrorCode::kCancelled, "trial 7 is in its run 3");
      });
  const Finished run = run_trial();
  EXPECT_EQ(run.code, 0);
  EXPECT_EQ(run.error, "run 2 of trial 7 does not start: trial 7 is in its run 3\n");
}

TEST_F(RunTrial, SaysWhatCannotBeStarted) {
  answer({"./no-such-program"}, R"(["./no-such-program"])");
  const Finished run = run_trial();
  EXPECT_EQ(run.code, 127);
  EXPECT_THAT(run.error, HasSubstr("entrypoint: ./no-such-program cannot be started on node first: No such file"));
  answer({}, R"("model_def:Digits")", "model_def:Digits");
  write("python3", "#!/bin/sh\nexit 0\n");
  std::filesystem::permissions(user_.home() / "python3", std::filesystem::perms::all);
  const Finished without = run_trial({{"PATH", user_.home().string() + ":/usr/bin:/bin"}});
  EXPECT_EQ(without.code, 1);
  EXPECT_THAT(without.error, HasSubstr("the Python package volador, which runs it, is not installed"));
  EXPECT_EQ(run_trial({{"VOLADOR_TRIAL", ""}}).code, 2);
}

TEST_F(RunTrial, FindsThePackageOfPython) {
  // As the search for the package prints it.
  write(
      "python3",
      "#!/bin/sh\nif [ \"$1\" = -S ]; then printf /site/volador/compat/shims; else echo \"$PYTHONPATH\" \"$@\"; fi\n");
  std::filesystem::permissions(user_.home() / "python3", std::filesystem::perms::all);
  answer({}, R"("model_def:Digits")", "model_def:Digits");
  const Finished run = run_trial({{"PATH", user_.home().string() + ":/usr/bin:/bin"}, {"PYTHONPATH", "/mine"}});
  EXPECT_EQ(run.code, 0) << run.error;
  EXPECT_EQ(run.out, "/mine:/site/volador/compat/shims -m volador.determined --trial\n");
}

class RunGarbage : public RunTrial {
 protected:
  void answer_garbage(std::vector<std::string> ids, const std::string& storage, bool whole = false) {
    head_.on<v1::GetGarbageRequest, v1::GetGarbageReply>(
        "Experiments/GetGarbage", [=](const v1::GetGarbageRequest&) -> Result<v1::GetGarbageReply> {
          v1::GetGarbageReply reply;
          reply.set_storage(storage);
          reply.set_whole(whole);
          for (const std::string& id : ids) reply.add_ids(id);
          return reply;
        });
    head_.on<v1::ReportGarbageRequest, v1::ReportGarbageReply>(
        "Experiments/ReportGarbage", [this](const v1::ReportGarbageRequest& request) -> Result<v1::ReportGarbageReply> {
          report_ = request;
          return v1::ReportGarbageReply();
        });
  }
  Finished run_gc() {
    return user_.run({"experiment", "run-gc"}, {{"VOLADOR_ADDRESS", head_.address()},
                                                {"VOLADOR_TOKEN", head_.token()},
                                                {"VOLADOR_JOB_NODE", "first"},
                                                {"VOLADOR_EXPERIMENT", "3"}});
  }
  v1::ReportGarbageRequest report_;
};

TEST_F(RunGarbage, DeletesCheckpointsCompleteOrNot) {
  namespace fs = std::filesystem;
  const fs::path shared = folder_.path() / "shared";
  fs::create_directories(shared / "aaaa" / "empty");
  fs::create_directories(shared / "cccc");
  std::ofstream(shared / "aaaa" / "weights.pt") << "w";
  answer_garbage({"aaaa", "bbbb"}, R"({"type":"shared_fs","host_path":")" + shared.string() + "\"}");
  const Finished run = run_gc();
  EXPECT_EQ(run.code, 0) << run.error;
  EXPECT_EQ(run.out, "experiment 3: 2 of 2 checkpoints are deleted\n");
  EXPECT_THAT(report_.deleted(), ElementsAre("aaaa", "bbbb")) << "one that is absent is deleted";
  EXPECT_FALSE(fs::exists(shared / "aaaa"));
  EXPECT_TRUE(fs::exists(shared / "cccc"));
}

TEST_F(RunGarbage, DeletesTheEventFilesOfAWholeExperiment) {
  namespace fs = std::filesystem;
  const fs::path events = folder_.path() / "tensorboard/experiment";
  fs::create_directories(events / "3/trial/1");
  fs::create_directories(events / "30/trial/1");
  const std::string storage = R"({"type":"directory","container_path":")" + folder_.path().string() + "\"}";
  answer_garbage({}, storage, /*whole=*/false);
  EXPECT_EQ(run_gc().code, 0);
  EXPECT_TRUE(fs::exists(events / "3"));
  answer_garbage({}, storage, /*whole=*/true);
  EXPECT_EQ(run_gc().code, 0);
  EXPECT_FALSE(fs::exists(events / "3"));
  EXPECT_TRUE(fs::exists(events / "30"));
  answer_garbage({}, R"({"type":"directory","container_path":"/nowhere"})", /*whole=*/true);
  EXPECT_EQ(run_gc().code, 0) << "it was never used";
}

TEST_F(RunGarbage, ReportsWhatItCannotDelete) {
  answer_garbage({"aaaa"}, R"({"type":"shared_fs","host_path":"/nowhere"})");
  const Finished run = run_gc();
  EXPECT_EQ(run.code, 1);
  EXPECT_THAT(report_.failed(), ElementsAre("aaaa"));
  EXPECT_THAT(report_.error(), HasSubstr("/nowhere: there is no such folder on node first"));
  const std::string storage = R"({"type":"shared_fs","host_path":")" + folder_.path().string() + "\"}";
  answer_garbage({"../x", "a/b"}, storage);
  EXPECT_EQ(run_gc().code, 1);
  EXPECT_THAT(report_.failed(), UnorderedElementsAre("../x", "a/b")) << "nothing outside of its folder";
}

}  // namespace
}  // namespace volador::testing
