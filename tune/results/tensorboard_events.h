// Records of TensorBoard's event files: a length and a protocol buffer, each with a masked CRC-32C. Written by hand: a few messages are all
// that scalars, histograms, images and the HParams dashboard need (tensorflow/core/util/event.proto, tensorboard/plugins/hparams/plugin_data.proto). Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/clock.h"
#include "tune/execution/media.h"
#include "tune/loop/metrics.h"
#include "tune/space/config.h"

namespace volador::tune {

// "events.out.tfevents.1700000000.3f2a90c1"
std::string event_file_name(WallTime created, std::string_view trial);

// Each appends one record. First of a file:
void append_event_version(std::string& out, WallTime now);
// One point of each metric's curve, under the metric's name; training_iteration is the step, not a curve.
void append_event_scalars(std::string& out, WallTime now, int64_t step, const Metrics& metrics);
// Summary values, which append_event_values puts into one record: a distribution and a picture at a step.
std::string event_histogram(std::string_view name, const Histogram& histogram);
std::string event_image(std::string_view name, const Image& image);
void append_event_values(std::string& out, WallTime now, int64_t step, const std::vector<std::string>& values);
// The records of a file that append_event_values wrote, whole and as they stand there; it ends where one is torn.
std::string media_events_of(std::string_view file);

// What the HParams dashboard knows of a trial: its parameters by path, and how it ended.
void append_event_session_start(std::string& out, WallTime now, std::string_view trial, const Config& config);
void append_event_session_end(std::string& out, WallTime now, bool success);

}  // namespace volador::tune
