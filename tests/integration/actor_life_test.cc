// Names in namespaces, health checks, user metrics, stacks and timelines, with real processes, a head started by the
// command line, and the output of the command line.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <volador/volador.h>

#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <optional>
#include <set>
#include <sstream>
#include <thread>

#include "tests/cli/cluster/run_volador.h"
#include "tests/integration/cluster_main.h"

namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using volador::Isolation;

class Patient {
 public:
  int add(int amount) { return value_ += amount; }
  int restarts() { return volador::self().restarts; }
  int pid() { return ::getpid(); }
  std::string variable(std::string name) {
    const char* value = std::getenv(name.c_str());
    return value == nullptr ? "unset" : value;
  }
  std::string directory() { return std::filesystem::current_path().string(); }
  std::string where() { return volador::self().actor_namespace; }
  volador::ActorId sibling(std::string name) { return volador::get_actor<Patient>(name).id(); }
  volador::ActorId child(std::string name) {
    return volador::actor<Patient>().name(std::move(name)).with_creator().spawn().id();
  }
  void says(const std::string& words) {
    std::puts(words.c_str());
    std::fflush(stdout);
  }
  // Sets the behaviour of its health check.
  void fall(std::string how) { how_ = std::move(how); }
  bool well() {
    if (how_ == "false") return false;
    if (how_ == "throw") throw std::runtime_error("no pulse");
    if (how_ == "hang") hang();
    return true;
  }
  // Waits for an event that never occurs.
  __attribute__((noinline)) void hang() {
    std::unique_lock<std::mutex> hold(mutex_);
    never_.wait(hold, [] { return false; });
  }
  int computes(int milliseconds) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds);
    while (std::chrono::steady_clock::now() < until) sum_ = sum_ + 1;
    return 1;
  }

 private:
  int value_ = 0;
  volatile uint64_t sum_ = 0;
  std::string how_;
  std::mutex mutex_;
  std::condition_variable never_;
};
VOLADOR_ACTOR(Patient, &Patient::add, &Patient::restarts, &Patient::pid, &Patient::where, &Patient::sibling,
              &Patient::child, &Patient::says, &Patient::fall, &Patient::well, &Patient::hang, &Patient::computes,
              &Patient::variable, &Patient::directory);

int cube(int x) { return x * x * x; }
void naps() {
  while (!volador::cancel_requested()) std::this_thread::sleep_for(1ms);
}

class OneHead {
 public:
  OneHead() {
    const auto head =
        run({"start", "--head", "--port=0", "--cluster=heron", "--name=first", "--num-cpus=4", "--json"}).json();
    const std::string address = head["address"];
    ::setenv("VOLADOR_HOME", user_.home().c_str(), 1);
    ::setenv("VOLADOR_ADDRESS", address.c_str(), 1);
  }
  volador::testing::Finished run(std::vector<std::string> arguments) const { return user_.run(std::move(arguments)); }
  const std::filesystem::path& home() const { return user_.home(); }

 private:
  volador::testing::VoladorUser user_;
};
OneHead* head = nullptr;

template <class T>
volador::ActorStatus wait_for(const volador::ActorHandle<T>& actor, volador::ActorState state) {
  while (true) {
    const auto status = actor.status();
    if (status.state == state) return status;
    std::this_thread::sleep_for(5ms);
  }
}

// ---- namespaces ----

// Time since boot.
std::chrono::milliseconds begun_at(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string line;
  std::getline(file, line);
  std::istringstream fields(line.substr(line.rfind(')') + 2));
  std::string skipped;
  for (int i = 0; i < 19; ++i) fields >> skipped;
  int64_t ticks = 0;
  fields >> ticks;
  return std::chrono::milliseconds(ticks * 1000 / sysconf(_SC_CLK_TCK));
}
std::chrono::milliseconds since_boot() {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::milliseconds(now.tv_nsec / 1'000'000);
}

