// Texts of the configuration that have a form of their own: sizes, devices, variables, entry points, paths.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace volador::experiments {

// "128M", "1.5 gb", "1219021 b", "1": k, m, g, t and p are powers of 1024, with or without i and b. A fraction of a byte is
// dropped. No value: another form, or above 8 EiB.
std::optional<int64_t> memory_bytes(std::string_view text);

struct DeviceText {
  std::string host_path, container_path, mode;
};
// "/dev/infiniband/uverbs0:/dev/infiniband/uverbs0:mrw"; without the mode it is "mrw".
std::optional<DeviceText> device_of(std::string_view text);

// Name of a variable in "NAME=VALUE"; no value: there is no "=", or the name is empty or has a space.
std::optional<std::string_view> variable_name(std::string_view text);
// Whether the name says that the value is a secret, as AWS_SECRET_ACCESS_KEY and HF_TOKEN do.
bool names_secret(std::string_view variable);

// The trial class "model_def:MNistTrial" that an entry point names: as its only word, or as the last word of a command
// with a launch module. No value: the entry point is any other command.
std::optional<std::string> trial_class_of(const std::vector<std::string>& entrypoint);

// Whether a path of storage leaves its folder: it has a component "..".
bool has_parent_component(std::string_view path);
// Whether `path`, relative to `folder` or absolute, stays inside `folder`.
bool is_inside(std::string_view path, std::string_view folder);

}  // namespace volador::experiments
