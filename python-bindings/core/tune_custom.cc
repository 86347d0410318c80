#include "python-bindings/core/tune_custom.h"

#include <fmt/format.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/set.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "python-bindings/core/convert.h"
#include "tune/results/experiment_state.h"

namespace volador::python {

void RunFailure::note(const nb::python_error& raised) {
  const std::string text =
      nb::cast<std::string>(nb::module_::import_("volador.tune._custom").attr("text_of")(raised.value()));
  const std::lock_guard<std::mutex> hold(mutex_);
  if (failed_) return;
  error_ = {ErrorCode::kApplication, text};
  exception_ = std::make_unique<Held>(nb::borrow(raised.value()));
  failed_ = true;
}

std::optional<Error> RunFailure::error() const {
  if (!failed_) return std::nullopt;
  const std::lock_guard<std::mutex> hold(mutex_);
  return error_;
}

void RunFailure::raise() {
  if (!failed_) return;
  const nb::object exception = **std::exchange(exception_, nullptr);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
  throw nb::python_error();
}

namespace {

using MetricDict = nb::typed<nb::dict, nb::str, double>;

MetricDict to_dict(const tune::Metrics& metrics) {
  MetricDict dict;
  for (const auto& [name, value] : metrics) dict[name.c_str()] = value;
  return dict;
}

// An object of volador.tune._custom.
class Bridge {
 public:
  Bridge(const nb::object& object, std::shared_ptr<RunFailure> failure)
      : object_(std::make_shared<Held>(object)),
        failure_(std::move(failure)),
        name_(nb::cast<std::string>(object.attr("name"))),
        hooks_(nb::cast<std::set<std::string>>(object.attr("hooks"))) {}

  const std::string& name() const { return name_; }
  // Whether the user's class has this method: the others are not called.
  bool has(const char* hook) const { return hooks_.contains(hook); }
  std::optional<Error> error() const { return failure_->error(); }

  // Takes the lock and calls `code` with the object; returns `otherwise` after an exception, which ends the run, and
  // from then on.
  template <class R, class F>
  R call(R otherwise, F code) const {
    if (failure_->error()) return otherwise;
    const WithGil gil;
    try {
      return code(**object_);
    } catch (const nb::python_error& raised) {
      failure_->note(raised);
      return otherwise;
    }
  }
  template <class F>
  void call(F code) const {
    call(0, [&](const nb::object& object) {
      code(object);
      return 0;
    });
  }

 private:
  std::shared_ptr<Held> object_;
  std::shared_ptr<RunFailure> failure_;
  std::string name_;
  std::set<std::string> hooks_;
};

nb::object directory_of(const std::shared_ptr<const tune::EarlierRun>& earlier) {
  return earlier == nullptr ? nb::none() : nb::cast(earlier->directory.string());
}

class PythonSearcher final : public tune::Searcher {
 public:
  PythonSearcher(Bridge bridge, const tune::SearchContext& context)
      : bridge_(std::move(bridge)), earlier_(context.earlier), metric_(context.metric) {
    if (context.num_samples >= 0) total_ = context.num_samples;
    learns_ = bridge_.call(true, [](const nb::object& object) { return nb::cast<bool>(object.attr("learns")); });
  }

  Result<tune::Suggestion> suggest(int64_t index) override {
    using Kind = tune::Suggestion::Kind;
    auto suggestion =
        bridge_.call(Result<tune::Suggestion>(), [&](const nb::object& object) -> Result<tune::Suggestion> {
          const nb::object said = object.attr("suggest")(index, replays());
          if (said.is_none()) return tune::Suggestion{Kind::kExhausted, {}};
          if (nb::isinstance<nb::bool_>(said))
            return tune::Suggestion{nb::cast<bool>(said) ? Kind::kKnown : Kind::kWait, {}};
          auto config = tune::Config::from_json(nb::cast<std::string>(said));
          if (!config) return make_error(config.error());
          return tune::Suggestion{Kind::kConfig, std::move(*config)};
        });
    if (const auto error = bridge_.error()) return make_error(*error);
    return suggestion;
  }
  void on_start(int64_t index, const tune::Config& config) override {
    const bool added = index >= tune::kTrialsMax;
    bridge_.call(
        [&](const nb::object& object) { object.attr("on_start")(index, config.to_json(), !added && replays()); });
  }
  void on_result(const tune::Observation& observation) override {
    if (!bridge_.has("on_result")) return;
    bridge_.call(
        [&](const nb::object& object) { object.attr("on_result")(observation.index, result_of(observation)); });
  }
  void on_complete(int64_t index, const std::optional<tune::Observation>& last) override {
    if (!bridge_.has("on_complete")) return;
    bridge_.call([&](const nb::object& object) {
      object.attr("on_complete")(index, last ? nb::object(result_of(*last)) : nb::none());
    });
  }

