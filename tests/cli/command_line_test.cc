#include "cli/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/command_line_fixture.h"

namespace volador::cli {
namespace {

using ::testing::HasSubstr;

class CommandLine : public CommandLineTest {};

TEST_F(CommandLine, UnknownCommandsNameTheNearest) {
  const Output output = run({"strat", "--head"});
  EXPECT_EQ(output.code, 2);
  EXPECT_THAT(output.error, HasSubstr("there is no command \"strat\"; did you mean start?"));
  EXPECT_THAT(run({"token", "crate"}).error, HasSubstr("did you mean create?"));
}

TEST_F(CommandLine, UnknownFlagsNameTheNearest) {
  const Output output = run({"start", "--head", "--prot=1"});
  EXPECT_EQ(output.code, 2);
  EXPECT_THAT(output.error, HasSubstr("volador start: there is no flag --prot; did you mean --port?"));
}

TEST_F(CommandLine, NothingAtAllNamesTheCommands) {
  const Output output = run({});
  EXPECT_EQ(output.code, 2);
  EXPECT_THAT(output.error, HasSubstr("which command? start, stop, status"));
}

TEST_F(CommandLine, HelpHasExamplesAndExitCodes) {
  const Output output = run({"--help"});
  EXPECT_EQ(output.code, 0);
  EXPECT_THAT(output.out, HasSubstr("volador start --head"));
  EXPECT_THAT(output.out, HasSubstr("4 head unreachable"));
  for (const char* command : {"start", "stop", "status", "list", "logs", "explain", "stack", "debug", "timeline",
                              "drain", "kill", "tune", "completion"}) {
    const Output help = run({command, "--help"});
    EXPECT_EQ(help.code, 0) << command;
    EXPECT_THAT(help.out, HasSubstr("Examples:")) << command;
  }
}

TEST_F(CommandLine, WrongValuesOfFlagsAreUsageErrors) {
  EXPECT_EQ(run({"start", "--head", "--port=ten"}).code, 2);
  EXPECT_THAT(run({"start", "--head", "--port=ten"}).error,
              HasSubstr("port: expected an integer from 0 to 65535, got \"ten\" (--port)"));
  EXPECT_EQ(run({"start", "--head", "--lease=1s"}).code, 2) << "shorter than three heartbeats";
  EXPECT_EQ(run({"start", "--head", "--reconnect-window=2s"}).code, 2) << "shorter than a lease";
  EXPECT_EQ(run({"start", "--head", "--resources=licence=many"}).code, 2);
  EXPECT_EQ(run({"start", "--head", "--cluster=../x"}).code, 2);
  EXPECT_EQ(run({"start", "--head", "--bind=nowhere"}).code, 2);
  EXPECT_EQ(run({"start", "--head", "--address=a:1"}).code, 2);
  EXPECT_EQ(run({"start"}).code, 2);
  EXPECT_EQ(run({"list", "trails"}).code, 2);
  EXPECT_THAT(run({"list", "trails"}).error, HasSubstr("did you mean trials?"));
  EXPECT_EQ(run({"status", "--timeout=5"}).code, 2);
  EXPECT_EQ(run({"token", "create", "--role=admin"}).code, 2);
}

TEST_F(CommandLine, AWrongConfigurationFileHasItsOwnExitCode) {
  const auto file = folder_.path() / "volador.yaml";
  std::ofstream(file) << "prot: 1\n";
  const Output output = run({"status", "--config=" + file.native()});
  EXPECT_EQ(output.code, 3);
  EXPECT_THAT(output.error, HasSubstr("did you mean port? (" + file.native() + ":1:1)"));
  EXPECT_EQ(run({"status", "--config=/nowhere.yaml"}).code, 3);
}

TEST_F(CommandLine, WithoutAClusterItSaysHowToGetOne) {
  const Output output = run({"status"});
  EXPECT_EQ(output.code, 4);
  EXPECT_THAT(output.error, HasSubstr("volador start --head"));
  EXPECT_EQ(run({"status", "--address=127.0.0.1:1"}).code, 5) << "there is no token";
  EXPECT_EQ(run({"status", "--cluster=heron"}).code, 6);
}

TEST_F(CommandLine, AnUnreachableHeadIsNamed) {
  // A token of the right form; nothing listens on port 1.
  const Output output = run({"status", "--address=127.0.0.1:1", "--token=nonsense"});
  EXPECT_EQ(output.code, 5);
  EXPECT_EQ(output.error.find("nonsense"), std::string::npos) << "a token is never printed";
}

TEST_F(CommandLine, ErrorsAreJsonWhereJsonIsAskedFor) {
  const Output output = run({"status", "--json"});
  const auto json = nlohmann::json::parse(output.error);
  EXPECT_EQ(json["error"]["code"], "kUnavailable");
  EXPECT_EQ(json["error"]["exit_code"], 4);
  EXPECT_EQ(nlohmann::json::parse(run({"strat", "--json"}).error)["error"]["exit_code"], 2);
}

TEST_F(CommandLine, StopWithNothingToStopIsFine) {
  const Output output = run({"stop"});
  EXPECT_EQ(output.code, 0);
  EXPECT_THAT(output.out, HasSubstr("no cluster runs on this machine"));
  EXPECT_EQ(run({"stop", "--all"}).code, 0);
  EXPECT_THAT(run({"stop", "--cluster=heron"}).out, HasSubstr("nothing of cluster heron runs"));
  EXPECT_EQ(nlohmann::json::parse(run({"stop", "--json"}).out)["stopped"].size(), 0u);
}

TEST_F(CommandLine, VersionIsSaidForPeopleAndPrograms) {
  EXPECT_THAT(run({"version"}).out, HasSubstr("volador 0."));
  EXPECT_THAT(run({"--version"}).out, HasSubstr("volador 0."));
  EXPECT_TRUE(nlohmann::json::parse(run({"version", "--json"}).out).contains("control_protocol"));
}

TEST_F(CommandLine, CompletionOffersCommandsFlagsAndValues) {
  EXPECT_EQ(run({"__complete", "sta"}).out, "stack\nstart\nstatus\n");
  EXPECT_EQ(run({"__complete", "start", "--num"}).out, "--num-cpus=\n--num-gpus=\n");
  EXPECT_EQ(run({"__complete", "start", "--hea"}).out,
            "--head\n--health-check-interval=\n--health-check-timeout=\n--health-check=\n--heartbeat=\n");
  EXPECT_EQ(run({"__complete", "list", ""}).out,
            "actors\naudit\nevents\nexperiments\ngroups\nnodes\nobjects\nprocesses\nqueue\nstudies\ntasks\ntrials\n");
  EXPECT_EQ(run({"__complete", "token", "create", "--role=d"}).out, "--role=driver\n");
  EXPECT_EQ(run({"__complete", "token", ""}).out, "create\nlist\nrevoke\n");
  EXPECT_EQ(run({"__complete", "stop", "zzz"}).out, "");
}

TEST_F(CommandLine, CompletionScriptsExistForThreeShells) {
  for (const char* shell : {"bash", "zsh", "fish"})
    EXPECT_THAT(run({"completion", shell}).out, HasSubstr("__complete")) << shell;
  EXPECT_EQ(run({"completion", "csh"}).code, 2);
}

}  // namespace
}  // namespace volador::cli
