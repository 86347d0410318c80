#include "jobs/launch/launch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "jobs/launch/command_check.h"

namespace volador::jobs {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using LaunchWords = std::vector<std::string>;
using LaunchEnv = std::map<std::string, std::string>;

std::string launch_joined(const LaunchWords& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : " ") + word;
  return text;
}

std::string launch_error(const Result<Launch>& launch) {
  return launch ? "launched: " + launch_joined(launch->command) : launch.error().message;
}

std::string check_error(const LaunchWords& command) {
  const Result<void> checked = check_command(command);
  return checked ? std::string() : checked.error().message;
}

// Standard output of a command line of the shell.
std::string shell_output(const std::string& line) {
  FILE* pipe = ::popen(line.c_str(), "r");
  if (pipe == nullptr) return "popen failed";
  std::string output;
  std::array<char, 256> buffer{};
  while (const size_t read = std::fread(buffer.data(), 1, buffer.size(), pipe)) output.append(buffer.data(), read);
  const int status = ::pclose(pipe);
  return status == 0 ? output : output + "[status " + std::to_string(status) + "]";
}

LaunchRequest launch_request(LaunchMode mode, int nodes, int slots, int rank, LaunchWords command) {
  LaunchRequest request{.mode = mode, .command = std::move(command), .slots = slots, .rank = rank};
  for (int i = 1; i <= nodes; ++i) request.hosts.push_back("server" + std::to_string(i));
  request.file_root = mode == LaunchMode::kDeepSpeed ? "/job" : "/etc/mpi";
  return request;
}

Launch launched(const LaunchRequest& request) {
  Result<Launch> launch = make_launch(request);
  EXPECT_TRUE(launch) << launch_error(launch);
  return launch ? *std::move(launch) : Launch{};
}

const LaunchWords kTrain = {"python", "/workspace/algorithm/train.py"};

TEST(LaunchModeTest, EachNameParsesBack) {
  const std::vector<std::pair<LaunchMode, std::string>> modes = {
      {LaunchMode::kSingle, "single"},         {LaunchMode::kTorch, "torch"}, {LaunchMode::kTorchrun, "torchrun"},
      {LaunchMode::kHorovod, "horovod"},       {LaunchMode::kMpi, "mpi"},     {LaunchMode::kDeepSpeed, "deepspeed"},
      {LaunchMode::kTensorFlow, "tensorflow"},
  };
  for (const auto& [mode, name] : modes) {
    EXPECT_EQ(to_string(mode), name);
    const Result<LaunchMode> parsed = parse_launch_mode(name);
    ASSERT_TRUE(parsed) << name;
    EXPECT_EQ(*parsed, mode);
  }
}

TEST(LaunchModeTest, AnUnknownNameIsAnswered) {
  EXPECT_EQ(parse_launch_mode("tensorfow").error().message,
            "launch mode: expected one of single, torch, torchrun, horovod, mpi, deepspeed, tensorflow, got "
            "\"tensorfow\"; did you mean tensorflow?");
  EXPECT_EQ(parse_launch_mode("").error().message,
            "launch mode: expected one of single, torch, torchrun, horovod, mpi, deepspeed, tensorflow, got \"\"");
  EXPECT_EQ(parse_launch_mode("Torch").error().code, ErrorCode::kInvalidArgument);
}

TEST(CommandCheckTest, AcceptsSingleStatements) {
  const std::vector<LaunchWords> commands = {
      {"python", "train.py"},
      {"bash", "-c", "KEY=VALUE python3 train.py && python3 evaluate.py"},
      {"sh", "-c", "a; b & c | d > e 2>&1;"},
      {"/bin/bash", "-euxo", "pipefail", "-c", "a && b;"},
      {"bash", "-c", "&"},
      {"env", "KEY=VALUE", "bash", "-lc", "train;"},
      {"mpirun", "-np", "4", "sh", "-c", "a;"},
      {"python", "train.py", "lr=0.1", "--note", "a;b"},
      {"python", "train.py", "a&&b", "x|y", "c>d", ">=1.0", "2>file"},
      {"python", "-c", "import a; print(1);"},
      {"python", "-c", "print(1);"},
      {"python", "train.py", "--title", "this & that &"},
      {"python", "train.py", ""},
      {"torchrun", "--nnodes", "${WORLD_SIZE}", "train.py"},
      {"/opt/a=b/python", "train.py"},
      {"1A=B"},
      {"python", "train.py", "-"},
      {"grep", "-e", "x;", "file"},
  };
  for (const LaunchWords& command : commands) EXPECT_EQ(check_error(command), "") << launch_joined(command);
}

