// Random sequences of subscribing, changing the view, unsubscribing, reconnecting and reading slowly, while rows and
// curves change. A model of the page applies the messages as dashboard/web/src/live/collection.ts does; at the end, and
// at every "current", it must contain exactly the data of the server's model.
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "dashboard/live_client.h"
#include "tests/how_many.h"

namespace volador::dashboard {
namespace {

using ModelJson = nlohmann::json;

// Rows of one subscription on the page.
struct PageRows {
  std::string topic, experiment;
  std::optional<std::set<std::string>> trials;
  std::map<std::string, ModelJson> rows;
  std::vector<ModelJson> parts;
  bool ready = false;

  void take(const ModelJson& message) {
    if (message["type"] == "snap") {
      for (const ModelJson& row : message["rows"]) parts.push_back(row);
      if (message.value("more", false)) return;
      rows.clear();
      for (const ModelJson& row : parts) rows[row["id"]] = row;
      parts.clear();
      ready = true;
      return;
    }
    if (!ready || !parts.empty()) return;
    for (const ModelJson& row : message["upserts"]) {
      const auto known = rows.find(row["id"]);
      if (topic == "curves" && known != rows.end()) {
        for (const char* axis : {"x", "y"}) {
          for (const ModelJson& value : row[axis]) known->second[axis].push_back(value);
        }
      } else {
        rows[row["id"]] = row;
      }
    }
    for (const ModelJson& id : message["deletes"]) rows.erase(id.get<std::string>());
  }
};

class SubscriptionModel {
 public:
  explicit SubscriptionModel(uint64_t seed) : random_(seed) {
    for (const char* name : {"digits", "resnet"}) {
      v1::Changes changes;
      v1::Experiment& row = *changes.add_experiments();
      row.set_name(name);
      row.set_state("running");
      row.set_metric("loss");
      row.set_mode("min");
      model_.apply(changes, 1);
    }
    connect();
  }