TEST(SpareHosts, AnActorTakesAProcessThatStoodBeforeItAndFindsItsOwnEnvironment) {
  bool found = false;
  for (int i = 0; i < 100 && !found; ++i) {
    const auto asked = since_boot();
    const std::string value = std::to_string(i);
    auto patient = volador::actor<Patient>().env("SPARE_VALUE", value).spawn();
    const pid_t pid = patient.call<&Patient::pid>().get();
    EXPECT_EQ(patient.call<&Patient::variable>(std::string("SPARE_VALUE")).get(), value);
    EXPECT_EQ(patient.call<&Patient::variable>(std::string("CUDA_VISIBLE_DEVICES")).get(), "");
    EXPECT_EQ(patient.call<&Patient::directory>().get(), std::filesystem::current_path());
    found = begun_at(pid) + 30ms < asked;
    patient.kill();
    std::this_thread::sleep_for(100ms);
  }
  EXPECT_TRUE(found);
}

TEST(Namespaces, TwoActorsOfOneNameAndWhoFindsWhich) {
  const auto mine = volador::actor<Patient>().name("hits").spawn();
  const auto theirs = volador::actor<Patient>().name("hits").in_namespace("team-a").spawn();
  EXPECT_NE(mine.id(), theirs.id());
  EXPECT_EQ(volador::get_actor<Patient>("hits"), mine);
  EXPECT_EQ(volador::get_actor<Patient>("hits", "team-a"), theirs);
  EXPECT_EQ(volador::actor<Patient>().name("hits").in_namespace("team-a").get_or_create(), theirs);
  EXPECT_EQ(theirs.call<&Patient::where>().get(60s), "team-a");
  EXPECT_EQ(theirs.call<&Patient::sibling>("hits").get(60s), theirs.id()) << "an actor looks in its own";
  EXPECT_EQ(mine.call<&Patient::sibling>("hits").get(60s), mine.id());
  EXPECT_EQ(theirs.status().actor_namespace, "team-a");
  const auto child = theirs.call<&Patient::child>("child").get(60s);
  EXPECT_EQ(volador::get_actor<Patient>("child", "team-a").id(), child);
  EXPECT_THROW(volador::get_actor<Patient>("child"), volador::Exception);

  const auto list = head->run({"list", "actors", "--json"}).json();
  std::multiset<std::string> named;
  for (const auto& actor : list["actors"])
    named.insert(actor["namespace"].get<std::string>() + "/" + actor["name"].get<std::string>());
  EXPECT_THAT(named, testing::IsSupersetOf({"default/hits", "team-a/hits", "team-a/child"}));
  EXPECT_THAT(head->run({"list", "actors"}).out, HasSubstr("team-a/hits"));
  EXPECT_THAT(head->run({"explain", "team-a/hits"}).out, HasSubstr(to_string(theirs.id()).substr(0, 8)));
  mine.kill();
  theirs.kill();
}

TEST(Namespaces, SharedActorsOfOneProcessHaveTheirOwn) {
  const auto first = volador::actor<Patient>().name("twin").isolation(Isolation::kShared).spawn();
  const auto second =
      volador::actor<Patient>().name("twin").in_namespace("team-b").isolation(Isolation::kShared).spawn();
  EXPECT_EQ(first.call<&Patient::pid>().get(60s), second.call<&Patient::pid>().get(60s));
  EXPECT_EQ(first.call<&Patient::sibling>("twin").get(60s), first.id());
  EXPECT_EQ(second.call<&Patient::sibling>("twin").get(60s), second.id());
  first.kill();
  second.kill();
}

TEST(Namespaces, WhatIsNoNameIsRefused) {
  EXPECT_THAT([] { volador::actor<Patient>().name("x").in_namespace("team a").spawn(); },
              testing::Throws<volador::Exception>(testing::Property(
                  &volador::Exception::what, HasSubstr("namespace \"team a\": expected 1 to 63 letters"))));
}