TEST(CommandCheckTest, RejectsWhatOnlyAShellExecutes) {
  const std::vector<std::pair<LaunchWords, std::string>> commands = {
      {{"KEY=VALUE", "python3", "train.py"}, "bash -c 'KEY=VALUE python3 train.py'"},
      {{"A=x y", "B+=", "python3", "t.py", "C=d e"}, R"(bash -c 'A='\''x y'\'' B+= python3 t.py '\''C=d e'\''')"},
      {{"python3", "train.py", "&&", "python3", "evaluate.py"}, "bash -c 'python3 train.py && python3 evaluate.py'"},
      {{"a", "||", "K=1", "b"}, "bash -c 'a || K=1 b'"},
      {{"a", "||", "K=x y", "b"}, R"(bash -c 'a || K='\''x y'\'' b')"},
      {{"a", "${RANK", ";", "b"}, R"(bash -c 'a '\''${RANK'\'' ; b')"},
      {{"sh", "-c", "&", "&&", "b"}, R"(bash -c 'sh -c '\''&'\'' && b')"},
      {{"sh", "-ec", "a;", "&&", "b"}, R"(bash -c 'sh -ec '\''a;'\'' && b')"},
      {{"a", ";", "b"}, "bash -c 'a ; b'"},
      {{"a", "|", "tee", "log file"}, R"(bash -c 'a | tee '\''log file'\''')"},
      {{"a", "|&", "b"}, "bash -c 'a |& b'"},
      {{"a", ">", "out"}, "bash -c 'a > out'"},
      {{"a", ">>", "out", "2>&1"}, "bash -c 'a >> out 2>&1'"},
      {{"a", "<", "in"}, "bash -c 'a < in'"},
      {{"a", "2>", "/dev/null"}, "bash -c 'a 2> /dev/null'"},
      {{"a", "&>", "/dev/null"}, "bash -c 'a &> /dev/null'"},
      {{"a", "12>&-"}, "bash -c 'a 12>&-'"},
      {{"a", "<<<", "text"}, "bash -c 'a <<< text'"},
      {{"a", "&", "b"}, "bash -c 'a & b'"},
      {{"a", "&"}, "bash -c 'a'"},
      {{"python", "train.py;", "python", "evaluate.py"}, "bash -c 'python train.py; python evaluate.py'"},
      {{"python", "train.py&", "K=1", "b"}, "bash -c 'python train.py& K=1 b'"},
      {{"python", "train.py;"}, "bash -c 'python train.py'"},
      {{"&&", "a"}, "bash -c 'a'"},
      {{"python", "t.py", "--rank", "${RANK}", "$(date)", "&&", "b"},
       R"(bash -c 'python t.py --rank "${RANK}" '\''$(date)'\'' && b')"},
      {{"bash", "-c", "a && b", "&&", "c"}, R"(bash -c 'bash -c '\''a && b'\'' && c')"},
      {{"bash", "train.sh", "&&", "c"}, "bash -c 'bash train.sh && c'"},
      {{"", "python", "train.py"}, "bash -c 'python train.py'"},
  };
  for (const auto& [command, hint] : commands) {
    const Result<void> checked = check_command(command);
    ASSERT_FALSE(checked) << launch_joined(command);
    EXPECT_EQ(checked.error().code, ErrorCode::kInvalidArgument);
    EXPECT_TRUE(checked.error().message.ends_with(hint)) << checked.error().message << "\nexpected " << hint;
    EXPECT_EQ(shell_output("bash -n" + hint.substr(4) + " 2>&1"), "") << "bash cannot parse " << hint;
  }
}

