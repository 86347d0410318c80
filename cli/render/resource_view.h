// Resources in the form of Kubernetes and Katib as text: tables and descriptions in the layout of kubectl, which scripts and
// readers of Katib's guides know. They are not translated.
// Pure: the time is an argument.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/protocol/volador/v1/katib.pb.h"

namespace volador::cli {

// "46s", "5m12s", "3h5m", "2d4h": as kubectl prints ages.
std::string resource_age(int64_t seconds);
// Unix time in ms of an RFC 3339 time in UTC, "2022-01-23T05:13:00Z"; -1: another form.
int64_t resource_time_ms(std::string_view text);

struct ResourceTableOptions {
  bool namespaces = false;  // The first column is the namespace.
  bool wide = false;        // With the experiment, trial and job of Volador that run it.
  bool prefixes = false;    // "experiment.kubeflow.org/name" instead of names, for several kinds.
  bool titles = true;
};
// A table of resources of one kind. Columns are at least as wide as `widths`, which gets their widths, so that rows that
// follow later are aligned; it may be null.
std::string resource_table(const std::vector<v1::KatibResource>& resources, int64_t now_ms,
                           const ResourceTableOptions& options, std::vector<size_t>* widths = nullptr);

// "Name: …", "Spec:" and so on with sorted keys.
std::string resource_description(const v1::KatibResource& resource);

// "experiment.kubeflow.org/bayesian-optimization".
std::string resource_name(std::string_view kind, std::string_view name);
// "experiment.kubeflow.org".
std::string resource_type(std::string_view kind);
// The object, with the keys apiVersion, kind, metadata, spec and status first.
nlohmann::ordered_json resource_object(const v1::KatibResource& resource);

}  // namespace volador::cli
