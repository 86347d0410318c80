#include "python-bindings/core/tune_stop.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <optional>
#include <string>
#include <utility>

#include "python-bindings/core/tune.h"
#include "tune/loop/stopper.h"

namespace volador::python {
namespace {

namespace nb = nanobind;

std::optional<tune::Mode> optional_mode(const std::optional<std::string>& text, const char* option) {
  if (!text) return std::nullopt;
  return mode_of(*text, option);
}

tune::Stop trial_plateau(std::string metric, double std, int64_t num_results, int64_t grace_period,
                         std::optional<double> metric_threshold, const std::optional<std::string>& mode) {
  return tune::trial_plateau({.metric = std::move(metric),
                              .std = std,
                              .num_results = num_results,
                              .grace_period = grace_period,
                              .metric_threshold = metric_threshold,
                              .mode = optional_mode(mode, "stop.trial_plateau.mode")});
}

tune::Stop experiment_plateau(std::string metric, double std, int64_t top, int64_t patience,
                              const std::optional<std::string>& mode) {
  return tune::experiment_plateau({.metric = std::move(metric),
                                   .std = std,
                                   .top = top,
                                   .patience = patience,
                                   .mode = optional_mode(mode, "stop.experiment_plateau.mode")});
}

}  // namespace

// An empty metric is the experiment's.
void bind_stop(nb::module_& module) {
  nb::class_<tune::Stop>(module, "Stop");
  module.def("stop_threshold", [](const std::string& metric, double value) { return tune::Stop{{metric, value}}; });
  module.def("stop_at_least",
             [](std::string metric, double value) { return tune::at_least(std::move(metric), value); });
  module.def("stop_at_most", [](std::string metric, double value) { return tune::at_most(std::move(metric), value); });
  module.def("stop_max_steps", &tune::max_steps);
  module.def("stop_max_time", [](double seconds) { return tune::max_time(to_duration(seconds)); });
  module.def("stop_timeout", [](double seconds) { return tune::timeout(to_duration(seconds)); });
  module.def("stop_on_nan", [](std::string metric, int64_t tolerated, bool infinities) {
    return tune::stop_on_nan({.metric = std::move(metric), .tolerated = tolerated, .infinities = infinities});
  });
  module.def("stop_trial_plateau", &trial_plateau, nb::arg("metric"), nb::arg("std"), nb::arg("num_results"),
             nb::arg("grace_period"), nb::arg("metric_threshold").none(), nb::arg("mode").none());
  module.def("stop_experiment_plateau", &experiment_plateau, nb::arg("metric"), nb::arg("std"), nb::arg("top"),
             nb::arg("patience"), nb::arg("mode").none());
}

}  // namespace volador::python