// ---- health ----

void expect_restart(Isolation isolation, const char* how, const char* cause) {
  auto patient = volador::actor<Patient>()
                     .max_restarts(1)
                     .isolation(isolation)
                     .health_check<&Patient::well>({.period = 50ms, .timeout = 500ms, .failures = 2})
                     .spawn();
  EXPECT_EQ(patient.call<&Patient::restarts>().get(60s), 0);
  patient.call<&Patient::fall>(how).get(60s);
  while (patient.status().restarts == 0) std::this_thread::sleep_for(5ms);
  EXPECT_EQ(patient.call<&Patient::restarts>().get(60s), 1);
  patient.call<&Patient::fall>(how);
  const auto dead = wait_for(patient, volador::ActorState::kDead);
  EXPECT_THAT(dead.death.message,
              AllOf(HasSubstr("its health check did not pass: health check Patient::well "), HasSubstr(cause)));
  EXPECT_EQ(patient.call<&Patient::add>(1).result(60s).error().code, volador::ErrorCode::kActorDied);
  EXPECT_THAT(head->run({"explain", to_string(patient.id())}).out, HasSubstr(cause));
}

TEST(Health, OneThatSaysItIsNotWellRestartsByItsPolicy) {
  expect_restart(Isolation::kProcess, "false", "returned false, 2 times in a row");
}
TEST(Health, OneThatThrowsDiesOfIt) {
  expect_restart(Isolation::kProcess, "throw", "threw std::runtime_error: no pulse, 2 times in a row");
}
TEST(Health, OneThatHangsIsEnded) { expect_restart(Isolation::kProcess, "hang", "did not return within 0.5 s"); }
TEST(Health, AmongSharedActorsOnlyTheOneEnds) {
  const auto neighbour = volador::actor<Patient>().name("neighbour").isolation(Isolation::kShared).spawn();
  EXPECT_EQ(neighbour.call<&Patient::add>(1).get(60s), 1);
  expect_restart(Isolation::kShared, "throw", "no pulse");
  expect_restart(Isolation::kShared, "hang", "did not return within 0.5 s");
  EXPECT_EQ(neighbour.call<&Patient::add>(1).get(60s), 2) << "its process lives on";
  neighbour.kill();
}

TEST(Health, ACallThatTakesLongIsNoIllnessWhereTheCheckWaitsForItsTurn) {
  const auto patient =
      volador::actor<Patient>().health_check<&Patient::well>({.period = 20ms, .timeout = 200ms, .failures = 1}).spawn();
  EXPECT_EQ(patient.call<&Patient::computes>(1500).get(60s), 1);
  EXPECT_EQ(patient.call<&Patient::add>(1).get(60s), 1);
  patient.kill();
}

TEST(Health, ACallThatHangsIsOneWhereATurnMustCome) {
  const auto patient = volador::actor<Patient>()
                           .health_check<&Patient::well>({.period = 20ms, .timeout = 500ms, .turn_timeout = 300ms})
                           .spawn();
  const auto hanging = patient.call<&Patient::hang>();
  EXPECT_EQ(hanging.result(60s).error().code, volador::ErrorCode::kActorDied);
  EXPECT_THAT(patient.status().death.message, HasSubstr("got no turn within 0.3 s behind other calls"));
}

TEST(Health, OptionsOutOfRangeAreRefused) {
  EXPECT_THAT([] { volador::actor<Patient>().health_check<&Patient::well>({.period = 0ms}).spawn(); },
              testing::Throws<volador::Exception>(testing::Property(
                  &volador::Exception::what, HasSubstr("health_check: period: expected 1 ms or more, got 0 ms"))));
}

// ---- stacks ----