  std::optional<int64_t> total() const override { return total_; }
  bool learns() const override { return learns_; }
  bool needs_metric() const override { return false; }
  bool takes_goals() const override { return true; }
  std::string describe() const override { return bridge_.name(); }
  // The Python object saves its own state, beside the journal.
  std::string snapshot() const override { return "{\"version\":1}"; }
  Result<void> restore(std::string_view) override { return {}; }

 private:
  bool replays() const { return earlier_ != nullptr && earlier_->replaying; }
  MetricDict result_of(const tune::Observation& observation) const {
    MetricDict result = to_dict(observation.result);
    if (!observation.result.empty()) return result;
    if (observation.value && !metric_.empty()) result[metric_.c_str()] = *observation.value;
    result["training_iteration"] = static_cast<double>(observation.step);
    return result;
  }

  const Bridge bridge_;
  const std::shared_ptr<const tune::EarlierRun> earlier_;
  const std::string metric_;
  std::optional<int64_t> total_;
  bool learns_ = true;
};

// In a replay the recorded decisions hold, whatever the Python object would decide now.
class PythonScheduler final : public tune::Scheduler {
 public:
  PythonScheduler(Bridge bridge, const tune::SchedulerContext& context)
      : bridge_(std::move(bridge)), earlier_(context.earlier) {
    copies_ = bridge_.call(false, [](const nb::object& object) { return nb::cast<bool>(object.attr("copies")); });
    if (earlier_ == nullptr) return;
    for (const auto& [event, record] : earlier_->decisions) {
      if (record.rule == bridge_.name()) recorded_.emplace(event, record);
    }
  }

  void on_trial_config(tune::TrialId trial, tune::Config& config) override { configs_[trial] = config.to_json(); }
  void on_trial_add(tune::TrialId trial) override {
    const auto config = configs_.extract(trial);
    tell([&](const nb::object& object) {
      return object.attr("on_trial_add")(to_string(trial), config.empty() ? "{}" : config.mapped());
    });
  }
  Result<tune::Decision> on_report(const tune::Report& report) override {
    steps_[report.trial] = report.step;
    auto decision = tune::Decision::kContinue;
    auto said = tell([&](const nb::object& object) {
      const auto answer =
          nb::cast<nb::tuple>(object.attr("on_trial_result")(to_string(report.trial), to_dict(report.result)));
      decision = static_cast<tune::Decision>(nb::cast<int>(answer[0]));
      return nb::object(answer[1]);
    });
    if (const auto error = bridge_.error()) return make_error(*error);
    if (replays()) {
      const auto [held, now] = recorded(report, decision);
      decision = held;
      // The run ended before it wrote this copy: its order was not recorded.
      if (now && decision == tune::Decision::kClone) {
        for (const Said& one : said) {
          if (std::get<0>(one) == "copy" && std::get<1>(one) == to_string(report.trial)) order(one);
        }
      }
    }
    // The record of a copy comes with its order.
    if (decision == tune::Decision::kContinue || decision == tune::Decision::kClone) return decision;
    const auto act = std::find_if(kActs.begin(), kActs.end(), [&](const auto& one) { return one.second == decision; });
    note(
        {.trial = report.trial, .step = report.step, .act = act->first, .rule = bridge_.name(), .value = report.value});
    return decision;
  }
  void on_complete(tune::TrialId trial) override { end(trial, false); }
  void on_error(tune::TrialId trial) override { end(trial, true); }
  void on_checkpoint(tune::TrialId trial, int64_t step) override {
    if (!bridge_.has("on_checkpoint")) return;
    tell([&](const nb::object& object) { return object.attr("on_checkpoint")(to_string(trial), step); });
  }
  void on_cloned(const tune::CloneOrder& order, int64_t step) override {
    tell([&](const nb::object& object) {
      return object.attr("on_trial_copied")(to_string(order.trial), to_string(order.from), order.config.to_json(),
                                            step);
    });
  }
  void on_no_more_trials() override {
    if (!bridge_.has("on_no_more_trials")) return;
    tell([&](const nb::object& object) { return object.attr("on_no_more_trials")(); });
  }