TEST(CommandCheckTest, MessagesNameTheWordAndTheRule) {
  EXPECT_EQ(
      check_error({"KEY=VALUE", "python3", "train.py"}),
      "command: \"KEY=VALUE\" is an assignment of a variable, but the first word must be an executable; the command "
      "is executed without a shell, so start one: bash -c 'KEY=VALUE python3 train.py'");
  EXPECT_EQ(check_error({"a", "&&", "b"}),
            "command: \"&&\" is an operator of the shell; the command is executed without a shell, so start one: "
            "bash -c 'a && b'");
  EXPECT_THAT(check_error({"a", "b;", "c"}), HasSubstr("\"b;\" ends with \";\", an operator of the shell"));
  EXPECT_THAT(check_error({}), HasSubstr("got no words"));
  EXPECT_THAT(check_error({""}), HasSubstr("got an empty word"));
  EXPECT_THAT(check_error({"a", std::string("b\0c", 3)}), HasSubstr("word 2 contains a zero byte"));
}

TEST(CommandCheckTest, TheShownCommandLineWorks) {
  const LaunchWords command = {"TEXT=a  'b'", "printenv",    "TEXT",    "&&", "printf", "%s|",
                               "it's",        "\"$HOME\" *", "`false`", "",   "\\n",    "x\ny"};
  const Result<void> checked = check_command(command);
  ASSERT_FALSE(checked);
  const std::string& message = checked.error().message;
  EXPECT_EQ(shell_output(message.substr(message.find("bash -c"))), "a  'b'\nit's|\"$HOME\" *|`false`||\\n|x\ny|");
  EXPECT_EQ(shell_output(bash_command_line({"N=3", ";", "printf", "%s", "${N}-$N", ">", "/dev/stdout"})), "3-3");
}

TEST(CommandCheckTest, FindsTheCodeOfAShell) {
  EXPECT_EQ(shell_code_index({"bash", "-c", "x"}), 2u);
  EXPECT_EQ(shell_code_index({"env", "A=1", "/bin/sh", "-ec", "x", "y"}), 4u);
  EXPECT_EQ(shell_code_index({"bash", "-c", "-x", "code"}), 3u);
  EXPECT_EQ(shell_code_index({"bash", "--rcfile", "c", "-o", "pipefail", "-c", "code"}), 6u);
  EXPECT_EQ(shell_code_index({"bash", "train.sh", "-c", "x"}), std::nullopt);
  EXPECT_EQ(shell_code_index({"bash", "-c"}), std::nullopt);
  EXPECT_EQ(shell_code_index({"python", "-c", "x"}), std::nullopt);
  EXPECT_EQ(shell_code_index({}), std::nullopt);
}

TEST(LaunchTest, SingleRunsTheCommandUnchanged) {
  const LaunchWords command = {"python3", "-u", "a b.py", "", "${RANK}", "mpirun;x"};
  const Launch launch = launched(launch_request(LaunchMode::kSingle, 1, 4, 0, command));
  EXPECT_EQ(launch.command, command);
  EXPECT_EQ(
      launch.env,
      (LaunchEnv{
          {"SLOTS", "4"}, {"VOLADOR_JOB_HOSTS", "server1"}, {"VOLADOR_JOB_NODES", "1"}, {"VOLADOR_JOB_RANK", "0"}}));
  EXPECT_THAT(launch.files, IsEmpty());
}

TEST(LaunchTest, SingleOnSeveralNodesHasAMaster) {
  for (const auto& [nodes, slots] : {std::pair(2, 4), std::pair(4, 4), std::pair(2, 1)}) {
    for (int rank = 0; rank < 2; ++rank) {
      const Launch launch = launched(launch_request(LaunchMode::kSingle, nodes, slots, rank, kTrain));
      EXPECT_EQ(launch.command, kTrain);
      EXPECT_EQ(launch.env,
                (LaunchEnv{{"MASTER_ADDR", "server1"},
                           {"MASTER_PORT", "2222"},
                           {"RANK", std::to_string(rank)},
                           {"SLOTS", std::to_string(slots)},
                           {"VOLADOR_JOB_HOSTS", nodes == 2 ? "server1,server2" : "server1,server2,server3,server4"},
                           {"VOLADOR_JOB_NODES", std::to_string(nodes)},
                           {"VOLADOR_JOB_RANK", std::to_string(rank)},
                           {"WORLD_SIZE", std::to_string(nodes)}}));
    }
  }
}

std::string torch_line(LaunchMode mode, int nodes, int slots, int rank, LaunchWords command = kTrain) {
  return launch_joined(launched(launch_request(mode, nodes, slots, rank, std::move(command))).command);
}