TEST(Stacks, OneThatHangsIsSeenWhereItHangs) {
  for (const Isolation isolation : {Isolation::kProcess, Isolation::kShared}) {
    const auto patient = volador::actor<Patient>().name("stuck").isolation(isolation).spawn();
    const int pid = patient.call<&Patient::pid>().get(60s);
    const auto hanging = patient.call<&Patient::hang>();
    nlohmann::json seen;
    const auto until = std::chrono::steady_clock::now() + 30s;
    do {
      seen = head->run({"stack", "stuck", "--json"}).json();
    } while (seen["threads"][0]["runs"] != "Patient::hang" && std::chrono::steady_clock::now() < until);
    EXPECT_EQ(seen["pid"], pid);
    EXPECT_EQ(seen["threads"][0]["runs"], "Patient::hang") << seen.dump(1);
    EXPECT_EQ(seen["threads"][0]["actor"], to_string(patient.id()));
    std::string frames;
    for (const auto& frame : seen["threads"][0]["frames"]) frames += frame.get<std::string>() + "\n";
    EXPECT_THAT(frames, HasSubstr("Patient::hang()")) << seen.dump(1);
    EXPECT_THAT(head->run({"stack", "stuck"}).out,
                AllOf(HasSubstr("runs Patient::hang for"), HasSubstr("Patient::hang()+0x")));
    patient.kill();
    wait_for(patient, volador::ActorState::kDead);
  }
}

TEST(Stacks, TheActorGoesOnAsBefore) {
  const auto patient = volador::actor<Patient>().spawn();
  std::vector<volador::Future<int>> sums;
  for (int n = 0; n < 20; ++n) sums.push_back(patient.call<&Patient::computes>(20));
  for (int n = 0; n < 5; ++n) EXPECT_EQ(head->run({"stack", to_string(patient.id())}).code, 0);
  for (auto& sum : sums) EXPECT_EQ(sum.get(60s), 1);
  EXPECT_EQ(patient.status().restarts, 0);
  patient.kill();
}

TEST(Stacks, OneWithoutAProcessOrThatStandsStillIsSaidToBe) {
  const auto waits = volador::actor<Patient>().resources({.cpus = 100}).wait_if_infeasible().spawn();
  const auto pending = head->run({"stack", to_string(waits.id())});
  EXPECT_NE(pending.code, 0);
  EXPECT_THAT(pending.error, AllOf(HasSubstr("is pending"), HasSubstr("it has no process to look into")));
  waits.kill();
  wait_for(waits, volador::ActorState::kDead);
  EXPECT_THAT(head->run({"stack", to_string(waits.id())}).error, HasSubstr("is dead"));
  EXPECT_THAT(head->run({"stack", "nobody"}).error, HasSubstr("nobody"));

  const auto stopped = volador::actor<Patient>().spawn();
  const int pid = stopped.call<&Patient::pid>().get(60s);
  ::kill(pid, SIGSTOP);
  EXPECT_THAT(head->run({"stack", to_string(stopped.id())}).error,
              HasSubstr("did not answer within 6 s: it may be stopped"));
  ::kill(pid, SIGCONT);
  EXPECT_EQ(stopped.call<&Patient::add>(1).get(60s), 1);
  stopped.kill();
}

// ---- logs ----

TEST(Logs, OfASharedActorAreThoseOfItsProcess) {
  const auto first = volador::actor<Patient>().name("speaks").isolation(Isolation::kShared).spawn();
  const auto second = volador::actor<Patient>().name("listens").isolation(Isolation::kShared).spawn();
  first.call<&Patient::says>("of the first").get(60s);
  second.call<&Patient::says>("of the second").get(60s);
  for (const char* name : {"speaks", "listens"}) {
    std::string seen;
    const auto until = std::chrono::steady_clock::now() + 30s;
    do {
      seen = head->run({"logs", name}).out;
    } while (seen.find("of the second") == std::string::npos && std::chrono::steady_clock::now() < until);
    EXPECT_THAT(seen, HasSubstr("of the first\nof the second\n")) << name;
  }
  first.kill();
  second.kill();
}

