// API rows as JSON text. Equal rows have equal texts, so that unchanged rows are not sent. Pure.
#pragma once

#include <google/protobuf/map.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dashboard/series_steps.h"
#include "runtime/protocol/volador/v1/cluster.pb.h"

namespace volador::dashboard {

class JsonObject;
// Key in the table of trials: trials of two experiments may share an id.
std::string trial_key(std::string_view experiment, std::string_view trial);
// The id shown in rows, from a key.
std::string_view shown_id(std::string_view key);

using Amounts = google::protobuf::Map<std::string, int64_t>;

// Amounts in 1/10,000 units, memory in bytes.
std::string amounts_text(const Amounts& amounts);
std::string counts_text(const Amounts& counts);
std::string texts_text(const google::protobuf::Map<std::string, std::string>& texts);
std::string list_text(const google::protobuf::RepeatedPtrField<std::string>& texts);
// 0 if the name is missing.
double amount_of(const Amounts& amounts, const std::string& name);
// Appends a config as JSON, or as a string if it is not valid JSON, for example because it was truncated.
void append_config(JsonObject& object, const std::string& config_json);

// Measures of a node's machine other than CPUs and memory, as far as available; rows and series use the same names.
struct Measured {
  std::string_view name;
  double value = 0;
};
std::vector<Measured> machine_measures(const v1::Node& node);
inline constexpr std::array<std::string_view, 6> kMachineMeasures{
    "disk_read_bytes_per_s",    "disk_write_bytes_per_s",  "network_receive_bytes_per_s",
    "network_send_bytes_per_s", "cpu_temperature_celsius", "cpu_power_watts"};

std::string node_text(const v1::Node& node, int64_t now_ms);
std::string actor_text(const v1::Actor& actor);
std::string driver_text(const v1::Driver& driver, int64_t now_ms);
std::string queue_text(const v1::QueueEntry& entry, int64_t now_ms);
std::string group_text(const v1::Group& group);
std::string trial_text(const v1::Trial& trial);
// {"id":"node/heron/cpu_cores_used",…,"x":[…],"min":[…],"y":[…],"max":[…]}
std::string series_text(const std::string& of, const std::string& measure, const std::vector<SeriesStep>& steps);
std::string scheduler_text(const v1::Experiment& experiment);

// Each copy of an object has its own row; its id contains the node.
std::string object_row_id(const v1::Object& object);
std::string object_text(const v1::Object& object);
std::string object_group_id(const v1::ObjectGroup& group);
std::string object_group_text(const v1::ObjectGroup& group);
std::string audit_text(const v1::AuditEntry& entry);
std::string object_store_text(const v1::ObjectStore& store);

}  // namespace volador::dashboard
