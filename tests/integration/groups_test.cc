// Placement groups on a cluster of two workers: real processes, the real command line, a worker that is killed.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <volador/volador.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <set>
#include <thread>

#include "tests/integration/cluster_main.h"
#include "tests/integration/two_workers.h"

namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;
using volador::Strategy;

class Trainer {
 public:
  std::string devices() const {
    const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
    return visible == nullptr ? "unset" : visible;
  }
  std::string node() const { return volador::self().node_name; }
};
VOLADOR_ACTOR(Trainer, &Trainer::devices, &Trainer::node);

// Each worker has two simulated GPUs.
struct TwoWorkersWithGpus : volador::testing::TwoWorkers {
  TwoWorkersWithGpus()
      : TwoWorkers({"--num-gpus=2", "--labels=zone=a,disk=ssd"}, {"--num-gpus=2", "--labels=zone=b"}) {}
};
TwoWorkersWithGpus* workers = nullptr;

std::set<std::string> nodes_of(const volador::PlacementGroup& group) {
  std::set<std::string> nodes;
  for (const auto& bundle : group.status().bundles) nodes.insert(bundle.node_name);
  return nodes;
}
std::string short_of(const volador::PlacementGroup& group) { return to_string(group.id()).substr(0, 8); }

// Waits until the cluster holds no resources, at most a minute.
void expect_nothing_held() {
  nlohmann::json used;
  for (int i = 0; i < 600; ++i) {
    used = workers->run({"status", "--json"}).json()["used"];
    if (used.empty()) return;
    std::this_thread::sleep_for(100ms);
  }
  ADD_FAILURE() << "still held: " << used.dump();
}

TEST(Groups, ActorsRunWhereTheirBundlesAreWithTheDevicesOfThese) {
  const auto group = volador::placement_group({{.cpus = 1, .gpus = 1}, {.cpus = 1, .gpus = 1}}, Strategy::kStrictSpread,
                                              {.name = "trainers"});
  group.ready().get(60s);
  EXPECT_EQ(nodes_of(group), (std::set<std::string>{"first", "second"}));
  const auto status = group.status();
  for (int bundle = 0; bundle < 2; ++bundle) {
    const auto trainer = volador::actor<Trainer>().resources({.cpus = 1, .gpus = 1}).in(group, bundle).spawn();
    const auto& held = status.bundles[static_cast<size_t>(bundle)];
    EXPECT_EQ(trainer.call<&Trainer::node>().get(60s), held.node_name);
    EXPECT_EQ(trainer.call<&Trainer::devices>().get(60s), std::to_string(held.gpus.at(0)));
  }
  const auto list = workers->run({"list", "groups", "--json"}).json();
  ASSERT_EQ(list["total"], 1);
  EXPECT_EQ(list["groups"][0]["name"], "trainers");
  EXPECT_EQ(list["groups"][0]["bundles"][0]["actors"], 1);
  EXPECT_EQ(list["groups"][0]["bundles"][0]["used"]["gpus"], 1);
  EXPECT_THAT(workers->run({"list", "groups"}).out,
              AllOf(HasSubstr("trainers"), HasSubstr("strict_spread"), HasSubstr("first,second")));
  EXPECT_THAT(workers->run({"explain", "trainers"}).out,
              AllOf(HasSubstr("ready, strict_spread"), HasSubstr("bundle 1: cpus 1, gpus 1 on node")));
  EXPECT_EQ(volador::get_placement_group("trainers"), group);
  group.remove().get(60s);
  expect_nothing_held();
}

std::string node_of_task() { return volador::self().node_name; }

