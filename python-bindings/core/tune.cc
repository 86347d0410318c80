#include "python-bindings/core/tune.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <cmath>
#include <exception>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "python-bindings/core/convert.h"
#include "python-bindings/core/gil.h"
#include "python-bindings/core/held.h"
#include "python-bindings/core/host.h"
#include "python-bindings/core/tune_custom.h"
#include "python-bindings/core/tune_stop.h"
#include "tune/schedulers/scheduler_spec.h"
#include "tune/searchers/searcher_spec.h"
#include "tune/space/space_json.h"
#include "tune/study/study.h"
#include "tune/tune.h"

namespace volador::python {

tune::Metrics to_metrics(const MetricMap& values) {
  tune::Metrics metrics;
  for (const auto& [name, value] : values) metrics.set(name, value);
  return metrics;
}

tune::Mode mode_of(const std::string& text, const char* option) {
  if (text == "max") return tune::Mode::kMax;
  if (text == "min") return tune::Mode::kMin;
  raise({ErrorCode::kInvalidArgument, std::string(option) + ": expected \"max\" or \"min\", got \"" + text + "\""});
}

std::chrono::nanoseconds to_duration(double seconds) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(seconds));
}

namespace {

namespace fs = std::filesystem;

constexpr const char* kTrainable = "python";

nb::module_ trial_module() { return nb::module_::import_("volador.tune._trial"); }

// The end of the trial of this thread, thrown by tune::report: it passes the Python frames as an exception of theirs.
thread_local std::exception_ptr trial_end;

// Runs Python code of a trial; its exception becomes one of ours, with type, text and place.
template <class F>
auto in_trial(F code) {
  const WithGil gil;
  try {
    prepare_process();
    return code();
  } catch (nb::python_error& e) {
    if (trial_end) std::rethrow_exception(std::exchange(trial_end, nullptr));
    throw Exception(Error{ErrorCode::kApplication, nb::cast<std::string>(trial_module().attr("describe")(e.value()))});
  }
}

// A trainable class: volador.tune._trial.ClassTrial.
class PythonTrainable final : public tune::Trainable {
 public:
  explicit PythonTrainable(std::shared_ptr<Held> made) : made_(std::move(made)) {}

  void setup(const tune::Config& config) override { call<void>("setup", config.to_json()); }
  tune::Metrics step() override { return to_metrics(call<MetricMap>("step")); }
  void save_checkpoint(const fs::path& directory) override {
    if (!call<bool>("save", directory.string())) Trainable::save_checkpoint(directory);  // It has none to save.
  }
  void load_checkpoint(const fs::path& directory) override { call<void>("load", directory.string()); }
  void cleanup() override { call<void>("cleanup"); }
  bool reset_config(const tune::Config& config) override { return call<bool>("reset", config.to_json()); }

 private:
  template <class R, class... A>
  R call(const char* method, const A&... arguments) {
    return in_trial([&]() -> R {
      const nb::object result = (**made_).attr(method)(arguments...);
      if constexpr (!std::is_void_v<R>) return nb::cast<R>(result);
    });
  }