TEST(LaunchTest, TorchAddsTheLauncher) {
  EXPECT_EQ(torch_line(LaunchMode::kTorch, 2, 4, 0),
            "python -m torch.distributed.launch --nproc_per_node=4 --nnodes=2 --node_rank=0 --master_addr=localhost "
            "--master_port=2222 /workspace/algorithm/train.py");
  EXPECT_EQ(torch_line(LaunchMode::kTorch, 2, 4, 1),
            "python -m torch.distributed.launch --nproc_per_node=4 --nnodes=2 --node_rank=1 --master_addr=server1 "
            "--master_port=2222 /workspace/algorithm/train.py");
  EXPECT_EQ(torch_line(LaunchMode::kTorch, 4, 4, 0),
            "python -m torch.distributed.launch --nproc_per_node=4 --nnodes=4 --node_rank=0 --master_addr=localhost "
            "--master_port=2222 /workspace/algorithm/train.py");
  EXPECT_EQ(torch_line(LaunchMode::kTorch, 4, 4, 3),
            "python -m torch.distributed.launch --nproc_per_node=4 --nnodes=4 --node_rank=3 --master_addr=server1 "
            "--master_port=2222 /workspace/algorithm/train.py");
  EXPECT_EQ(torch_line(LaunchMode::kTorch, 2, 1, 0),
            "python -m torch.distributed.launch --nproc_per_node=1 --nnodes=2 --node_rank=0 --master_addr=localhost "
            "--master_port=2222 /workspace/algorithm/train.py");
  EXPECT_EQ(torch_line(LaunchMode::kTorch, 2, 1, 1),
            "python -m torch.distributed.launch --nproc_per_node=1 --nnodes=2 --node_rank=1 --master_addr=server1 "
            "--master_port=2222 /workspace/algorithm/train.py");
}

TEST(LaunchTest, TorchrunUsesTheStaticRendezvous) {
  EXPECT_EQ(torch_line(LaunchMode::kTorchrun, 2, 4, 0),
            "python -m torch.distributed.run --nnodes=2 --nproc_per_node=4 --node_rank=0 --master_addr=localhost "
            "--master_port=2222 /workspace/algorithm/train.py");
  EXPECT_EQ(torch_line(LaunchMode::kTorchrun, 2, 4, 1),
            "python -m torch.distributed.run --nnodes=2 --nproc_per_node=4 --node_rank=1 --master_addr=server1 "
            "--master_port=2222 /workspace/algorithm/train.py");
  EXPECT_EQ(torch_line(LaunchMode::kTorchrun, 4, 4, 0),
            "python -m torch.distributed.run --nnodes=4 --nproc_per_node=4 --node_rank=0 --master_addr=localhost "
            "--master_port=2222 /workspace/algorithm/train.py");
  EXPECT_EQ(torch_line(LaunchMode::kTorchrun, 4, 4, 1),
            "python -m torch.distributed.run --nnodes=4 --nproc_per_node=4 --node_rank=1 --master_addr=server1 "
            "--master_port=2222 /workspace/algorithm/train.py");
  EXPECT_EQ(torch_line(LaunchMode::kTorchrun, 2, 1, 0),
            "python -m torch.distributed.run --nnodes=2 --nproc_per_node=1 --node_rank=0 --master_addr=localhost "
            "--master_port=2222 /workspace/algorithm/train.py");
  EXPECT_EQ(torch_line(LaunchMode::kTorchrun, 2, 1, 1),
            "python -m torch.distributed.run --nnodes=2 --nproc_per_node=1 --node_rank=1 --master_addr=server1 "
            "--master_port=2222 /workspace/algorithm/train.py");
}

TEST(LaunchTest, TorchSetsTheEnvironmentOfTheNode) {
  for (const LaunchMode mode : {LaunchMode::kTorch, LaunchMode::kTorchrun}) {
    for (int rank = 0; rank < 2; ++rank) {
      LaunchRequest request = launch_request(mode, 2, 4, rank, kTrain);
      request.master_port = 29500;
      const Launch launch = launched(request);
      EXPECT_EQ(launch.env, (LaunchEnv{{"MASTER_ADDR", "server1"},
                                       {"MASTER_PORT", "29500"},
                                       {"RANK", std::to_string(rank)},
                                       {"SLOTS", "4"},
                                       {"VOLADOR_JOB_HOSTS", "server1,server2"},
                                       {"VOLADOR_JOB_NODES", "2"},
                                       {"VOLADOR_JOB_RANK", std::to_string(rank)},
                                       {"WORLD_SIZE", "2"}}));
      EXPECT_THAT(launch.command, testing::Contains("--master_port=29500"));
      EXPECT_THAT(launch.files, IsEmpty());
    }
  }
}