TEST(Nodes, AreChosenByNameByLabelsAndApart) {
  const auto where = [](volador::ActorBuilder<Trainer> builder) { return std::move(builder).spawn(); };
  EXPECT_EQ(where(volador::actor<Trainer>().node("second")).call<&Trainer::node>().get(60s), "second");
  EXPECT_EQ(where(volador::actor<Trainer>().prefer_node("gone")).call<&Trainer::node>().get(60s).empty(), false);
  EXPECT_EQ(
      where(volador::actor<Trainer>().label("zone", volador::label_in({"b", "c"}))).call<&Trainer::node>().get(60s),
      "second");
  EXPECT_EQ(
      where(volador::actor<Trainer>().label("zone", volador::label_not_in({"b"}))).call<&Trainer::node>().get(60s),
      "first");
  EXPECT_EQ(where(volador::actor<Trainer>().label("disk", volador::label_absent())).call<&Trainer::node>().get(60s),
            "second");
  EXPECT_EQ(volador::task<&node_of_task>().label("disk", volador::label_exists()).submit().get(60s), "first");
  EXPECT_EQ(volador::task<&node_of_task>().node("second").submit().get(60s), "second");

  std::vector<volador::ActorHandle<Trainer>> replicas;
  std::set<std::string> nodes;
  for (int i = 0; i < 3; ++i) replicas.push_back(volador::actor<Trainer>().apart("replicas").spawn());
  for (int i = 0; i < 2; ++i) nodes.insert(replicas[static_cast<size_t>(i)].call<&Trainer::node>().get(60s));
  EXPECT_EQ(nodes, (std::set<std::string>{"first", "second"}));
  EXPECT_THAT(workers->run({"explain", to_string(replicas[2].id())}).out,
              HasSubstr("apart replicas: each of the 2 nodes"));
  replicas[0].kill();
  EXPECT_EQ(nodes.count(replicas[2].call<&Trainer::node>().get(60s)), 1u);

  const auto refused = [](volador::ActorBuilder<Trainer> builder) {
    try {
      std::move(builder).spawn();
    } catch (const volador::Exception& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  EXPECT_THAT(refused(volador::actor<Trainer>().node("third")), HasSubstr("the cluster has no node of this name"));
  EXPECT_THAT(refused(volador::actor<Trainer>().label("zone", "d")), HasSubstr("--labels=zone=d"));
  EXPECT_THAT(refused(volador::actor<Trainer>().label("zone", volador::label_in({}))),
              HasSubstr("expected at least one value"));
}

TEST(Groups, TasksRunInTheirBundles) {
  const auto group = volador::placement_group({{.cpus = 1}, {.cpus = 1}}, Strategy::kStrictSpread,
                                              {.labels = {{"zone", volador::label_exists()}}});
  group.ready().get(60s);
  const auto status = group.status();
  for (int bundle = 0; bundle < 2; ++bundle) {
    EXPECT_EQ(volador::task<&node_of_task>().in(group, bundle).submit().get(60s),
              status.bundles[static_cast<size_t>(bundle)].node_name);
  }
  group.remove().get(60s);
  EXPECT_EQ(volador::task<&node_of_task>().in(group).submit().result(60s).error().code, volador::ErrorCode::kNotFound);
  expect_nothing_held();
}

TEST(Groups, BundlesLieOnNodesWithTheirOwnLabels) {
  const auto group = volador::placement_group(
      {{.cpus = 1}, {.cpus = 1}}, Strategy::kPack,
      {.bundle_labels = {{{"zone", "b"}},
                         {{"zone", volador::label_not_in({"b"})}, {"disk", volador::label_exists()}}}});
  group.ready().get(60s);
  const auto status = group.status();
  EXPECT_EQ(status.bundles[0].node_name, "second");
  EXPECT_EQ(status.bundles[1].node_name, "first");
  EXPECT_THAT(workers->run({"explain", to_string(group.id())}).out,
              HasSubstr("bundle 1: cpus 1 with disk, zone not in (b) on node first"));
  group.remove().get(60s);
  const auto refused = volador::placement_group_async({{.cpus = 1}, {.cpus = 1}}, Strategy::kPack,
                                                      {.bundle_labels = {{}, {{"zone", "d"}}}})
                           .result(60s);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("bundle 1 of"));
  EXPECT_THAT(refused.error().message, HasSubstr("--labels=zone=d"));
  try {
    (void)volador::placement_group({{.cpus = 1}, {.cpus = 1}}, Strategy::kPack, {.bundle_labels = {{}}});
    ADD_FAILURE() << "labels of one of two bundles were taken";
  } catch (const volador::Exception& error) {
    EXPECT_THAT(error.what(), HasSubstr("expected one entry for each of the 2 bundles"));
  }
  expect_nothing_held();
}

TEST(Groups, WhatCouldNeverBeIsRefusedAtOnce) {
  const auto refused =
      volador::placement_group_async({{.cpus = 1}, {.cpus = 1}, {.cpus = 1}}, Strategy::kStrictSpread).result(60s);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, volador::ErrorCode::kInfeasible);
  EXPECT_THAT(refused.error().message, HasSubstr("asks for 3 nodes, one for each bundle; the cluster has 2"));
  const auto group = volador::placement_group({{.cpus = 1}});
  try {
    (void)volador::actor<Trainer>().resources({.cpus = 2}).in(group, 0).spawn();
    ADD_FAILURE() << "an actor larger than its bundle was taken";
  } catch (const volador::Exception& e) {
    EXPECT_THAT(e.what(), HasSubstr("bundle 0 of placement group " + short_of(group) + " has cpus 1"));
  }
  group.remove().get(60s);
}