// ---- the timeline ----

TEST(Timeline, HasCallsAndTasksWithTheirTimes) {
  const auto patient = volador::actor<Patient>().spawn();
  for (int n = 0; n < 500; ++n) patient.call<&Patient::add>(1);
  patient.call<&Patient::computes>(50).get(60s);
  const auto light = volador::actor<Patient>().isolation(Isolation::kShared).spawn();
  light.call<&Patient::computes>(30).get(60s);
  EXPECT_EQ(volador::task<&cube>(3).submit().get(60s), 27);
  auto nap = volador::task<&naps>().submit();  // In the same process, which would end when idle.
  const auto hanging = patient.call<&Patient::hang>();
  const auto file = head->home() / "trace.json";
  std::map<std::string, nlohmann::json> longest;
  int64_t adds = 0;
  const auto until = std::chrono::steady_clock::now() + 30s;
  do {
    const auto saved = head->run({"timeline", "--output=" + file.string()});
    ASSERT_EQ(saved.code, 0) << saved.error;
    EXPECT_THAT(saved.out, HasSubstr("ui.perfetto.dev"));
    std::ifstream in(file);
    const auto trace = nlohmann::json::parse(in);
    longest.clear();
    adds = 0;
    for (const auto& event : trace["traceEvents"]) {
      if (event["ph"] != "X") continue;
      const bool mine = event["args"]["actor"] == to_string(patient.id());
      if (mine && event["name"] == "Patient::add") adds += event["args"].value("calls", 1);
      auto& known =
          longest[event["name"].get<std::string>() + (event["args"]["actor"] == to_string(light.id()) ? " light" : "")];
      if (known.is_null() || known["dur"] < event["dur"]) known = event;
    }
  } while (!longest.contains("Patient::hang") && std::chrono::steady_clock::now() < until);
  EXPECT_EQ(adds, 500);
  EXPECT_GE(longest["Patient::computes"]["dur"].get<double>(), 50'000);
  EXPECT_GE(longest["Patient::computes light"]["dur"].get<double>(), 30'000);
  EXPECT_TRUE(longest.contains("cube")) << "tasks are there by their function";
  EXPECT_EQ(longest["Patient::hang"]["args"]["running"], true);
  const auto now =
      std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch())
          .count();
  EXPECT_LT(std::abs(now - longest["Patient::computes"]["ts"].get<int64_t>()), 120'000'000) << "Unix time";

  const auto one = nlohmann::json::parse(head->run({"timeline", "--id=" + to_string(patient.id()), "--output=-"}).out);
  for (const auto& event : one["traceEvents"]) {
    if (event["ph"] == "X") {
      EXPECT_EQ(event["args"]["actor"], to_string(patient.id()));
    }
  }
  nap.cancel();
  patient.kill();
}

// Last test: it ends the cluster.
TEST(StoppedCluster, EndsWhatWaitsForIt) {
  const auto giant = volador::actor<Patient>().resources({.cpus = 1000}).wait_if_infeasible().spawn();
  auto call = giant.call<&Patient::add>(1);
  ASSERT_EQ(head->run({"stop"}).code, 0);
  const auto ended = call.result();
  ASSERT_FALSE(ended);
  EXPECT_EQ(ended.error().code, volador::ErrorCode::kCancelled);
  EXPECT_THAT(ended.error().message, AllOf(HasSubstr("the cluster "), HasSubstr(" was stopped at "),
                                           HasSubstr("(volador, pid "), HasSubstr("it does not come back")));
  try {
    (void)volador::actor<Patient>().spawn();
    FAIL() << "there is no cluster";
  } catch (const volador::Exception& error) {
    EXPECT_THAT(error.what(), HasSubstr("it does not come back"));
  }
}

}  // namespace

int main(int argc, char** argv) { return volador::testing::run_tests_on(head, argc, argv, {.logs_to_driver = false}); }