TEST(LaunchTest, TorchKeepsOtherCommands) {
  const std::vector<LaunchWords> commands = {
      {"torchrun", "--nnodes", "${WORLD_SIZE}", "--nproc_per_node", "${SLOTS}", "train.py"},
      {"python", "-m", "torch.distributed.launch", "--nproc_per_node=4", "train.py"},
      {"python3", "-m", "torch.distributed.run", "train.py"},
      {"python3.9", "train.py"},
      {"bash", "-c", "python train.py"},
      {"accelerate", "launch", "train.py"},
      {"/opt/python/train"},
      {"pythonw", "train.py"},
  };
  for (const LaunchMode mode : {LaunchMode::kTorch, LaunchMode::kTorchrun}) {
    for (const LaunchWords& command : commands) {
      for (int rank = 0; rank < 2; ++rank) {
        EXPECT_EQ(launched(launch_request(mode, 2, 4, rank, command)).command, command);
      }
    }
  }
}

TEST(LaunchTest, TheInterpreterKeepsItsOptions) {
  const std::string launcher =
      "-m torch.distributed.launch --nproc_per_node=4 --nnodes=2 --node_rank=1 --master_addr=server1 "
      "--master_port=2222";
  const std::vector<std::pair<LaunchWords, std::string>> commands = {
      {{"python", "-u", "train.py", "-c", "x"}, "python -u " + launcher + " train.py -c x"},
      {{"/opt/conda/bin/python3", "train.py"}, "/opt/conda/bin/python3 " + launcher + " train.py"},
      {{"python", "-X", "dev", "-W", "ignore", "-Werror", "train.py", "-u"},
       "python -X dev -W ignore -Werror " + launcher + " train.py -u"},
      {{"python", "-uX", "dev", "t.py"}, "python -uX dev " + launcher + " t.py"},
      {{"python", "--check-hash-based-pycs", "always", "t.py"},
       "python --check-hash-based-pycs always " + launcher + " t.py"},
      {{"python", "-O", "-m", "my.train", "--lr", "1"}, "python -O " + launcher + " -m my.train --lr 1"},
      {{"python", "-um", "my.train"}, "python -u " + launcher + " -m my.train"},
      {{"python", "-mmy.train", "x"}, "python " + launcher + " -m my.train x"},
      {{"python", "-u", "--", "train.py"}, "python -u " + launcher + " train.py"},
  };
  for (const auto& [command, line] : commands) EXPECT_EQ(torch_line(LaunchMode::kTorch, 2, 4, 1, command), line);
}

TEST(LaunchTest, TorchNeedsAScriptOrAModule) {
  const std::vector<LaunchWords> commands = {
      {"python"},       {"python", "-c", "print(1)"}, {"python", "-uc", "print(1)"}, {"python", "-"}, {"python3", "-V"},
      {"python", "-m"}, {"python", "-X", "dev"}};
  for (const LaunchWords& command : commands) {
    const Result<Launch> launch = make_launch(launch_request(LaunchMode::kTorch, 2, 4, 0, command));
    ASSERT_FALSE(launch) << launch_joined(command);
    EXPECT_EQ(launch.error().message,
              "command: mode torch starts a script or a module of Python in each process, got \"" +
                  launch_joined(command) + "\"; put the program into a file, or use mode single");
  }
}