TEST(Groups, RemovalEndsTheActorsWithAClearCause) {
  const auto group = volador::placement_group({{.cpus = 2}}, Strategy::kPack);
  const auto first = volador::actor<Trainer>().resources({.cpus = 2}).max_restarts(-1).in(group, 0).spawn();
  const auto second = volador::actor<Trainer>().resources({.cpus = 1}).in(group).spawn();
  first.call<&Trainer::node>().get(60s);
  EXPECT_THAT(second.status().reason, HasSubstr("waits for cpus 1 in bundle 0 of placement group"));
  group.remove().get(60s);
  const auto dead = first.call<&Trainer::node>().result(60s);
  ASSERT_FALSE(dead);
  EXPECT_EQ(dead.error().code, volador::ErrorCode::kActorDied);
  EXPECT_THAT(dead.error().message, HasSubstr("its placement group " + short_of(group) + " was removed"));
  EXPECT_THAT(group.ready().result(60s).error().message, HasSubstr("was removed"));
  expect_nothing_held();
}

TEST(Groups, AGroupThatWaitsSaysWhyAndIsReadyWhenThereIsRoom) {
  const auto large = volador::placement_group({{.cpus = 3}, {.cpus = 3}}, Strategy::kSpread);
  const auto waits = volador::placement_group({{.cpus = 2}, {.cpus = 2}}, Strategy::kStrictPack);
  EXPECT_FALSE(waits.wait(300ms));
  EXPECT_THAT(
      workers->run({"explain", to_string(waits.id())}).out,
      AllOf(HasSubstr("pending, strict_pack"), HasSubstr("its 2 bundles together on one node: waits for cpus 4")));
  large.remove();
  EXPECT_TRUE(waits.wait(60s));
  EXPECT_EQ(nodes_of(waits).size(), 1u);
  waits.remove().get(60s);
  expect_nothing_held();
}

TEST(Groups, BundlesOfAKilledWorkerAreHeldAgainWhenThereIsOne) {
  const auto group =
      volador::placement_group({{.cpus = 1, .gpus = 1}, {.cpus = 1, .gpus = 1}}, Strategy::kStrictSpread);
  group.ready().get(60s);
  const auto status = group.status();
  const int lost = status.bundles[0].node_name == "second" ? 0 : 1;
  const auto trainer =
      volador::actor<Trainer>().resources({.cpus = 1, .gpus = 1}).max_restarts(1).in(group, lost).spawn();
  EXPECT_EQ(trainer.call<&Trainer::node>().get(60s), "second");
  workers->kill_second();
  while (group.status().state == volador::GroupState::kReady) std::this_thread::sleep_for(50ms);
  EXPECT_EQ(group.status().state, volador::GroupState::kRescheduling);
  EXPECT_THAT(trainer.status().reason, HasSubstr("lost its node"));
  workers->start_second();
  EXPECT_TRUE(group.wait(60s));
  EXPECT_EQ(nodes_of(group), (std::set<std::string>{"first", "second"}));
  EXPECT_EQ(trainer.call<&Trainer::node>().get(60s), "second");
  group.remove().get(60s);
  expect_nothing_held();
}