  std::shared_ptr<Held> made_;
};

Result<std::unique_ptr<tune::TrainableHost>> load_trainable(std::string_view parameters) {
  auto packed = from_bytes<Value>(parameters);
  if (!packed) return make_error(std::move(packed).error());
  return in_trial([&]() -> std::unique_ptr<tune::TrainableHost> {
    const nb::object loaded = trial_module().attr("load")(unpack(*packed));
    const auto held = std::make_shared<Held>(nb::object(loaded[1]));
    if (nb::cast<bool>(loaded[0])) return tune::host_of_class(std::make_unique<PythonTrainable>(held));
    return tune::host_of_function([held](const tune::Config& config) {
      in_trial([&] { trial_module().attr("run")(**held, config.to_json()); });
    });
  });
}

// Reports one result of a trial's function. `save`: a function of a directory, or None.
void report(const MetricMap& metrics, const nb::object& save) {
  tune::SaveFunction save_function;
  if (!save.is_none()) {
    save_function = [held = std::make_shared<Held>(save)](const fs::path& directory) {
      in_trial([&] { (**held)(directory.string()); });
    };
  }
  {
    const WithoutGil released;
    try {
      tune::report(to_metrics(metrics), std::move(save_function));
    } catch (const std::exception&) {
      throw;
    } catch (...) {
      trial_end = std::current_exception();
    }
  }
  if (!trial_end) return;
  PyErr_SetNone(trial_module().attr("TrialEnd").ptr());
  throw nb::python_error();
}

// Options of a run, as volador.tune gives them; empty and 0 mean the default.
struct TuneOptions {
  // mutations: a space, of the parameters that pbt and pb2 change.
  std::string name, space = "{}", mutations = "{}", metric, mode = "max", searcher, scheduler, storage_path, resume,
                    progress = "auto", trial_name, checkpoint_score;
  std::vector<tune::Stop> stop;
  std::vector<std::pair<std::string, std::string>> objectives;
  std::vector<std::string> constraints, tags, warm_start;
  int64_t num_samples = 1, max_concurrent_trials = 0, max_failures = 0, max_t = 100, checkpoint_frequency = 0,
          checkpoints_kept = 0, max_losses = 10;
  double time_budget_s = 0, step_timeout_s = 0, start_timeout_s = 60, cpus = 1, gpus = 0, retry_backoff_s = 0;
  int64_t memory = 0;
  std::map<std::string, double> resources;
  std::optional<uint64_t> seed;
  bool strict_metric = true, fail_fast = false, checkpoint_at_end = false, resume_errored = false,
       restart_errored = false, deterministic = false, raise_on_failed_trial = true, reuse_actors = false,
       wait_if_infeasible = false, tensorboard = true, log_to_file = false;
};

using Functions = std::vector<tune::FunctionDomain>;

tune::Space space_of(const std::string& json, const Functions& functions) {
  return value_or_raise(tune::space_with_functions(value_or_raise(tune::Config::from_json(json)), functions));
}

tune::RunOptions run_options_of(const TuneOptions& given, const Functions& functions) {
  tune::RunOptions options;
  options.name = given.name;
  options.space = space_of(given.space, functions);
  options.metric = given.metric;
  options.mode = mode_of(given.mode, "mode");
  options.strict_metric = given.strict_metric;
  for (const auto& [metric, mode] : given.objectives)
    options.objectives.push_back({metric, mode_of(mode, "objectives")});
  options.constraints = given.constraints;
  options.num_samples = given.num_samples;
  if (!given.searcher.empty()) options.searcher = value_or_raise(tune::searcher_of(given.searcher));
  if (!given.scheduler.empty()) {
    const auto mutations = space_of(given.mutations, functions);
    options.scheduler = value_or_raise(tune::simulated_scheduler_of(given.scheduler, given.max_t, mutations)).factory;
  }
  for (const tune::Stop& one : given.stop) options.stop = tune::any_of({options.stop, one});
  options.resources_per_trial = {
      .cpus = given.cpus, .gpus = given.gpus, .memory = given.memory, .custom = given.resources};
  options.max_concurrent_trials = given.max_concurrent_trials;
  options.time_budget = to_duration(given.time_budget_s);
  options.max_failures = given.max_failures;
  options.max_losses = given.max_losses;
  options.retry_backoff = to_duration(given.retry_backoff_s);
  options.fail_fast = given.fail_fast;
  options.checkpoint.frequency = given.checkpoint_frequency;
  options.checkpoint.at_end = given.checkpoint_at_end;
  if (given.checkpoints_kept > 0) options.checkpoint.num_to_keep = given.checkpoints_kept;
  if (!given.checkpoint_score.empty()) options.checkpoint.score_attribute = given.checkpoint_score;
  options.storage_path = given.storage_path;
  options.resume = given.resume;
  options.resume_errored = given.resume_errored;
  options.restart_errored = given.restart_errored;
  options.seed = given.seed;
  options.deterministic = given.deterministic;
  options.raise_on_failed_trial = given.raise_on_failed_trial;
  options.step_timeout = to_duration(given.step_timeout_s);
  options.start_timeout = std::chrono::milliseconds(std::llround(given.start_timeout_s * 1000));
  options.reuse_actors = given.reuse_actors;
  options.wait_if_infeasible = given.wait_if_infeasible;
  if (given.progress == "lines") options.progress = tune::Progress::kLines;
  if (given.progress == "silent") options.progress = tune::Progress::kSilent;
  options.tensorboard = given.tensorboard;
  options.log_to_file = given.log_to_file;
  options.trial_name = given.trial_name;
  options.tags = given.tags;
  options.warm_start.assign(given.warm_start.begin(), given.warm_start.end());
  return options;
}

// `custom`: a volador.tune._custom.Custom, or None. An exception of its Python code is raised instead of the run's error.
tune::Analysis run(const nb::handle& trainable, const std::string& label, const TuneOptions& options,
                   const nb::object& custom) {
  const Value packed = Pack(trainable).value("Python trainable");
  const auto failure = custom.is_none() ? nullptr : std::make_shared<RunFailure>();
  tune::RunOptions run_options =
      run_options_of(options, failure == nullptr ? Functions() : functions_of(custom.attr("functions"), failure));
  if (failure != nullptr) take_custom(custom, failure, run_options);
  std::optional<tune::Analysis> analysis;
  {
    const WithoutGil released;
    try {
      analysis = tune::run({kTrainable, label, to_bytes(packed)}, std::move(run_options));
    } catch (const Exception&) {
      if (failure == nullptr || !failure->error()) throw;
    }
  }
  if (failure != nullptr) failure->raise();
  return std::move(*analysis);
}

// `functions`: as in a run, or None.
std::string sample(const std::string& space, uint64_t seed, int64_t index, const nb::object& functions) {
  const auto failure = std::make_shared<RunFailure>();
  const auto drawn = space_of(space, functions_of(functions, failure)).sample({.seed = seed, .index = index});
  failure->raise();
  return value_or_raise(drawn).to_json();
}

tune::Analysis::By by(const std::string& metric, const std::string& mode) {
  tune::Analysis::By by;
  by.metric = metric;
  if (!mode.empty()) by.mode = mode_of(mode, "mode");
  return by;
}

nb::typed<nb::dict, nb::str, nb::object> context() {
  const tune::TrialContext& here = tune::get_context();
  nb::typed<nb::dict, nb::str, nb::object> fields;
  fields["trial_id"] = here.trial_id;
  fields["trial_name"] = here.trial_name;
  fields["experiment"] = here.experiment;
  fields["attempt"] = here.attempt;
  fields["cpus"] = here.resources.cpus;
  fields["gpus"] = here.resources.gpus;
  return fields;
}

// ---- A study; a configuration is JSON.

using StudyTrial = std::pair<int64_t, std::string>;  // Index, configuration.

tune::Study make_study(const std::string& space, const std::vector<std::string>& modes, int64_t constraints,
                       const std::string& searcher, std::optional<uint64_t> seed, const nb::object& functions) {
  tune::StudyOptions options;
  options.space = space_of(space, functions_of(functions, std::make_shared<RunFailure>()));
  if (modes.size() == 1) {
    options.mode = mode_of(modes.front(), "mode");
  } else {
    for (const std::string& mode : modes) options.modes.push_back(mode_of(mode, "modes"));
  }
  options.constraints = constraints;
  options.searcher = value_or_raise(tune::searcher_of(searcher));
  options.seed = seed;
  return tune::Study(std::move(options));
}

void bind_study(nb::module_& module) {
  nb::class_<tune::Study>(module, "Study")
      .def(
          "__init__",
          [](tune::Study* study, const std::string& space, const std::vector<std::string>& modes, int64_t constraints,
             const std::string& searcher, std::optional<uint64_t> seed, const nb::object& functions) {
            new (study) tune::Study(make_study(space, modes, constraints, searcher, seed, functions));
          },
          nb::arg("space"), nb::arg("modes"), nb::arg("constraints"), nb::arg("searcher"), nb::arg("seed").none(),
          nb::arg("functions").none())
      .def("ask",
           [](tune::Study& study) {
             const WithoutGil released;
             const auto trial = study.ask();
             return StudyTrial(trial.index, trial.config.to_json());
           })
      .def("enqueue",
           [](tune::Study& study, const std::string& config) {
             return study.enqueue(value_or_raise(tune::Config::from_json(config))).index;
           })
      .def(
          "tell",
          [](tune::Study& study, int64_t index, const std::optional<std::vector<double>>& values,
             const std::vector<double>& constraints) {
            const tune::Study::Trial trial{index, {}};
            const WithoutGil released;
            if (!values) {
              study.tell(trial, std::nullopt);
            } else if (values->size() == 1 && constraints.empty()) {
              study.tell(trial, values->front());
            } else {
              study.tell(trial, *values, constraints);
            }
          },
          nb::arg("index"), nb::arg("values").none(), nb::arg("constraints"))
      .def("front", [](const tune::Study& study) {
        std::vector<int64_t> indices;
        for (const auto& judged : study.front()) indices.push_back(judged.trial.index);
        return indices;
      });
}

std::optional<std::pair<std::string, int64_t>> checkpoint() {
  const auto& found = tune::get_checkpoint();
  if (!found) return std::nullopt;
  return std::pair(found->path().string(), found->step());
}

void bind_options(nb::module_& module) {
  nb::class_<TuneOptions>(module, "TuneOptions")
      .def(nb::init<>())
      .def_rw("name", &TuneOptions::name)
      .def_rw("space", &TuneOptions::space)
      .def_rw("mutations", &TuneOptions::mutations)
      .def_rw("metric", &TuneOptions::metric)
      .def_rw("mode", &TuneOptions::mode)
      .def_rw("strict_metric", &TuneOptions::strict_metric)
      .def_rw("objectives", &TuneOptions::objectives)
      .def_rw("constraints", &TuneOptions::constraints)
      .def_rw("num_samples", &TuneOptions::num_samples)
      .def_rw("searcher", &TuneOptions::searcher)
      .def_rw("scheduler", &TuneOptions::scheduler)
      .def_rw("max_t", &TuneOptions::max_t)
      .def_rw("stop", &TuneOptions::stop)
      .def_rw("cpus", &TuneOptions::cpus)
      .def_rw("gpus", &TuneOptions::gpus)
      .def_rw("memory", &TuneOptions::memory)
      .def_rw("resources", &TuneOptions::resources)
      .def_rw("max_concurrent_trials", &TuneOptions::max_concurrent_trials)
      .def_rw("time_budget_s", &TuneOptions::time_budget_s)
      .def_rw("max_failures", &TuneOptions::max_failures)
      .def_rw("max_losses", &TuneOptions::max_losses)
      .def_rw("retry_backoff_s", &TuneOptions::retry_backoff_s)
      .def_rw("fail_fast", &TuneOptions::fail_fast)
      .def_rw("checkpoint_frequency", &TuneOptions::checkpoint_frequency)
      .def_rw("checkpoint_at_end", &TuneOptions::checkpoint_at_end)
      .def_rw("checkpoints_kept", &TuneOptions::checkpoints_kept)
      .def_rw("checkpoint_score", &TuneOptions::checkpoint_score)
      .def_rw("storage_path", &TuneOptions::storage_path)
      .def_rw("resume", &TuneOptions::resume)
      .def_rw("resume_errored", &TuneOptions::resume_errored)
      .def_rw("restart_errored", &TuneOptions::restart_errored)
      .def_rw("seed", &TuneOptions::seed)
      .def_rw("deterministic", &TuneOptions::deterministic)
      .def_rw("raise_on_failed_trial", &TuneOptions::raise_on_failed_trial)
      .def_rw("step_timeout_s", &TuneOptions::step_timeout_s)
      .def_rw("start_timeout_s", &TuneOptions::start_timeout_s)
      .def_rw("reuse_actors", &TuneOptions::reuse_actors)
      .def_rw("wait_if_infeasible", &TuneOptions::wait_if_infeasible)
      .def_rw("progress", &TuneOptions::progress)
      .def_rw("tensorboard", &TuneOptions::tensorboard)
      .def_rw("log_to_file", &TuneOptions::log_to_file)
      .def_rw("trial_name", &TuneOptions::trial_name)
      .def_rw("tags", &TuneOptions::tags)
      .def_rw("warm_start", &TuneOptions::warm_start);
}

}  // namespace