LaunchEnv mpi_env(int nodes, int slots, int rank) {
  return {{"HYDRA_HOST_FILE", "/etc/mpi/mpich_hostfile"},
          {"HYDRA_IFACE", "eth0"},
          {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
          {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
          {"OMPI_MCA_orte_default_hostfile", "/etc/mpi/hostfile"},
          {"SLOTS", std::to_string(slots)},
          {"VOLADOR_JOB_HOSTS", nodes == 2 ? "server1,server2" : "server1,server2,server3,server4"},
          {"VOLADOR_JOB_NODES", std::to_string(nodes)},
          {"VOLADOR_JOB_RANK", std::to_string(rank)}};
}

TEST(LaunchTest, MpiStartsAllProcessesFromTheFirstNode) {
  struct Case {
    int nodes;
    int slots;
    std::string processes;
    std::string hostfile;
    std::string mpich_hostfile;
  };
  const std::vector<Case> cases = {
      {2, 4, "8", "server1 slots=4\nserver2 slots=4\n", "server1:4\nserver2:4\n"},
      {4, 4, "16", "server1 slots=4\nserver2 slots=4\nserver3 slots=4\nserver4 slots=4\n",
       "server1:4\nserver2:4\nserver3:4\nserver4:4\n"},
      {2, 1, "2", "server1 slots=1\nserver2 slots=1\n", "server1:1\nserver2:1\n"},
  };
  for (const LaunchMode mode : {LaunchMode::kHorovod, LaunchMode::kMpi}) {
    for (const Case& c : cases) {
      const Launch first = launched(launch_request(mode, c.nodes, c.slots, 0, kTrain));
      EXPECT_THAT(first.command,
                  ElementsAre("mpirun", "--allow-run-as-root", "-np", c.processes, "-bind-to", "none", "-map-by",
                              "slot", "-x", "NCCL_DEBUG=INFO", "-x", "LD_LIBRARY_PATH", "-x", "PATH", "-mca", "pml",
                              "ob1", "-mca", "btl", "^openib", "python", "/workspace/algorithm/train.py"));
      EXPECT_EQ(first.env, mpi_env(c.nodes, c.slots, 0));
      EXPECT_THAT(first.files, ElementsAre(Pair("hostfile", c.hostfile), Pair("mpich_hostfile", c.mpich_hostfile)));
      const Launch second = launched(launch_request(mode, c.nodes, c.slots, 1, kTrain));
      EXPECT_THAT(second.command, IsEmpty());
      EXPECT_EQ(second.env, mpi_env(c.nodes, c.slots, 1));
      EXPECT_EQ(second.files, first.files);
    }
  }
}

TEST(LaunchTest, MpiKeepsACommandWithItsOwnStarter) {
  const std::vector<LaunchWords> kept = {
      {"mpirun", "-np", "16", "python", "train.py"},
      {"/usr/bin/mpiexec", "python", "train.py"},
      {"timeout", "60", "mpirun", "python", "train.py"},
      {"bash", "-c", "source setup.sh;/usr/bin/mpirun -np 8 python train.py"},
  };
  const std::vector<LaunchWords> wrapped = {
      {"python", "mpirun/train.py"},
      {"python", "train.py", "--starter=mpirun"},
      {"bash", "-c", "python mpirun.py"},
      {"mpirun.sh"},
  };
  for (const LaunchWords& command : kept) {
    EXPECT_EQ(launched(launch_request(LaunchMode::kHorovod, 2, 4, 0, command)).command, command);
  }
  for (const LaunchWords& command : wrapped) {
    const LaunchWords words = launched(launch_request(LaunchMode::kHorovod, 2, 4, 0, command)).command;
    ASSERT_EQ(words.size(), command.size() + 20) << launch_joined(words);
    EXPECT_EQ(words[0], "mpirun");
    EXPECT_EQ(LaunchWords(words.begin() + 20, words.end()), command);
  }
}

TEST(LaunchTest, DeepSpeedReadsTheHostFileOfTheJob) {
  LaunchRequest request =
      launch_request(LaunchMode::kDeepSpeed, 2, 4, 0, {"/opt/bin/deepspeed", "--num_gpus=4", "a.py"});
  request.file_root = "/var/job-7";
  request.master_addr = "10.0.0.1";
  EXPECT_THAT(launched(request).command,
              ElementsAre("/opt/bin/deepspeed", "--hostfile=/var/job-7/hostfile", "--num_gpus=4", "a.py"));
  EXPECT_EQ(launched(request).env.at("MASTER_ADDR"), "10.0.0.1");
  request.command = {"python", "deepspeed.py"};
  EXPECT_EQ(launched(request).command, request.command);
}

TEST(LaunchTest, DeepSpeedHasAHostFileAndTheEnvironmentOfTorch) {
  const LaunchWords command = {"deepspeed", "train.py", "--deepspeed", "--deepspeed_config", "ds_config.json"};
  const std::vector<std::pair<std::pair<int, int>, std::string>> cases = {
      {{2, 4}, "server1 slots=4\nserver2 slots=4\n"},
      {{4, 4}, "server1 slots=4\nserver2 slots=4\nserver3 slots=4\nserver4 slots=4\n"},
      {{2, 1}, "server1 slots=1\nserver2 slots=1\n"},
  };
  for (const auto& [shape, hostfile] : cases) {
    for (int rank = 0; rank < 2; ++rank) {
      const Launch launch = launched(launch_request(LaunchMode::kDeepSpeed, shape.first, shape.second, rank, command));
      EXPECT_EQ(launch.command, rank == 0 ? command : LaunchWords());
      EXPECT_THAT(launch.files, ElementsAre(Pair("hostfile", hostfile)));
      EXPECT_EQ(launch.env, launched(launch_request(LaunchMode::kTorch, shape.first, shape.second, rank, kTrain)).env);
    }
  }
}

std::string tf_config_of(int nodes, int servers, int rank, int slots = 4) {
  LaunchRequest request = launch_request(LaunchMode::kTensorFlow, nodes, slots, rank, kTrain);
  request.parameter_servers = servers;
  const Launch launch = launched(request);
  EXPECT_EQ(launch.command, kTrain);
  EXPECT_EQ(launch.env.size(), 5u);
  EXPECT_EQ(launch.env.at("SLOTS"), std::to_string(slots));
  EXPECT_THAT(launch.files, IsEmpty());
  return launch.env.contains("TF_CONFIG") ? launch.env.at("TF_CONFIG") : "";
}

TEST(LaunchTest, TensorFlowWithoutParameterServersHasOnlyWorkers) {
  EXPECT_EQ(tf_config_of(2, 0, 0),
            R"({"cluster": {"worker": ["server1:2222", "server2:2222"]}, "task": {"type": "worker", "index": 0}, )"
            R"("environment": "cloud"})");
  EXPECT_EQ(tf_config_of(2, 0, 1, 1),
            R"({"cluster": {"worker": ["server1:2222", "server2:2222"]}, "task": {"type": "worker", "index": 1}, )"
            R"("environment": "cloud"})");
  EXPECT_EQ(tf_config_of(4, 0, 3),
            R"({"cluster": {"worker": ["server1:2222", "server2:2222", "server3:2222", "server4:2222"]}, )"
            R"("task": {"type": "worker", "index": 3}, "environment": "cloud"})");
}

TEST(LaunchTest, TheFirstNodesAreParameterServers) {
  const std::string cluster = R"({"cluster": {"ps": ["server1:2222", "server2:2222"], )"
                              R"("worker": ["server3:2222", "server4:2222", "server5:2222"]}, )";
  EXPECT_EQ(tf_config_of(5, 2, 0), cluster + R"("task": {"type": "ps", "index": 0}, "environment": "cloud"})");
  EXPECT_EQ(tf_config_of(5, 2, 1), cluster + R"("task": {"type": "ps", "index": 1}, "environment": "cloud"})");
  EXPECT_EQ(tf_config_of(5, 2, 2), cluster + R"("task": {"type": "worker", "index": 0}, "environment": "cloud"})");
  EXPECT_EQ(tf_config_of(5, 2, 4), cluster + R"("task": {"type": "worker", "index": 2}, "environment": "cloud"})");
}

TEST(LaunchTest, TensorFlowGetsBracketsAroundIpv6) {
  LaunchRequest request = launch_request(LaunchMode::kTensorFlow, 0, 1, 0, kTrain);
  request.hosts = {"fd00::1", "10.0.0.2"};
  EXPECT_THAT(launched(request).env.at("TF_CONFIG"), HasSubstr(R"(["[fd00::1]:2222", "10.0.0.2:2222"])"));
}

TEST(LaunchTest, RanksOfTensorFlowOnOneHostHaveDifferentPorts) {
  LaunchRequest request = launch_request(LaunchMode::kTensorFlow, 0, 1, 2, kTrain);
  request.hosts = {"10.0.0.1", "10.0.0.2", "10.0.0.1", "10.0.0.1"};
  request.shared_port = 3000;
  EXPECT_THAT(launched(request).env.at("TF_CONFIG"),
              HasSubstr(R"(["10.0.0.1:2222", "10.0.0.2:2222", "10.0.0.1:3000", "10.0.0.1:3001"])"));
  request.shared_port = 65534;
  EXPECT_EQ(launch_error(make_launch(request)), "shared_port: expected 1 to 65533 for 4 ranks, got 65534");
}

TEST(LaunchTest, OutOfRangeFieldsAreNamed) {
  const auto error_of = [](LaunchMode mode, auto change) {
    LaunchRequest request = launch_request(mode, 2, 4, 0, kTrain);
    change(request);
    const Result<Launch> launch = make_launch(request);
    EXPECT_TRUE(launch || launch.error().code == ErrorCode::kInvalidArgument);
    return launch_error(launch);
  };
  using R = LaunchRequest;
  EXPECT_EQ(error_of(LaunchMode::kTorch, [](R& r) { r.slots = 0; }),
            "slots: expected at least 1 per node, got 0; a node without GPUs has 1");
  EXPECT_EQ(error_of(LaunchMode::kTorch, [](R& r) { r.rank = 2; }),
            "rank: expected 0 to 1 for a job of 2 nodes, got 2");
  EXPECT_EQ(error_of(LaunchMode::kTorch, [](R& r) { r.rank = -1; }),
            "rank: expected 0 to 1 for a job of 2 nodes, got -1");
  EXPECT_EQ(error_of(LaunchMode::kTensorFlow, [](R& r) { r.parameter_servers = 2; }),
            "parameter_servers: expected 0 to 1 for a job of 2 nodes, so that at least one node is a worker, got 2");
  EXPECT_THAT(error_of(LaunchMode::kTensorFlow, [](R& r) { r.parameter_servers = -1; }), HasSubstr("got -1"));
  EXPECT_EQ(error_of(LaunchMode::kTorch, [](R& r) { r.parameter_servers = 1; }),
            "parameter_servers: only mode tensorflow has parameter servers, got 1 for mode torch; set 0 or change the "
            "mode");
  EXPECT_EQ(error_of(LaunchMode::kDeepSpeed, [](R& r) { r.master_port = 65536; }),
            "master_port: expected 1 to 65535, got 65536");
  EXPECT_THAT(error_of(LaunchMode::kHorovod, [](R& r) { r.master_port = 0; }), HasSubstr("launched: mpirun"));
  EXPECT_EQ(error_of(LaunchMode::kHorovod, [](R& r) { r.file_root = "etc"; }),
            "file_root: mode horovod needs the absolute path of the folder with its host file, got \"etc\"");
  EXPECT_THAT(error_of(LaunchMode::kTorch, [](R& r) { r.hosts = {}; }), HasSubstr("hosts: "));
  for (const char* host : {"", "a b", "a,b", "-a", "a\nb", "a\"b"}) {
    EXPECT_THAT(error_of(LaunchMode::kTorch, [&](R& r) { r.hosts[1] = host; }), HasSubstr("hosts: expected")) << host;
  }
  EXPECT_THAT(error_of(LaunchMode::kMpi, [](R& r) { r.hosts[1] = "server1"; }), HasSubstr("got \"server1\" twice"));
  EXPECT_THAT(error_of(LaunchMode::kMpi, [](R& r) { r.hosts[1] = "fd00::1"; }), HasSubstr("got \"fd00::1\""));
  EXPECT_THAT(error_of(LaunchMode::kTorch, [](R& r) { r.command = {"a", "&&", "b"}; }), HasSubstr("bash -c 'a && b'"));
}

TEST(LaunchTest, NodesOfTorchMayShareAHost) {
  LaunchRequest request = launch_request(LaunchMode::kTorch, 2, 4, 1, kTrain);
  request.hosts = {"10.0.0.1", "10.0.0.1"};
  EXPECT_THAT(launched(request).command, testing::Contains("--master_addr=10.0.0.1"));
}

TEST(LaunchTest, AFolderWithASlashAtTheEndIsTheSameFolder) {
  LaunchRequest request = launch_request(LaunchMode::kMpi, 2, 4, 0, kTrain);
  request.file_root = "/etc/mpi/";
  EXPECT_EQ(launched(request).env, mpi_env(2, 4, 0));
}

}  // namespace
}  // namespace volador::jobs
