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

TEST(Alert, AddressesOfWebhooksAreTakenApart) {
  const auto parts = [](const char* url) {
    const auto to = parse_webhook(url);
    return to ? std::string(to->tls ? "tls " : "") + to->host + " " + to->port + " " + to->target : to.error().message;
  };
  EXPECT_EQ(parts("https://hooks.example/services/T0?a=b#c"), "tls hooks.example 443 /services/T0?a=b");
  EXPECT_EQ(parts("http://127.0.0.1:8080"), "127.0.0.1 8080 /");
  EXPECT_EQ(parts("http://[::1]:80/x"), "::1 80 /x");
  EXPECT_EQ(parts("https://h?q"), "tls h 443 /?q");
  const std::string expected = "expected an address like https://example.org/hook, ";
  EXPECT_EQ(parts("ftp://h/"), expected + "which begins with https:// or http://");
  EXPECT_EQ(parts("http://h:70000/"), expected + "with a port from 1 to 65535");
  EXPECT_EQ(parts("http://h:/"), expected + "with a port from 1 to 65535");
  EXPECT_EQ(parts("http:///x"), expected + "with the name of a machine");
  EXPECT_EQ(parts("http://h/a b\r\nX: y"), expected + "without spaces");
  EXPECT_EQ(parts("http://me:word@h/"), expected + "without a name and password; alert_secret_file sends a secret");
}

TEST(Alert, TheRequestNamesItsHostAndCarriesTheSecret) {
  EXPECT_EQ(webhook_request({.tls = false, .host = "::1", .port = "8080", .target = "/x"}, "s3", "{}"),
            "POST /x HTTP/1.1\r\nHost: [::1]:8080\r\nUser-Agent: volador\r\nContent-Type: "
            "application/json\r\nContent-Length: 2\r\nConnection: close\r\nAuthorization: Bearer s3\r\n\r\n{}");
  EXPECT_EQ(webhook_request({.tls = true, .host = "h", .port = "443", .target = "/"}, "", "{}").find("Authorization"),
            std::string::npos);
}

TEST(Alert, IsSentAgainAFewTimesWhereThatMayHelp) {
  using std::chrono::seconds;
  const AlertPlan plan;
  EXPECT_EQ(pause_before_next(plan, 1, 0), seconds(1));
  EXPECT_EQ(pause_before_next(plan, 4, 503), seconds(8));
  EXPECT_EQ(pause_before_next(plan, 2, 429), seconds(2));
  EXPECT_EQ(pause_before_next(plan, 5, 503), std::nullopt);
  EXPECT_EQ(pause_before_next(plan, 1, 404), std::nullopt);
  EXPECT_TRUE(has_arrived(204));
  EXPECT_FALSE(has_arrived(302));
}

}  // namespace
}  // namespace volador::dashboard