  std::vector<tune::Order> take_orders() override {
    if (!replays() || earlier_->event == ordered_event_) return std::exchange(orders_, {});
    ordered_event_ = earlier_->event;
    const auto [begin, end] = recorded_.equal_range(ordered_event_);
    for (auto one = begin; one != end; ++one) {
      const tune::DecisionRecord& record = one->second;
      if (record.act == tune::Act::kResumed) order({"resume", to_string(record.trial), {}, {}});
      if (record.act == tune::Act::kStopped && record.trial != reported_)
        order({"stop", to_string(record.trial), {}, {}});
      if (record.act == tune::Act::kCloned)
        order({"copy", to_string(record.trial), to_string(record.other), config_in(record.detail)});
    }
    return std::exchange(orders_, {});
  }
  std::vector<tune::DecisionRecord> take_decisions() override { return std::exchange(decisions_, {}); }

  bool pauses() const override { return true; }
  bool clones() const override { return copies_; }
  bool needs_metric() const override { return false; }
  std::string describe() const override { return bridge_.name(); }
  // The Python object saves its own state, beside the journal.
  std::string snapshot() const override { return "{\"version\":1}"; }
  Result<void> restore(std::string_view) override { return {}; }
  void check_invariants() const override {}

 private:
  bool replays() const { return earlier_ != nullptr && earlier_->replaying; }

  void end(tune::TrialId trial, bool failed) {
    tell([&](const nb::object& object) { return object.attr("on_trial_end")(to_string(trial), failed); });
  }

  // Records of decisions for the trial that reported.
  static constexpr std::array<std::pair<tune::Act, tune::Decision>, 4> kActs{
      {{tune::Act::kPaused, tune::Decision::kPause},
       {tune::Act::kStopped, tune::Decision::kStop},
       {tune::Act::kPassed, tune::Decision::kCheckpoint},
       {tune::Act::kCloned, tune::Decision::kClone}}};

  // An order: "resume", "stop" or "copy", the trial, and for a copy its origin and its configuration.
  using Said = std::tuple<std::string, std::string, std::string, std::string>;

  // Calls the object and takes the orders that it returns; in a replay those of the journal hold. Returns them.
  template <class F>
  std::vector<Said> tell(F code) {
    auto said = bridge_.call(std::vector<Said>(), [&](const nb::object& object) {
      return nb::cast<std::vector<Said>>(nb::object(code(object)));
    });
    if (!replays()) {
      for (const Said& one : said) order(one);
    }
    return said;
  }
  void order(const Said& said) {
    const auto& [what, trial_text, from_text, config_text] = said;
    const auto trial = tune::TrialId::parse(trial_text);
    if (!trial) return;
    tune::DecisionRecord record{.trial = *trial, .step = steps_[*trial], .rule = bridge_.name()};
    if (what == "copy") {
      const auto from = tune::TrialId::parse(from_text);
      auto config = tune::Config::from_json(config_text);
      if (!from || !config) return;
      record.act = tune::Act::kCloned;
      record.other = *from;
      record.detail = because(reason("decision.copy", from_text), Reason::said(config->to_json()));
      orders_.emplace_back(tune::CloneOrder{.trial = *trial, .from = *from, .config = std::move(*config)});
    } else if (what == "resume") {
      record.act = tune::Act::kResumed;
      orders_.emplace_back(tune::ResumeOrder{.trial = *trial});
    } else {
      record.act = tune::Act::kStopped;
      orders_.emplace_back(tune::EndOrder{.trial = *trial});
    }
    note(std::move(record));
  }
  // The configuration at the end of the reason of a copy, with which the journal keeps it.
  static std::string config_in(const Reason& detail) {
    const std::string text = detail.text();
    const size_t begin = text.find('{');
    return begin == std::string::npos ? std::string() : text.substr(begin);
  }
  void note(tune::DecisionRecord record) {
    if (!replays()) return decisions_.push_back(std::move(record));
    // Of the same event: as it was recorded.
    const auto [begin, end] = recorded_.equal_range(earlier_->event);
    for (auto one = begin; one != end; ++one) {
      if (one->second.trial == record.trial && one->second.act == record.act) record = one->second;
    }
    decisions_.push_back(std::move(record));
  }