int fans_out_in(volador::PlacementGroup group, int depth) {
  if (depth == 0) return 1;
  std::vector<volador::Future<int>> parts;
  for (int i = 0; i < 2; ++i) parts.push_back(volador::task<&fans_out_in>(group, depth - 1).in(group).submit());
  int leaves = 0;
  for (const auto& part : parts) leaves += part.get();
  return leaves;
}

TEST(Groups, TasksThatWaitForTheirOwnGiveTheirCpusToThem) {
  const auto group = volador::placement_group({{.cpus = 1}});
  group.ready().get(60s);
  EXPECT_EQ(volador::task<&fans_out_in>(group, 3).in(group).submit().get(100s), 8);
  group.remove().get(60s);
  expect_nothing_held();
}

TEST(Groups, ManyAtOnceLeaveNothingBehind) {
  std::vector<volador::Future<volador::PlacementGroup>> made;
  for (int i = 0; i < 300; ++i)
    made.push_back(volador::placement_group_async({{.cpus = 0.5}, {.cpus = 0.5}}, static_cast<Strategy>(i % 4)));
  for (const auto& one : made) {
    const auto group = one.get(60s);
    EXPECT_TRUE(group.wait(60s));
    group.remove();
  }
  EXPECT_EQ(workers->run({"list", "groups"}).out, "no placement groups\n");
  expect_nothing_held();
}

// ---- Placement group per trial.

namespace tune = volador::tune;

// Its helper runs in the other bundle.
void trains_with_a_helper(const tune::Config& config) {
  const auto helper =
      volador::actor<Trainer>().resources({.cpus = 1, .gpus = 1}).in(tune::placement_group(), 1).spawn();
  const std::string there = helper.call<&Trainer::node>().get(60s);
  const double apart = there != volador::self().node_name;
  const double device = std::stod(helper.call<&Trainer::devices>().get(60s));
  for (int step = 1; step <= 2; ++step) {
    if (step == 2 && config.boolean("fails")) throw std::runtime_error("out of luck");
    tune::report({{"apart", apart}, {"device", device}});
  }
}

class TrialGroups : public ::testing::Test {
 protected:
  static tune::RunOptions options(const char* folder) {
    return {.name = "grouped",
            .space = {{"fails", tune::grid_search({false, true})}},
            .storage_path = folder,
            .raise_on_failed_trial = false,
            .progress = tune::Progress::kSilent,
            .bundles_per_trial = {{.cpus = 2}, {.cpus = 1, .gpus = 1}},
            .bundle_strategy = Strategy::kStrictSpread};
  }
  char folder_[32] = "/tmp/volador-groups-XXXXXX";
  void SetUp() override { ASSERT_NE(::mkdtemp(folder_), nullptr); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
};

TEST_F(TrialGroups, ATrialRunsInTheFirstBundleItsHelpersInTheOthersAndAllIsGivenBack) {
  const auto analysis = tune::run<&trains_with_a_helper>(options(folder_));
  ASSERT_EQ(analysis.trials().size(), 2u);
  EXPECT_EQ(analysis.trials()[0].status, tune::TrialStatus::kFinished) << analysis.trials()[0].error;
  EXPECT_EQ(analysis.trials()[1].status, tune::TrialStatus::kFailed);
  EXPECT_THAT(analysis.trials()[1].error, HasSubstr("out of luck"));
  for (const tune::Trial& trial : analysis.trials()) EXPECT_EQ(trial.last_result.at("apart"), 1);
  EXPECT_EQ(workers->run({"list", "groups"}).out, "no placement groups\n");
  expect_nothing_held();
}

TEST_F(TrialGroups, ATrialThatCanNeverBePlacedIsRefusedAtOnce) {
  auto never = options(folder_);
  never.bundles_per_trial = {{.cpus = 1}, {.gpus = 7}};
  try {
    (void)tune::run<&trains_with_a_helper>(never);
    ADD_FAILURE() << "not refused";
  } catch (const volador::Exception& exception) {
    EXPECT_EQ(exception.error().code, volador::ErrorCode::kInfeasible);
    EXPECT_THAT(exception.error().message, AllOf(HasSubstr("gpus 7"), HasSubstr("bundles_per_trial")));
  }
  expect_nothing_held();
}

}  // namespace

int main(int argc, char** argv) { return volador::testing::run_tests_on(workers, argc, argv); }
