#include "dashboard/alert.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "runtime/protocol/volador/v1/cluster.pb.h"

namespace volador::dashboard {
namespace {

using Json = nlohmann::json;

v1::Event event(const char* kind, const char* text, std::initializer_list<std::pair<const char*, const char*>> fields) {
  v1::Event made;
  made.set_wall_ns(1'795'630'491'000'000'000);
  made.set_kind(kind);
  made.set_text(text);
  for (const auto& [name, value] : fields) (*made.mutable_fields())[name] = value;
  return made;
}

const AlertContext kHeron{.cluster = "heron", .cluster_id = "5f0c", .page = "http://h:1"};

TEST(Alert, SaysWhatBecameOfAnExperimentAndWhereToLook) {
  const auto finished =
      event("experiment.finished", "experiment finished",
            {{"experiment", "digits wide"}, {"best", "accuracy 0.98"}, {"trial", "d7f6"}, {"failed", "2"}});
  EXPECT_EQ(
      Json::parse(*alert_of(finished, kHeron, 7)),
      Json::parse(
          R"({"id":"5f0c-1795630491000000000-7","event":"experiment.finished","cluster":"heron","time_ms":1795630491000,
    "text":"heron: experiment digits wide finished; best accuracy 0.98, trial d7f6; 2 trials failed","url":"http://h:1/#/experiments/digits%20wide",
    "fields":{"experiment":"digits wide","best":"accuracy 0.98","trial":"d7f6","failed":"2"}})"));
  const auto crashed = event("experiment.crashed", "experiment crashed: its program has left",
                             {{"experiment", "digits"}, {"failed", "1"}});
  const Json body = Json::parse(*alert_of(crashed, {.cluster = "heron", .cluster_id = "", .page = ""}, 1));
  EXPECT_EQ(body["event"], "experiment.crashed");
  EXPECT_EQ(body["text"], "heron: experiment digits crashed: its program has left; 1 trial failed");
  EXPECT_EQ(body["url"], "");
}

TEST(Alert, TellsOfANodeThatIsLostAndNotOfOneThatWasStopped) {
  const auto gone = [](const char* kind) {
    return event(kind, "node is gone", {{"node", "osprey"}, {"why", "silent for 3.5 s"}});
  };
  EXPECT_FALSE(is_alert(gone("")));
  ASSERT_TRUE(is_alert(gone("node.lost")));
  const Json body = Json::parse(*alert_of(gone("node.lost"), kHeron, 1));
  EXPECT_EQ(body["event"], "node.lost");
  EXPECT_EQ(body["text"], "heron: node osprey is lost: silent for 3.5 s");
  EXPECT_EQ(body["url"], "http://h:1/#/nodes/osprey");
  EXPECT_FALSE(is_alert(event("", "experiment finished", {{"experiment", "digits"}})))
      << "what it is called decides nothing";
  EXPECT_FALSE(is_alert(event("experiment.of_a_newer_head", "experiment started", {{"experiment", "digits"}})));
}

}  // namespace
}  // namespace volador::dashboard