  void step() {
    switch (below(10)) {
      case 0:
        return subscribe();
      case 1:
        return leave();
      case 2:
        return want();
      case 3:
        if (below(8) == 0) connect();
        return;
      case 4:
      case 5:
      case 6:
        return report();
      case 7:
        client_->tell_time(++now_);
        return;
      default:
        read(below(4));
        return;  // A slow connection reads few messages.
    }
  }
  void finish() {
    client_->tell_time(++now_);
    read(100'000);
    ASSERT_TRUE(current_) << "nothing was left to send, and the client was not told so";
  }

 private:
  uint64_t below(uint64_t n) { return random_() % n; }
  std::string experiment() { return below(2) == 0 ? "digits" : "resnet"; }
  std::string trial() { return "t" + std::to_string(below(40)); }
  std::set<std::string> some_trials() {
    std::set<std::string> ids;
    for (uint64_t i = below(12); i > 0; --i) ids.insert(trial());
    return ids;
  }

  void connect() {
    client_ = std::make_unique<LiveClient>(model_, ++now_, [](const auto&) {});
    for (auto& [id, page] : pages_) {
      page.ready = false;
      page.parts.clear();
      ask(id, page);
    }
  }
  void ask(int64_t id, const PageRows& page) {
    ModelJson message{{"op", "sub"}, {"id", id}, {"topic", page.topic}, {"filter", {{"experiment", page.experiment}}}};
    if (page.trials) message["trials"] = *page.trials;
    ASSERT_TRUE(client_->on_text(message.dump()));
  }
  void subscribe() {
    if (pages_.size() >= 6) return;
    PageRows& page = pages_[++last_id_];
    page.topic = below(2) == 0 ? "trials" : "curves";
    page.experiment = experiment();
    if (page.topic == "curves" && below(3) > 0) page.trials = some_trials();
    ask(last_id_, page);
  }
  std::map<int64_t, PageRows>::iterator any_page() {
    return std::next(pages_.begin(), static_cast<std::ptrdiff_t>(below(pages_.size())));
  }
  void leave() {
    if (pages_.empty()) return;
    const auto page = any_page();
    ASSERT_TRUE(client_->on_text(ModelJson{{"op", "unsub"}, {"id", page->first}}.dump()));
    pages_.erase(page);
  }
  void want() {
    if (pages_.empty()) return;
    auto& [id, page] = *any_page();
    if (page.topic != "curves") return;
    page.trials = below(6) == 0 ? std::nullopt : std::optional(some_trials());
    ModelJson message{{"op", "want"}, {"id", id}};
    if (page.trials) message["trials"] = *page.trials;
    ASSERT_TRUE(client_->on_text(message.dump()));
  }
  void report() {
    v1::Changes changes;
    for (uint64_t i = 1 + below(3); i > 0; --i) {
      const std::string name = experiment();
      const std::string id = trial();
      const int64_t step = ++steps_[name + id];
      v1::Trial& row = *changes.add_trials();
      row.set_id(id);
      row.set_experiment(name);
      row.set_step(step);
      row.set_status("running");
      row.set_config_json(ModelJson{{"padding", std::string(below(3) == 0 ? 20'000 : 20, 'x')}}.dump());
      v1::TrialPoints& points = *changes.add_points();
      points.set_experiment(name);
      points.set_trial(id);
      v1::TrialPoint& point = *points.add_points();
      point.set_step(step);
      (*point.mutable_metrics())["loss"] = static_cast<double>(below(1000));
    }
    model_.apply(changes, ++now_);
  }
  void read(uint64_t messages) {
    current_ = false;
    while (messages-- > 0) {
      const auto text = client_->next();
      if (!text) return;
      const ModelJson message = ModelJson::parse(*text);
      ASSERT_NE(message["type"], "error") << *text;
      if (message["type"] == "current") {
        current_ = true;
        compare();
      } else if (message.contains("id")) {
        if (const auto page = pages_.find(message["id"].get<int64_t>()); page != pages_.end())
          page->second.take(message);
      }
    }
  }
  void compare() {
    for (const auto& [id, page] : pages_) {
      ASSERT_TRUE(page.ready) << "subscription " << id << " to " << page.topic << " never got its rows";
      std::map<std::string, ModelJson> expected;
      if (page.topic == "trials") {
        for (const auto& [key, row] : model_.table(Topic::kTrials).rows()) {
          if (row.group == page.experiment) expected[ModelJson::parse(row.text)["id"]] = ModelJson::parse(row.text);
        }
      } else if (const LiveCurves* curves = model_.curves(page.experiment, "loss")) {
        for (const auto& [key, line] : curves->lines()) {
          if (!page.trials || page.trials->contains(key))
            expected[key] = ModelJson::parse(line_text(key, line, LiveCurves::kAll));
        }
      }
      ASSERT_EQ(page.rows, expected) << "subscription " << id << " to " << page.topic << " of " << page.experiment;
    }
  }

  std::mt19937_64 random_;
  int64_t now_ = 1;
  LiveModel model_{"instance", 1, "127.0.0.1:6380"};
  std::unique_ptr<LiveClient> client_;
  std::map<int64_t, PageRows> pages_;
  int64_t last_id_ = 0;
  std::map<std::string, int64_t> steps_;
  bool current_ = false;
};

TEST(LiveClientModel, ThePageHoldsWhatTheServerHoldsWheneverItIsToldThatItIsCurrent) {
  const uint64_t first = std::random_device{}() % 1'000'000;
  for (uint64_t seed = first; seed < first + how_many(50U, 5U); ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    SubscriptionModel model(seed);
    for (int i = 0; i < 400 && !::testing::Test::HasFatalFailure(); ++i) model.step();
    if (!::testing::Test::HasFatalFailure()) model.finish();
    if (::testing::Test::HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace volador::dashboard
