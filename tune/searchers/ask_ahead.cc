#include "tune/searchers/ask_ahead.h"

#include <chrono>
#include <future>
#include <utility>
#include <vector>

#include "tune/snapshot.h"

namespace volador::tune {
namespace {

constexpr std::chrono::milliseconds kPatience{2};  // Random points and small models are ready at once.

class AskAhead final : public Searcher {
 public:
  explicit AskAhead(std::unique_ptr<Searcher> inner)
      : inner_(std::move(inner)),
        total_(inner_->total()),
        name_(inner_->describe()),
        takes_goals_(inner_->takes_goals()) {}
  ~AskAhead() override {
    if (answer_.valid()) answer_.wait();
  }

  Result<Suggestion> suggest(int64_t index) override {
    if (!answer_.valid()) begin(index);
    if (answer_.wait_for(kPatience) != std::future_status::ready) return Suggestion{Suggestion::Kind::kWait, {}};
    auto suggestion = answer_.get();
    for (const Event& event : std::exchange(waiting_, {})) apply(event);
    return suggestion;
  }
  Result<void> learn(const std::vector<EarlierTrial>& trials) override { return inner_->learn(trials); }
  void on_start(int64_t index, const Config& config) override {
    tell({.kind = Event::Kind::kStart, .index = index, .config = config});
  }
  void on_result(const Observation& observation) override {
    tell({.kind = Event::Kind::kResult, .index = observation.index, .observation = observation});
  }
  void on_complete(int64_t index, const std::optional<Observation>& last) override {
    tell({.kind = Event::Kind::kComplete, .index = index, .observation = last});
  }

  std::optional<int64_t> total() const override { return total_; }
  bool learns() const override { return true; }
  bool needs_metric() const override { return true; }
  bool takes_goals() const override { return takes_goals_; }
  std::string describe() const override { return name_; }

  std::string snapshot() const override {
    Config events = Config::list({});
    for (const Event& event : waiting_) events.push_back(config_of(event));
    const std::string inner = answer_.valid() ? before_.get() : inner_->snapshot();
    return Config({{"version", 1}, {"inner", inner}, {"events", std::move(events)}}).to_json();
  }
  Result<void> restore(std::string_view snapshot) override {
    return read_snapshot(name_, snapshot, [this](const Config& state) -> Result<void> {
      std::vector<Event> events;
      const Config all = state["events"];
      for (const Config& entry : all.items()) events.push_back(event_of(entry));
      if (answer_.valid()) (void)answer_.get();
      VOLADOR_TRY(inner_->restore(state.text("inner")));
      waiting_.clear();
      for (const Event& event : events) apply(event);
      return {};
    });
  }

 private:
  struct Event {
    enum class Kind : uint8_t { kStart, kResult, kComplete };
    Kind kind = Kind::kStart;
    int64_t index = 0;
    std::optional<Observation> observation = std::nullopt;
    Config config = {};
  };

  void begin(int64_t index) {
    std::promise<std::string> before;
    before_ = before.get_future().share();
    answer_ = std::async(std::launch::async, [inner = inner_.get(), index, before = std::move(before)]() mutable {
      before.set_value(inner->snapshot());
      return inner->suggest(index);
    });
  }
  void tell(Event event) {
    if (answer_.valid()) {
      waiting_.push_back(std::move(event));
    } else {
      apply(event);
    }
  }
  void apply(const Event& event) {
    if (event.kind == Event::Kind::kStart) inner_->on_start(event.index, event.config);
    if (event.kind == Event::Kind::kResult) inner_->on_result(*event.observation);
    if (event.kind == Event::Kind::kComplete) inner_->on_complete(event.index, event.observation);
  }

  static Config config_of(const Event& event) {
    Config out = {{"kind", static_cast<int64_t>(event.kind)}, {"index", event.index}};
    if (event.kind == Event::Kind::kStart) out.set("config", event.config);
    if (!event.observation) return out;
    out.set("step", event.observation->step);
    if (event.observation->value) out.set("value", *event.observation->value);
    if (!event.observation->objectives.empty()) out.set("objectives", event.observation->objectives);
    if (!event.observation->constraints.empty()) out.set("constraints", event.observation->constraints);
    return out;
  }
  static std::vector<double> reals_of(const Config& config, const std::string& name) {
    std::vector<double> out;
    if (!config.contains(name)) return out;
    const Config all = config[name];
    for (const Config& one : all.items()) out.push_back(one.real());
    return out;
  }
  static Event event_of(const Config& config) {
    Event event{.kind = Event::Kind::kComplete, .index = config.integer("index")};
    if (config.integer("kind") == static_cast<int64_t>(Event::Kind::kStart)) event.kind = Event::Kind::kStart;
    if (config.integer("kind") == static_cast<int64_t>(Event::Kind::kResult)) event.kind = Event::Kind::kResult;
    if (event.kind == Event::Kind::kStart) event.config = config["config"];
    if (event.kind == Event::Kind::kResult || config.contains("step")) {
      event.observation = Observation{event.index, config.integer("step"), std::nullopt};
      if (config.contains("value")) event.observation->value = config.real("value");
      event.observation->objectives = reals_of(config, "objectives");
      event.observation->constraints = reals_of(config, "constraints");
    }
    return event;
  }

  const std::unique_ptr<Searcher> inner_;  // Used by the other thread while answer_ is valid.
  const std::optional<int64_t> total_;
  const std::string name_;
  const bool takes_goals_;
  std::future<Result<Suggestion>> answer_;
  std::shared_future<std::string> before_;  // State from which the pending suggestion starts.
  std::vector<Event> waiting_;
};

}  // namespace

std::unique_ptr<Searcher> ask_ahead(std::unique_ptr<Searcher> inner) {
  return std::make_unique<AskAhead>(std::move(inner));
}

}  // namespace volador::tune
