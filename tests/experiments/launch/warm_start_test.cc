#include "experiments/launch/warm_start.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/protocol/volador/v1/experiments.pb.h"

namespace volador::experiments {
namespace {

using ::testing::ElementsAre;
using ::testing::Optional;
using Variables = std::map<std::string, std::string>;
using Words = std::vector<std::string>;

class WarmStart : public ::testing::Test {
 protected:
  WarmStart() {
    node_.hosts = {"first"};
    node_.shims = "/site/volador/compat/shims";
  }
  std::optional<Words> words_of(Words command, const Variables& variables = {}) {
    TrialLaunch launch;
    launch.command = std::move(command);
    return warm_words(run_, node_, launch, variables);
  }

  v1::StartTrialRunReply run_;
  TrialNode node_;
};

TEST_F(WarmStart, AScriptAndATrialClass) {
  EXPECT_THAT(words_of({"python3", "train.py", "a b"}), Optional(ElementsAre("train.py", "a b")));
  EXPECT_THAT(words_of({"bash", "-c", "python3 src/train.py --rate=0.1"}),
              Optional(ElementsAre("src/train.py", "--rate=0.1")));
  EXPECT_FALSE(words_of({"python3", "-m", "volador.determined", "--trial"})) << "the command of a user";
  run_.set_trial_class("model_def:Digits");
  EXPECT_THAT(words_of({"python3", "-m", "volador.determined", "--trial"}),
              Optional(ElementsAre("-m", "volador.determined", "--trial")));
}

TEST_F(WarmStart, OtherCommandsAreNewProcesses) {
  for (const Words& command :
       {Words{"bash", "-c", "python3 train.py > log"}, Words{"bash", "-c", "python3 train.py $HOME"},
        Words{"bash", "-c", "python3 'train.py'"}, Words{"bash", "-c", "RATE=1 python3 train.py"},
        Words{"bash", "-c", "python3 train.py; echo"}, Words{"bash", "-c", "python3 *.py"},
        Words{"python3", "-u", "train.py"}, Words{"python3", "-c", "1"}, Words{"python3"}, Words{"python", "train.py"},
        Words{"/opt/python3", "train.py"}, Words{"./train.py"},
        Words{"python3", "-m", "determined.launch.torch_distributed", "python3", "train.py"},
        Words{"python3", "-m", "torch.distributed.run", "--nproc_per_node", "2"}}) {
    EXPECT_FALSE(words_of(command)) << ::testing::PrintToString(command);
  }
}

TEST_F(WarmStart, WhatARunNeedsBesideTheCommand) {
  const Words command = {"python3", "train.py"};
  EXPECT_FALSE(words_of(command, {{"VOLADOR_WARM_START", "0"}}));
  EXPECT_TRUE(words_of(command, {{"VOLADOR_WARM_START", "1"}}));
  EXPECT_FALSE(words_of(command, {{"PYTHONPATH", "/site:lib"}}));
  EXPECT_FALSE(words_of(command, {{"PYTHONPATH", "/site:"}}));
  EXPECT_TRUE(words_of(command, {{"PYTHONPATH", "/site:/lib"}}));
  EXPECT_FALSE(words_of(command, {{"PYTHONSAFEPATH", "1"}}));
  run_.set_collection("{}");
  EXPECT_FALSE(words_of(command));
  run_.clear_collection();
  node_.has_startup_hook = true;
  EXPECT_FALSE(words_of(command));
  node_.has_startup_hook = false;
  node_.hosts = {"first", "second"};
  EXPECT_FALSE(words_of(command));
  node_.hosts = {"first"};
  node_.shims.clear();
  EXPECT_FALSE(words_of(command)) << "the package is not installed";
}

TEST_F(WarmStart, RunsShareWhatIsNotOfOneRun) {
  const Variables own = {{"DET_HPARAMS", "{}"},    {"VOLADOR_TRIAL_RUN", "2"}, {"VOLADOR_TOKEN", "secret"},
                         {"VOLADOR_JOB_ID", "7"},  {"PWD", "/scratch/1"},      {"MASTER_PORT", "29500"},
                         {"VOLADOR_INFO_DIR", "/"}};
  const Variables shared = {{"PATH", "/bin"}, {"OMP_NUM_THREADS", "2"}, {"VOLADOR_NODE_ID", "218f"}};
  Variables all = own;
  all.insert(shared.begin(), shared.end());
  EXPECT_EQ(shared_variables(all), shared);
}

}  // namespace
}  // namespace volador::experiments