  // The decision that holds in the replay, and whether it is `now`, the object's own: that counts for a trial's last
  // report only, whose decision a killed program had not written yet.
  std::pair<tune::Decision, bool> recorded(const tune::Report& report, tune::Decision now) {
    reported_ = report.trial;
    const auto [begin, end] = recorded_.equal_range(earlier_->event);
    for (auto one = begin; one != end; ++one) {
      if (one->second.trial != report.trial) continue;
      for (const auto& [act, decision] : kActs) {
        if (one->second.act == act) return {decision, false};
      }
    }
    const auto last = earlier_->last_steps.find(report.trial);
    const bool went_on = last != earlier_->last_steps.end() && report.step < last->second;
    return went_on ? std::pair(tune::Decision::kContinue, false) : std::pair(now, true);
  }

  const Bridge bridge_;
  const std::shared_ptr<const tune::EarlierRun> earlier_;
  bool copies_ = false;
  std::multimap<int64_t, tune::DecisionRecord> recorded_;  // Own decisions of the run to resume, by event.
  int64_t ordered_event_ = -1;                             // Its orders were taken.
  tune::TrialId reported_;                                 // The last trial that reported, in a replay.
  std::map<tune::TrialId, std::string> configs_;           // Of trials that are about to be added.
  std::map<tune::TrialId, int64_t> steps_;                 // Last reports.
  std::vector<tune::Order> orders_;
  std::vector<tune::DecisionRecord> decisions_;
};

class PythonCallback final : public tune::Callback {
 public:
  explicit PythonCallback(Bridge bridge) : bridge_(std::move(bridge)) {}

  void setup(const tune::ExperimentInfo& experiment) override {
    bridge_.call([&](const nb::object& object) {
      const nb::object trials = experiment.trials ? nb::cast(*experiment.trials) : nb::none();
      object.attr("setup")(experiment.name, experiment.directory.string(), trials, experiment.resumed);
    });
  }
  void on_trial_start(const tune::Trial& trial) override { tell("on_trial_start", trial); }
  void on_trial_restore(const tune::Trial& trial, const tune::Checkpoint& checkpoint) override {
    tell("on_trial_restore", trial, checkpoint.location, checkpoint.step);
  }
  void on_trial_result(const tune::Trial& trial, const tune::Metrics& result) override {
    if (!bridge_.has("on_trial_result")) return;
    bridge_.call(
        [&](const nb::object& object) { object.attr("on_trial_result")(tune::trial_to_json(trial), to_dict(result)); });
  }
  void on_checkpoint(const tune::Trial& trial, const tune::Checkpoint& checkpoint) override {
    tell("on_checkpoint", trial, checkpoint.location, checkpoint.step);
  }
  void on_trial_recover(const tune::Trial& trial) override { tell("on_trial_recover", trial); }
  void on_trial_error(const tune::Trial& trial) override { tell("on_trial_error", trial); }
  void on_trial_complete(const tune::Trial& trial) override { tell("on_trial_complete", trial); }
  void on_experiment_end(const tune::Analysis& analysis) override {
    if (!bridge_.has("on_experiment_end")) return;
    bridge_.call([&](const nb::object& object) { object.attr("on_experiment_end")(nb::cast(analysis)); });
  }

