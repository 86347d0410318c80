// The tuner for Python programs: trainables in Python, runs started from Python.
#pragma once

#include <nanobind/nanobind.h>

#include <chrono>
#include <map>
#include <string>

#include "tune/loop/metrics.h"

namespace volador::python {

using MetricMap = std::map<std::string, double>;
tune::Metrics to_metrics(const MetricMap& values);
// "max" or "min"; throws kInvalidArgument, which names the option.
tune::Mode mode_of(const std::string& text, const char* option);
std::chrono::nanoseconds to_duration(double seconds);

// Lets this process run trials of Python trainables. Call before the first trial.
void install_trainables();
void bind_tune(nanobind::module_& module);

}  // namespace volador::python
