// A cluster started, used and stopped by the real binary: daemons, ports of loopback, files.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <thread>

#include "runtime/process_file.h"
#include "tests/built_program.h"
#include "tests/cli/cluster/run_volador.h"
#include "tests/contract/redis_server.h"

namespace volador::testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class Cluster : public ::testing::Test {
 protected:
  nlohmann::json start_head(std::vector<std::string> more = {}) {
    std::vector<std::string> arguments{"start",        "--head",       "--port=0", "--cluster=heron",
                                       "--name=first", "--num-cpus=1", "--json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    const Finished run = user_.run(arguments);
    EXPECT_EQ(run.code, 0) << run.error;
    return run.code == 0 ? run.json() : nlohmann::json();
  }
  // Returns the nodes that `volador list nodes` shows alive, once there are `count`, or after 10 s.
  std::vector<std::string> alive_nodes(size_t count) {
    std::vector<std::string> names;
    for (int i = 0; i < 100; ++i) {
      names.clear();
      const Finished run = user_.run({"list", "nodes", "--json"});
      const nlohmann::json nodes = run.code == 0 ? run.json()["nodes"] : nlohmann::json::array();
      for (const auto& node : nodes)
        if (node["state"] == "alive") names.push_back(node["name"]);
      if (names.size() == count) break;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    std::sort(names.begin(), names.end());
    return names;
  }
  // Files of processes and sockets that must not exist after everything was stopped.
  std::vector<std::string> leftovers() const {
    std::vector<std::string> found = processes_of(user_.home());
    for (const auto& entry : std::filesystem::recursive_directory_iterator(user_.home())) {
      const std::string ending = entry.path().extension();
      if (entry.is_socket() || ending == ".pid" || ending == ".tmp") found.push_back(entry.path());
    }
    for (const auto& entry : std::filesystem::directory_iterator(user_.home() / "run")) found.push_back(entry.path());
    for (const auto& entry : std::filesystem::directory_iterator("/dev/shm"))
      if (entry.path().filename().native().find("volador") != std::string::npos) found.push_back(entry.path());
    return found;
  }
  // Starts a program with trials that sleep for minutes; returns once one of its actors runs.
  pid_t start_trials(int64_t count, std::vector<std::string> arguments = {}) {
    arguments.insert(arguments.begin(), {fmt::format("--num-samples={}", count), "--seconds=600"});
    const pid_t driver = user_.start(built_program("tune_sleep"), arguments);
    for (int i = 0; i < 300; ++i) {
      const Finished run = user_.run({"list", "actors", "--json"});
      const nlohmann::json actors = run.code == 0 ? run.json()["actors"] : nlohmann::json::array();
      const auto alive =
          std::count_if(actors.begin(), actors.end(), [](const auto& actor) { return actor["state"] == "alive"; });
      if (alive == count) return driver;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    ADD_FAILURE() << "no trial runs";
    return driver;
  }
  static void kill_and_reap(pid_t pid) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  VoladorUser user_;
};

TEST_F(Cluster, StartsIsSeenAndStopsWithoutATrace) {
  const auto started = start_head();
  EXPECT_EQ(started["cluster"], "heron");
  const Finished status = user_.run({"status", "--json"});
  ASSERT_EQ(status.code, 0) << status.error;
  EXPECT_EQ(status.json()["address"], started["address"]);
  EXPECT_EQ(status.json()["nodes"][0]["name"], "first");
  EXPECT_EQ(status.json()["total"]["cpus"], 1);
  EXPECT_THAT(user_.run({"status"}).out, HasSubstr("cluster heron"));
  const Finished top = user_.run({"top", "--frames=2", "--interval=100ms"});
  EXPECT_EQ(top.code, 0) << top.error;
  const size_t frame = top.out.find("cluster heron");
  ASSERT_NE(frame, std::string::npos) << top.out;
  EXPECT_NE(top.out.find("cluster heron", frame + 1), std::string::npos) << "two frames:\n" << top.out;
  EXPECT_EQ(user_.run({"top", "--interval=5"}).code, 2);
  EXPECT_EQ(user_.run({"top", "--json"}).code, 2);

  const Finished stop = user_.run({"stop", "--json"});
  EXPECT_EQ(stop.code, 0);
  EXPECT_EQ(stop.json()["stopped"].size(), 2u);
  EXPECT_THAT(leftovers(), IsEmpty());
  EXPECT_EQ(user_.run({"stop"}).code, 0) << "once more does no harm";
  EXPECT_EQ(user_.run({"status"}).code, 4);
}

TEST_F(Cluster, ReportNamesWhatIsNeededNext) {
  const Finished run = user_.run({"start", "--head", "--port=0", "--cluster=heron", "--num-cpus=2"});
  ASSERT_EQ(run.code, 0) << run.error;
  EXPECT_THAT(run.out, HasSubstr("cluster heron · ready in "));
  EXPECT_THAT(run.out, HasSubstr("2 CPUs"));
  EXPECT_THAT(run.out, HasSubstr("this machine only"));
  EXPECT_THAT(run.out, HasSubstr("volador stop"));
  EXPECT_THAT(run.out, Not(HasSubstr("\x1b")));
}

TEST_F(Cluster, AnotherNodeJoinsWithATokenThatShowsNowhere) {
  const auto started = start_head();
  const Finished created = user_.run({"token", "create", "--note=second"});
  ASSERT_EQ(created.code, 0) << created.error;
  const std::string token = created.out.substr(0, created.out.find('\n'));
  const std::string address = started["address"];
  const Finished joined =
      user_.run({"start", "--address=" + address, "--token=" + token, "--name=second", "--num-cpus=1"});
  ASSERT_EQ(joined.code, 0) << joined.error;
  EXPECT_EQ(alive_nodes(2), (std::vector<std::string>{"first", "second"}));
  for (const std::string& process : processes_of(user_.home()))
    EXPECT_EQ(process.find("vt1."), std::string::npos) << process;
  EXPECT_THAT(user_.run({"token", "list"}).out, HasSubstr("second"));

  const Finished twice = user_.run({"start", "--address=" + address, "--name=second"}, {{"VOLADOR_TOKEN", token}});
  EXPECT_EQ(twice.code, 2) << "two nodes of one name: " << twice.error;
  EXPECT_LT(twice.seconds, 5) << "what cannot change is not tried again";
  EXPECT_THAT(twice.error, HasSubstr("second"));

  EXPECT_EQ(user_.run({"stop", "--json"}).json()["stopped"].size(), 3u);
  EXPECT_THAT(processes_of(user_.home()), IsEmpty());
}

TEST_F(Cluster, AHeadThatWasKilledComesBackAsItself) {
  const auto started = start_head();
  const std::string id = user_.run({"status", "--json"}).json()["cluster_id"];
  const pid_t head = started["pids"][0], worker = started["pids"][1];
  ASSERT_EQ(::kill(head, SIGKILL), 0);
  while (is_alive(head)) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  const Finished away = user_.run({"status"});
  EXPECT_EQ(away.code, 4);
  EXPECT_THAT(away.error, HasSubstr("volador start --head --cluster=heron"));

  const Finished again = user_.run({"start", "--head", "--json"});
  ASSERT_EQ(again.code, 0) << again.error;
  EXPECT_EQ(again.json()["cluster"], "heron");
  EXPECT_EQ(again.json()["address"], started["address"]);
  EXPECT_EQ(again.json()["pids"].size(), 1u) << "the worker ran on";
  EXPECT_TRUE(is_alive(worker));
  EXPECT_EQ(alive_nodes(1), std::vector<std::string>{"first"});
  EXPECT_EQ(user_.run({"status", "--json"}).json()["cluster_id"], id);
}

TEST_F(Cluster, RunsOnceAndSaysWhoHasThePort) {
  const auto started = start_head();
  const Finished again = user_.run({"start", "--head"});
  EXPECT_EQ(again.code, 1);
  EXPECT_THAT(again.error, HasSubstr("cluster heron runs already: head (pid " +
                                     std::to_string(started["pids"][0].get<int>()) + ")"));

  const std::string address = started["address"];
  const std::string port = address.substr(address.rfind(':') + 1);
  const Finished taken = user_.run({"start", "--head", "--cluster=crane", "--port=" + port});
  EXPECT_EQ(taken.code, 1);
  EXPECT_THAT(taken.error, HasSubstr("is in use by process " + std::to_string(started["pids"][0].get<int>())));
}

TEST_F(Cluster, SeveralLiveSideBySideAndStopApart) {
  start_head();
  const Finished second = user_.run({"start", "--head", "--cluster=crane", "--port=0", "--num-cpus=1", "--json"});
  ASSERT_EQ(second.code, 0) << second.error;
  EXPECT_EQ(user_.run({"status", "--json"}).json()["cluster"], "crane") << "the one started last";
  EXPECT_EQ(user_.run({"status", "--json", "--cluster=heron"}).json()["cluster"], "heron");
  EXPECT_EQ(user_.run({"stop"}).code, 0);
  EXPECT_EQ(user_.run({"status", "--cluster=heron"}).code, 0);
  EXPECT_EQ(user_.run({"status", "--cluster=crane"}).code, 4);
}

TEST_F(Cluster, WrongTokensAreRefusedWithTheReason) {
  const auto started = start_head();
  const std::string address = started["address"];
  auto join = [&](const std::string& token) {
    return user_.run({"start", "--address=" + address, "--name=second", "--num-cpus=1"}, {{"VOLADOR_TOKEN", token}});
  };
  EXPECT_EQ(join("nonsense").code, 5);
  EXPECT_THAT(join("vt1.qqqqqqqqqqqq").error, HasSubstr("[kUnauthenticated]"));
  const Finished viewer = join(user_.run({"token", "create", "--role=viewer", "--json"}).json()["token"]);
  EXPECT_EQ(viewer.code, 5);
  EXPECT_THAT(viewer.error, AllOf(HasSubstr("--role=join"), HasSubstr("[kPermissionDenied]")));

  const Finished created = user_.run({"token", "create", "--json"});
  ASSERT_EQ(created.code, 0) << created.error;
  EXPECT_EQ(user_.run({"token", "revoke", created.json()["id"].get<std::string>()}).code, 0);
  const Finished revoked = join(created.json()["token"]);
  EXPECT_EQ(revoked.code, 5) << revoked.error;
  EXPECT_THAT(revoked.error, AllOf(HasSubstr("revoked"), HasSubstr("[kUnauthenticated]")));

  const Finished other = user_.run({"start", "--head", "--cluster=crane", "--port=0", "--num-cpus=1", "--json"});
  ASSERT_EQ(other.code, 0) << other.error;
  const Finished foreign = join(other.json()["join_token"]);
  EXPECT_EQ(foreign.code, 5) << foreign.error;
  EXPECT_THAT(foreign.error, HasSubstr("another cluster"));
  EXPECT_THAT(foreign.error, Not(HasSubstr(other.json()["join_token"].get<std::string>())));
}

TEST_F(Cluster, AnUnreachableHeadIsSaidInTime) {
  const auto started = start_head();
  const std::string token = user_.run({"token", "create", "--role=operator"}).out;
  user_.run({"stop"});
  const Finished status = user_.run({"status", "--address=127.0.0.1:1", "--timeout=1s"},
                                    {{"VOLADOR_TOKEN", token.substr(0, token.find('\n'))}});
  EXPECT_EQ(status.code, 4) << status.error;
  EXPECT_THAT(status.error, HasSubstr("127.0.0.1:1"));
  EXPECT_LT(status.seconds, 5);
}

TEST_F(Cluster, ANameThatAnotherMachineHasIsRefusedByTheHead) {
  const auto started = start_head();
  const std::string address = started["address"];
  const VoladorUser elsewhere;  // Another state folder, so that the information must come from the head.
  const Finished twice = elsewhere.run({"start", "--address=" + address, "--name=first", "--num-cpus=1"},
                                       {{"VOLADOR_TOKEN", started["join_token"]}});
  EXPECT_EQ(twice.code, 2) << twice.error;
  EXPECT_THAT(twice.error, HasSubstr("first"));
  EXPECT_LT(twice.seconds, 5);
}

TEST_F(Cluster, AWorkerWhoseHeadIsAwaySaysWhatItTries) {
  const auto started = start_head();
  const std::string address = started["address"];
  const std::string token = started["join_token"];
  user_.run({"stop"});
  const Finished joined =
      user_.run({"start", "--address=" + address, "--name=second", "--num-cpus=1"}, {{"VOLADOR_TOKEN", token}});
  EXPECT_EQ(joined.code, 4) << joined.error;
  EXPECT_THAT(joined.error, HasSubstr("tried again for up to 10 s"));
  EXPECT_THAT(joined.error, HasSubstr(address));
}

TEST_F(Cluster, ANodesLogsAreReadThroughTheHead) {
  const auto started = start_head();
  const pid_t driver = start_trials(1);
  const Finished worker = user_.run({"logs", "first", "--json"});
  EXPECT_EQ(worker.code, 0) << worker.error;
  EXPECT_THAT(worker.out, HasSubstr("connected to the head"));

  // The output of the actor goes through its pipe to the worker's files, which are read.
  const nlohmann::json actors = user_.run({"list", "actors", "--json"}).json()["actors"];
  const std::string source = actors[0]["id"].get<std::string>().substr(0, 8) + "-0 err";
  for (int i = 1; i <= 50; ++i)
    std::ofstream(fmt::format("/proc/{}/fd/2", actors[0]["pid"].get<int>())) << "line " << i << "\n";
  Finished all;
  for (int i = 0; i < 100 && all.out.find("line 50") == std::string::npos; ++i) {
    if (i > 0) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    all = user_.run({"logs", "--node=first", "--tail=2"});
  }
  EXPECT_EQ(all.code, 0) << all.error;
  EXPECT_THAT(all.out, HasSubstr("(worker) "));
  // Lines already registered at the head have the trial's name, others that of their file.
  const std::string either = fmt::format("\\(({}|trial [0-9a-f]+ err)\\)", source);
  EXPECT_THAT(all.out, ContainsRegex(fmt::format("{0} line 49\n{0} line 50\n", either)));
  EXPECT_THAT(all.out, Not(HasSubstr("line 48")));

  EXPECT_EQ(user_.run({"logs", "--node=nothing-of-that-name"}).code, 6);
  EXPECT_EQ(user_.run({"logs", "--node=first", "--follow"}).code, 2);
  EXPECT_EQ(user_.run({"logs", "head", "--node=first"}).code, 2);
  EXPECT_EQ(user_.run({"logs"}).code, 2);
  kill_and_reap(driver);
}

TEST_F(Cluster, RunsOfOneSeedAreToldApart) {
  start_head();
  for (int i = 0; i < 2; ++i) {  // Each prints and ends.
    const pid_t driver =
        user_.start(built_program("tune_sleep"), {"--num-samples=3", "--seconds=0", "--seed=7", "--print=2"});
    int status = 0;
    ASSERT_EQ(::waitpid(driver, &status, 0), driver);
    ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
  const nlohmann::json all = user_.run({"list", "trials", "--json"}).json()["trials"];
  ASSERT_EQ(all.size(), 6u);
  std::set<std::string> ids, runs, configs;
  for (const auto& trial : all) {
    ids.insert(trial["id"].get<std::string>());
    runs.insert(trial["experiment"].get<std::string>());
    configs.insert(trial["config"].dump());
  }
  EXPECT_EQ(ids.size(), 6u) << "one seed, ids of their own";
  EXPECT_EQ(configs.size(), 3u) << "one seed, the same configurations";
  ASSERT_EQ(runs.size(), 2u);

  const std::string newest = *runs.rbegin();
  const Finished of_stem = user_.run({"list", "trials", "sleep", "--json"});
  ASSERT_EQ(of_stem.code, 0) << of_stem.error;
  ASSERT_EQ(of_stem.json()["trials"].size(), 3u);
  for (const auto& trial : of_stem.json()["trials"])
    EXPECT_EQ(trial["experiment"], newest) << "the newest run of this name";
  const Finished none = user_.run({"list", "trials", "nope"});
  EXPECT_EQ(none.code, 6);
  EXPECT_THAT(none.error, HasSubstr("no experiment \"nope\""));

  for (const auto& trial : all) {
    const std::string id = trial["id"], named = trial["experiment"].get<std::string>() + "/" + id;
    for (const std::string& text : {id, named}) {
      const Finished explained = user_.run({"explain", text});
      EXPECT_THAT(explained.out, HasSubstr("trial " + id + " of " + trial["experiment"].get<std::string>()))
          << explained.error;
      EXPECT_THAT(user_.run({"logs", text}).out, HasSubstr("step 1 of a run"))
          << "its process has ended, its output is there";
    }
  }
  const std::string of_newest = of_stem.json()["trials"][0]["id"];
  EXPECT_THAT(user_.run({"explain", "sleep/" + of_newest}).out, HasSubstr("of " + newest));
  EXPECT_EQ(user_.run({"explain", "sleep/nope"}).code, 6);
  EXPECT_EQ(user_.run({"stack", newest + "/" + of_newest}).code, 1) << "it has no process any more";
}

TEST_F(Cluster, OneOfEverythingIsToldInTheSingular) {
  start_head();
  const pid_t driver = start_trials(1);
  const std::string id = user_.run({"list", "actors", "--json"}).json()["actors"][0]["id"];
  ASSERT_EQ(user_.run({"drain", "first"}).code, 0);
  std::vector<std::vector<std::string>> commands{{"status"},
                                                 {"explain", "first"},
                                                 {"explain", id},
                                                 {"explain", "sleep"},
                                                 {"memory"},
                                                 {"timeline", "--output=" + (user_.home() / "trace.json").native()},
                                                 {"stack", id},
                                                 {"logs", "head"},
                                                 {"logs", "--node=first"},
                                                 {"logs", id},
                                                 {"token", "list"},
                                                 {"tune", "list"},
                                                 {"tune", "show", "sleep"},
                                                 {"tune", "why", "sleep"},
                                                 {"explain", "f"},
                                                 {"logs", "s"}};
  for (const char* kind : {"nodes", "actors", "tasks", "processes", "groups", "experiments", "trials", "studies",
                           "objects", "queue", "events", "audit"})
    commands.push_back({"list", kind});
  const std::regex plural(R"re(\b1 (?!is\b|has\b|was\b|does\b|ms\b|[a-z]*ss\b)[a-z]+s\b|[a-z]\(e?s\))re");
  const auto check = [&](const std::vector<std::string>& command) {
    const Finished run = user_.run(command);
    const std::string text = run.out + run.error;
    std::smatch found;
    EXPECT_FALSE(std::regex_search(text, found, plural))
        << fmt::format("{}: \"{}\" in\n{}", fmt::join(command, " "), found.str(), text);
  };
  for (const auto& command : commands) check(command);
  kill_and_reap(driver);
  for (const auto& command : commands) check(command);
  check({"stop"});
}

TEST_F(Cluster, ProcessesAreListedWithTheTimeThatTemplatesHaveLeft) {
  start_head();
  const auto listed = [this] {
    std::map<std::string, nlohmann::json> by_kind;
    const Finished run = user_.run({"list", "processes", "--json"});
    EXPECT_EQ(run.code, 0) << run.error;
    const nlohmann::json all = run.json();
    for (const auto& row : all["processes"]) by_kind[row["kind"]] = row;
    return by_kind;
  };
  const pid_t driver = start_trials(1);
  const auto running = listed();
  for (const char* kind : {"head", "worker", "program", "actors", "template"}) {
    ASSERT_TRUE(running.contains(kind)) << kind;
    const nlohmann::json& row = running.at(kind);
    EXPECT_EQ(row["node"], "first");
    EXPECT_TRUE(is_alive(row["pid"].get<int>()));
    EXPECT_GT(row["memory_bytes"], 0) << kind;
    EXPECT_GT(row["started_ms"], 0) << kind;
  }
  EXPECT_EQ(running.at("program")["pid"], driver);
  EXPECT_EQ(running.at("actors")["program"], running.at("program")["program"]);
  kill_and_reap(driver);
  auto after = listed();
  for (int i = 0; i < 200 && after.contains("program"); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    after = listed();
  }
  ASSERT_FALSE(after.contains("program"));
  ASSERT_TRUE(after.contains("template")) << "it stays for the next run of its program";
  EXPECT_GT(after.at("template")["ends_in_s"], 0);
  EXPECT_LE(after.at("template")["ends_in_s"], 600);
  EXPECT_THAT(user_.run({"list", "processes", "first"}).out, AllOf(HasSubstr("ends in"), HasSubstr("tune_sleep")));
  EXPECT_EQ(user_.run({"list", "processes", "nobody"}).code, 6);
}

TEST_F(Cluster, LogsOfAnActorThatEndedAreReadFromItsNodeByAnotherHead) {
  start_head();
  const pid_t driver = user_.start(built_program("tune_sleep"), {"--num-samples=1", "--seconds=0", "--print=2"});
  int status = 0;
  ASSERT_EQ(::waitpid(driver, &status, 0), driver);
  const Finished live = user_.run({"list", "actors"});
  EXPECT_THAT(live.out, HasSubstr("no actors")) << "those that have ended are not listed";
  EXPECT_THAT(live.error, HasSubstr("1 actor has ended: volador list actors --state=dead"));
  const nlohmann::json actors = user_.run({"list", "actors", "--state=dead", "--json"}).json()["actors"];
  ASSERT_EQ(actors.size(), 1u);
  const std::string id = actors[0]["id"];
  ASSERT_EQ(user_.run({"stop"}).code, 0);
  start_head();  // The new head has no stored lines.
  ASSERT_EQ(alive_nodes(1).size(), 1u);
  const Finished logs = user_.run({"logs", id});
  EXPECT_EQ(logs.code, 0) << logs.error;
  EXPECT_THAT(logs.out, AllOf(HasSubstr("step 1 of a run"), HasSubstr("step 2 of a run")));
}

TEST_F(Cluster, AJoinTokenLetsNoProgramIn) {
  const auto started = start_head();
  const std::map<std::string, std::string> with{{"VOLADOR_TOKEN", started["join_token"]},
                                                {"VOLADOR_ADDRESS", started["address"]}};
  const Finished status = user_.run({"status"}, with);
  EXPECT_EQ(status.code, 5) << status.out;
  EXPECT_THAT(status.error, HasSubstr("volador token create --role="));
  std::string other = started["join_token"];  // Correct form and length, but of no cluster.
  std::fill(other.begin() + 8, other.end(), 'q');
  const Finished random = user_.run({"status"}, {{"VOLADOR_TOKEN", other}, {"VOLADOR_ADDRESS", started["address"]}});
  EXPECT_EQ(random.code, 5) << random.out;
  EXPECT_THAT(random.error, AllOf(HasSubstr("no token"), Not(HasSubstr("another version"))));
}

TEST_F(Cluster, WhatDoesNotExistIsNotFound) {
  start_head();
  for (const char* command : {"explain", "logs", "drain", "kill"})
    EXPECT_EQ(user_.run({command, "nothing-of-that-name"}).code, 6) << command;
  EXPECT_EQ(user_.run({"token", "revoke", "0123456789ab"}).code, 6);
  EXPECT_EQ(user_.run({"drain", "first"}).code, 0);
  EXPECT_EQ(user_.run({"list", "nodes", "--json"}).json()["nodes"][0]["state"], "draining");
  EXPECT_EQ(user_.run({"drain", "first", "--undo"}).code, 0);
  EXPECT_EQ(user_.run({"logs", "head", "--tail=5"}).code, 0);
  EXPECT_THAT(user_.run({"list", "actors"}).out, HasSubstr("no actors"));
  EXPECT_THAT(user_.run({"list", "trials"}).out, HasSubstr("no trials"));
}

TEST_F(Cluster, AnIdleOneStopsWithinASecond) {
  start_head();
  const Finished stop = user_.run({"stop"});
  EXPECT_EQ(stop.code, 0);
  EXPECT_LT(stop.seconds, 1.0);
}

TEST_F(Cluster, StopTidiesUpAfterAWorkerThatWasKilled) {
  const auto started = start_head();
  kill_and_reap(start_trials(1));
  const pid_t worker = started["pids"][1];
  std::ofstream(user_.home() / "clusters/heron/nodes/first/node.json.0123456789abcdef.tmp") << "half";
  ASSERT_EQ(::kill(worker, SIGKILL), 0);
  while (is_alive(worker)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_THAT(leftovers(), Not(IsEmpty())) << "else this test shows nothing";

  const Finished stop = user_.run({"stop", "--json"});
  EXPECT_EQ(stop.code, 0) << stop.error;
  ASSERT_EQ(stop.json()["left_over"].size(), 1u) << stop.out;
  EXPECT_EQ(stop.json()["left_over"][0]["node"], "first");
  EXPECT_EQ(stop.json()["left_over"][0]["pid"], worker);
  EXPECT_THAT(leftovers(), IsEmpty());
  EXPECT_TRUE(user_.run({"stop", "--json"}).json()["left_over"].empty());
}

TEST_F(Cluster, StopTidiesUpWhenEverythingWasKilled) {
  const auto started = start_head();
  for (const pid_t pid : started["pids"]) ASSERT_EQ(::kill(pid, SIGKILL), 0);
  for (const pid_t pid : started["pids"])
    while (is_alive(pid)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const Finished stop = user_.run({"stop"});
  EXPECT_EQ(stop.code, 0) << stop.error;
  EXPECT_THAT(stop.out, HasSubstr(fmt::format("what the head (pid {}) left", started["pids"][0].get<int>())));
  EXPECT_THAT(leftovers(), IsEmpty());
}

TEST_F(Cluster, StopLeavesOtherClustersAndOtherProcessesAlone) {
  start_head();
  const Finished second = user_.run({"start", "--head", "--cluster=crane", "--port=0", "--num-cpus=1", "--json"});
  ASSERT_EQ(second.code, 0) << second.error;
  const pid_t other_worker = second.json()["pids"][1];
  // A pid file whose start time does not match the running process: the pid was reused.
  const auto pid_file = user_.home() / "clusters/heron/nodes/ghost/worker.pid";
  std::filesystem::create_directories(pid_file.parent_path());
  const pid_t stranger = user_.start("/usr/bin/sleep", {"600"});
  ProcessRecord record = *describe_process(stranger);
  --record.start_ticks;
  std::ofstream(pid_file) << to_text(record);

  const Finished stop = user_.run({"stop", "--cluster=heron", "--json"});
  EXPECT_EQ(stop.code, 0) << stop.error;
  EXPECT_EQ(stop.json()["stopped"].size(), 2u);
  EXPECT_FALSE(std::filesystem::exists(pid_file));
  EXPECT_TRUE(is_alive(stranger));
  EXPECT_TRUE(is_alive(other_worker));
  EXPECT_EQ(user_.run({"status", "--cluster=crane"}).code, 0);
  kill_and_reap(stranger);
}

TEST_F(Cluster, StartTidiesUpAfterAWorkerOfAnotherNameThatWasKilled) {
  const auto started = start_head();
  const std::string address = started["address"];
  const std::map<std::string, std::string> token{{"VOLADOR_TOKEN", started["join_token"]}};
  const Finished second =
      user_.run({"start", "--address=" + address, "--name=second", "--num-cpus=1", "--json"}, token);
  ASSERT_EQ(second.code, 0) << second.error;
  const pid_t worker = second.json()["pids"][0];
  ASSERT_EQ(::kill(worker, SIGKILL), 0);
  while (is_alive(worker)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  const auto pid_file = user_.home() / "clusters/heron/nodes/second/worker.pid";
  EXPECT_TRUE(std::filesystem::exists(pid_file));
  EXPECT_EQ(user_.run({"start", "--address=" + address, "--name=third", "--num-cpus=1"}, token).code, 0);
  EXPECT_FALSE(std::filesystem::exists(pid_file));
}

TEST_F(Cluster, JournalsToTheStoreThatItIsTold) {
  if (!RedisServer::installed()) GTEST_SKIP() << "not run: redis-server is not installed";
  const auto folder = user_.home() / "redis";
  std::filesystem::create_directory(folder);
  RedisServer forgetful(folder, {"--appendonly", "no"});
  ASSERT_TRUE(forgetful.start());
  const std::string store = fmt::format("--store=redis://127.0.0.1:{}", forgetful.port());
  const std::vector<std::string> start{"start", "--head", "--port=0", "--cluster=heron", "--num-cpus=1", store};
  const Finished refused = user_.run(start);
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.error, HasSubstr("append"));
  auto forced = start;
  forced.push_back("--force-store");
  EXPECT_EQ(user_.run(forced).code, 0);
  EXPECT_EQ(user_.run({"stop"}).code, 0);
  EXPECT_FALSE(std::filesystem::exists(user_.home() / "clusters/heron/head/journal.db"));
  EXPECT_EQ(user_.run({"start", "--address=127.0.0.1:1", "--force-store"}).code, 2);
}

TEST_F(Cluster, BlockStaysInTheForegroundUntilItIsStopped) {
  Finished blocked;
  std::thread foreground([&] {
    blocked = user_.run({"start", "--head", "--cluster=heron", "--port=0", "--name=first", "--num-cpus=1", "--block"});
  });
  EXPECT_EQ(alive_nodes(1), std::vector<std::string>{"first"});
  EXPECT_EQ(user_.run({"stop"}).code, 0);
  foreground.join();
  EXPECT_EQ(blocked.code, 0) << blocked.error;
  EXPECT_THAT(processes_of(user_.home()), IsEmpty());
}

// Waits for it to exit; -1: it does not.
int code_of(pid_t pid) {
  int status = 0;
  for (int i = 0; i < 1200; ++i) {
    if (::waitpid(pid, &status, WNOHANG) == pid)
      return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return -1;
}

std::string text_of(const std::filesystem::path& file) {
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  return text.str();
}

TEST_F(Cluster, AProgramEndsWithItsClusterAndItsRunGoesOnInTheNextOne) {
  start_head();
  const auto error = user_.home() / "error";
  const pid_t driver = user_.start(
      "/bin/sh",
      {"-c", fmt::format("exec {} --num-samples=2 --reports=200 --seconds=10 --cpus=0.5 --checkpoint-frequency=10 2>{}",
                         built_program("tune_sleep"), error.native())});
  const auto steps = [this] {
    int64_t done = 0;
    const Finished listed = user_.run({"list", "trials", "--json"});
    if (listed.code == 0) {
      const auto json = listed.json();
      for (const auto& trial : json["trials"]) done += trial["step"].get<int64_t>();
    }
    return done;
  };
  for (int i = 0; i < 300 && steps() < 24; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_EQ(user_.run({"stop"}).code, 0);
  EXPECT_EQ(code_of(driver), 1);
  EXPECT_THAT(text_of(error),
              AllOf(HasSubstr("the cluster heron was stopped at 20"), HasSubstr("(volador, pid "),
                    HasSubstr("it does not come back"), HasSubstr("volador tune resume ~/volador_results/sleep_")));
  const nlohmann::json runs = user_.run({"tune", "list", "--json"}).json()["runs"];
  ASSERT_EQ(runs.size(), 1U);
  EXPECT_EQ(runs[0]["state"], "interrupted");

  start_head();
  const Finished resumed = user_.run({"tune", "resume", runs[0]["directory"]});
  EXPECT_EQ(resumed.code, 0) << resumed.out << resumed.error;
  const nlohmann::json run = user_.run({"tune", "show", runs[0]["directory"], "--json"}).json();
  EXPECT_EQ(run["state"], "finished");
  for (const auto& trial : run["trials"]) EXPECT_EQ(trial["steps"], 200);
}

// In a private cluster the worker is a child of the program, and the head a child of the worker.
std::vector<pid_t> children_of(pid_t parent) {
  std::vector<pid_t> children;
  std::ifstream list(fmt::format("/proc/{0}/task/{0}/children", parent));
  for (pid_t pid = 0; list >> pid;) children.push_back(pid);
  return children;
}

TEST_F(Cluster, AProgramEndsWithItsPrivateClusterToo) {
  for (const bool end_head : {false, true}) {
    const auto error = user_.home() / (end_head ? "head" : "worker");
    const pid_t driver =
        user_.start("/bin/sh", {"-c", fmt::format("exec {} --num-samples=1 --reports=6000 --seconds=600 2>{}",
                                                  built_program("tune_sleep"), error.native())});
    // Wait until its display shows a running trial.
    for (int i = 0; i < 600 && text_of(error).find("running") == std::string::npos; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    ASSERT_THAT(text_of(error), HasSubstr("running"));
    ASSERT_EQ(children_of(driver).size(), 1U);
    pid_t asked = children_of(driver)[0];
    if (end_head) {
      const std::vector<pid_t> inner = children_of(asked);
      ASSERT_FALSE(inner.empty());
      asked = *std::min_element(inner.begin(), inner.end());  // The first process that it started.
    }
    ASSERT_EQ(::kill(asked, SIGTERM), 0);
    EXPECT_EQ(code_of(driver), 1) << text_of(error);
    EXPECT_THAT(text_of(error), HasSubstr("it does not come back"));
    EXPECT_EQ(text_of(error).find(fmt::format("pid {})", ::getpid())) != std::string::npos, end_head)
        << "who asked the head for it is named";
  }
}

TEST_F(Cluster, AnExperimentIsPausedResumedAndStoppedByItsNameAndATrialByItsId) {
  start_head();
  const pid_t driver = start_trials(2, {"--reports=6000", "--cpus=0.5"});
  // Without this machine's results folder the cluster is queried.
  const std::map<std::string, std::string> elsewhere = {{"HOME", (user_.home() / "elsewhere").native()}};
  const auto with_status = [this](const std::string& status) {
    std::vector<std::string> ids;
    const nlohmann::json listed = user_.run({"list", "trials", "--json"}).json();
    for (const auto& trial : listed["trials"])
      if (trial["status"] == status) ids.push_back(trial["id"]);
    return ids;
  };
  const auto come_to = [&](const std::string& status, size_t count) {
    for (int i = 0; i < 200 && with_status(status).size() != count; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return with_status(status);
  };
  const std::vector<std::string> ids = come_to("running", 2);
  ASSERT_EQ(ids.size(), 2U);
  EXPECT_EQ(user_.run({"tune", "stop", "moon"}).code, 6);
  for (const auto& environment : {std::map<std::string, std::string>(), elsewhere})
    EXPECT_EQ(user_.run({"tune", "pause", "sleep", "zz"}, environment).code, 6);
  EXPECT_EQ(user_.run({"tune", "pause", "sleep"}).code, 0);
  EXPECT_EQ(come_to("paused", 2).size(), 2U);
  EXPECT_THAT(user_.run({"explain", ids[0]}).out, HasSubstr("paused on request after step"));
  const Finished one = user_.run({"tune", "resume", "sleep", "--json"}, elsewhere);
  EXPECT_EQ(one.code, 0) << one.error;
  EXPECT_EQ(one.json()["act"], "resume");
  EXPECT_EQ(come_to("running", 2).size(), 2U);
  const Finished refused = user_.run({"tune", "add", "sleep", "{\"quality\": 9}"}, elsewhere);
  EXPECT_EQ(refused.code, 2) << refused.error;
  EXPECT_THAT(refused.error, HasSubstr("config: quality is 9: expected a value of"));
  EXPECT_EQ(user_.run({"tune", "add", "sleep", "{\"quality\": 0.5, \"seconds\": 601}"}, elsewhere).code, 2)
      << "a constant";
  const Finished added = user_.run({"tune", "add", "sleep", "{\"quality\": 0.5}", "--json"}, elsewhere);
  EXPECT_EQ(added.code, 0) << added.error;
  EXPECT_EQ(added.json()["act"], "add");
  std::string third;
  for (int i = 0; i < 200 && third.empty(); ++i) {
    const nlohmann::json listed = user_.run({"list", "trials", "--json"}).json();
    for (const auto& trial : listed["trials"])
      if (trial["id"] != ids[0] && trial["id"] != ids[1]) third = trial["id"];
    if (third.empty()) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  ASSERT_NE(third, "");
  EXPECT_EQ(user_.run({"tune", "add", "sleep", "--like=zz"}, elsewhere).code, 6);
  const Finished cloned = user_.run({"tune", "add", "sleep", "--like=" + third, "--json"}, elsewhere);
  EXPECT_EQ(cloned.code, 0) << cloned.error;
  EXPECT_EQ(cloned.json()["trial"], third);
  nlohmann::json clone;
  for (int i = 0; i < 200 && clone.is_null(); ++i) {
    const nlohmann::json listed = user_.run({"list", "trials", "--json"}).json();
    for (const auto& trial : listed["trials"])
      if (trial["cloned_from"] == third) clone = trial;
    if (clone.is_null()) std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  ASSERT_FALSE(clone.is_null());
  EXPECT_EQ(clone["config"]["quality"], 0.5);
  EXPECT_EQ(user_.run({"tune", "stop", "sleep", clone["id"]}).code, 0);
  EXPECT_EQ(user_.run({"tune", "stop", "sleep", third}).code, 0);
  const Finished stopped = user_.run({"tune", "stop", "sleep", ids[0], "--json"});
  EXPECT_EQ(stopped.code, 0) << stopped.error;
  EXPECT_EQ(stopped.json()["trial"], ids[0]);
  EXPECT_EQ(come_to("running", 1), std::vector<std::string>{ids[1]}) << "the other one goes on";
  EXPECT_EQ(user_.run({"tune", "stop", "sleep"}, elsewhere).code, 0);
  ::waitpid(driver, nullptr, 0);
  EXPECT_EQ(user_.run({"tune", "stop", "sleep"}, elsewhere).code, 6) << "it has ended";
}

}  // namespace
}  // namespace volador::testing