 private:
  template <class... A>
  void tell(const char* hook, const tune::Trial& trial, const A&... arguments) {
    if (!bridge_.has(hook)) return;
    bridge_.call([&](const nb::object& object) { object.attr(hook)(tune::trial_to_json(trial), arguments...); });
  }

  const Bridge bridge_;
};

// A volador.tune._custom.StopFunction.
tune::Stop stop_of(const nb::object& function, const std::shared_ptr<RunFailure>& failure) {
  const bool all = nb::cast<bool>(function.attr("all"));
  tune::Stop::Function ends = [bridge = Bridge(function, failure)](tune::TrialId trial, const tune::Metrics& result) {
    const bool said = bridge.call(false, [&](const nb::object& object) {
      return nb::cast<bool>(object.attr("ends")(to_string(trial), to_dict(result)));
    });
    if (const auto error = bridge.error()) throw std::runtime_error(error->message);
    return said;
  };
  return all ? tune::stop_all_when(std::move(ends)) : tune::stop_when(std::move(ends));
}

template <class Interface, class Made, class Context>
auto factory_of(const Bridge& bridge) {
  return [bridge](const Context& context) -> Result<std::unique_ptr<Interface>> {
    bridge.call([&](const nb::object& object) {
      const std::string mode(tune::to_string(context.mode));
      if constexpr (std::is_same_v<Context, tune::SearchContext>) {
        object.attr("begin")(context.metric, mode, context.seed, context.num_samples, directory_of(context.earlier));
      } else {
        object.attr("begin")(context.metric, mode, context.seed, directory_of(context.earlier));
      }
    });
    if (const auto error = bridge.error()) return make_error(*error);
    return std::make_unique<Made>(bridge, context);
  };
}

}  // namespace

std::vector<tune::FunctionDomain> functions_of(const nb::object& functions,
                                               const std::shared_ptr<RunFailure>& failure) {
  std::vector<tune::FunctionDomain> made;
  if (functions.is_none()) return made;
  const Bridge bridge(functions, failure);
  for (size_t index = 0; index < nb::len(functions); ++index) {
    made.push_back({[bridge, index](const tune::Config& resolved, Random& random) {
      using Answer = std::pair<std::optional<std::string>, std::string>;  // The value, or what is not resolved yet.
      const Answer answer = bridge.call(Answer(), [&](const nb::object& object) {
        return nb::cast<Answer>(object.attr("resolve")(index, resolved.to_json(), random.next()));
      });
      if (const auto error = bridge.error()) throw std::runtime_error(error->message);
      if (!answer.first) throw Exception({ErrorCode::kInvalidArgument, answer.second});
      auto value = tune::Config::from_json(*answer.first);
      if (!value) throw std::runtime_error(value.error().message);
      return std::move(*value);
    }});
  }
  return made;
}

void take_custom(const nb::object& custom, const std::shared_ptr<RunFailure>& failure, tune::RunOptions& options) {
  const nb::object searcher = custom.attr("searcher");
  const nb::object scheduler = custom.attr("scheduler");
  if (!searcher.is_none())
    options.searcher = factory_of<tune::Searcher, PythonSearcher, tune::SearchContext>(Bridge(searcher, failure));
  if (!scheduler.is_none())
    options.scheduler =
        factory_of<tune::Scheduler, PythonScheduler, tune::SchedulerContext>(Bridge(scheduler, failure));
  const auto stop = nb::cast<nb::list>(custom.attr("stop"));
  for (const nb::handle function : stop)
    options.stop = tune::any_of({options.stop, stop_of(nb::borrow(function), failure)});
  for (const nb::handle callback : nb::cast<nb::list>(custom.attr("callbacks")))
    options.callbacks.push_back(std::make_shared<PythonCallback>(Bridge(nb::borrow(callback), failure)));
  options.failure = [failure] { return failure->error(); };
  const bool keeps =
      !searcher.is_none() || !scheduler.is_none() || stop.size() > 0 || !custom.attr("functions").is_none();
  if (!keeps) return;  // Callbacks have the directory.
  options.committed = [whole = Bridge(custom, failure)](const std::filesystem::path& directory, bool last) {
    whole.call([&](const nb::object& object) { object.attr("committed")(directory.string(), last); });
  };
}

}  // namespace volador::python
