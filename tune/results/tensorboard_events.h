// Records of TensorBoard's event files: a length and a protocol buffer, each with a masked CRC-32C. Hand-written, since
// scalars, histograms, images and the HParams dashboard need only a few messages (tensorflow/core/util/event.proto,
// tensorboard/plugins/hparams/plugin_data.proto). Pure.
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

// Each of these appends one record. The version is the first record of a file:
void append_event_version(std::string& out, WallTime now);
// Appends one point to the curve of each metric; training_iteration is the step and has no curve.
void append_event_scalars(std::string& out, WallTime now, int64_t step, const Metrics& metrics);
// Returns a histogram or image summary, several of which append_event_values() combines into one record.
std::string event_histogram(std::string_view name, const Histogram& histogram);
std::string event_image(std::string_view name, const Image& image);
void append_event_values(std::string& out, WallTime now, int64_t step, const std::vector<std::string>& values);
// Returns the records of a file that append_event_values() wrote, up to the first incomplete one.
std::string media_events_of(std::string_view file);

// Metadata of a trial for the HParams dashboard: its parameters by path, and its final status.
void append_event_session_start(std::string& out, WallTime now, std::string_view trial, const Config& config);
void append_event_session_end(std::string& out, WallTime now, bool success);

}  // namespace volador::tune