void install_trainables() {
  static const std::string name = tune::TrainableRegistry::instance().add(kTrainable, &load_trainable);
}

void bind_tune(nb::module_& module) {
  bind_stop(module);
  bind_options(module);
  bind_study(module);
  nb::class_<tune::Analysis>(module, "Analysis")
      .def_prop_ro("directory", [](const tune::Analysis& analysis) { return analysis.directory().string(); })
      .def_prop_ro("interrupted", &tune::Analysis::interrupted)
      .def_prop_ro("notices", &tune::Analysis::notices)
      .def("best_trial", [](const tune::Analysis& analysis, const std::string& metric,
                            const std::string& mode) { return to_string(analysis.best_trial(by(metric, mode)).id); })
      .def("ranking",
           [](const tune::Analysis& analysis, const std::string& metric, const std::string& mode) {
             std::vector<std::string> ids;
             for (const tune::Trial* trial : analysis.ranking(by(metric, mode))) ids.push_back(to_string(trial->id));
             return ids;
           })
      .def("pareto_front",
           [](const tune::Analysis& analysis) {
             std::vector<std::string> ids;
             for (const tune::Trial* trial : analysis.pareto_front()) ids.push_back(to_string(trial->id));
             return ids;
           })
      .def("best_checkpoint",
           [](const tune::Analysis& analysis, const std::string& metric, const std::string& mode) {
             return analysis.best_checkpoint(by(metric, mode)).path().string();
           })
      .def("as_json",
           [](const tune::Analysis& analysis) {
             const WithoutGil released;
             return analysis.as_json();
           })
      .def("as_csv", [](const tune::Analysis& analysis) {
        const WithoutGil released;
        return analysis.as_csv();
      });
  module.def("unpacked_checkpoint", [](const std::string& stored, int64_t step) {
    const WithoutGil released;
    return tune::SavedCheckpoint(stored, step).path().string();
  });
  module.def("tune_run", &run, nb::arg("trainable"), nb::arg("label"), nb::arg("options"), nb::arg("custom").none());
  module.def("tune_sample", &sample, nb::arg("space"), nb::arg("seed"), nb::arg("index"), nb::arg("functions").none());
  module.def("load_analysis", [](const std::string& directory) { return tune::Analysis::load(directory); });
  module.def("tune_report", &report, nb::arg("metrics"), nb::arg("save").none());
  module.def("trial_context", &context);
  module.def("trial_checkpoint", &checkpoint);
}

}  // namespace volador::python
