// Settings with uniform precedence: flag > environment (VOLADOR_*) > file > default. Every value has its origin.
//
// The core (parse_config_file, resolve) is pure; load_config reads the environment and the disk.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/result.h"

namespace volador {

enum class SettingKind : uint8_t {
  kText,
  kSecret,  // Text that is never printed.
  kInteger,
  kReal,
  kBoolean,   // true or false.
  kDuration,  // "500ms"; see quantities.h.
  kBytes,     // "8GiB"; see quantities.h.
  kPairs,     // "a=1,b=2", or a mapping in a file.
};

// Definition of a setting.
struct Setting {
  std::string key;  // "log.level": a dot is nesting in the file, '_' in VOLADOR_LOG_LEVEL.
  SettingKind kind = SettingKind::kText;
  std::optional<std::string> default_value = {};  // Unset: the setting may stay unset.
  std::string help = {};                          // One line.
  std::vector<std::string> choices = {};          // Allowed values; empty: any.
  std::optional<double> min = {};                 // For integers, reals, durations (seconds) and bytes.
  std::optional<double> max = {};
};

// "log.level" → "VOLADOR_LOG_LEVEL".
std::string environment_name(std::string_view key);

enum class SettingSource : uint8_t { kDefault, kFile, kEnvironment, kFlag };

// Entry of a configuration file, not validated yet.
struct FileEntry {
  std::string key;
  std::string text;
  std::string origin;  // "volador.yaml:3:7"
  bool is_mapping = false;
};

// The sources of settings. Later sources override earlier ones.
struct ConfigLayers {
  std::string file_name;                                   // For messages.
  std::optional<std::string> file_text;                    // Unset: there is no file.
  std::map<std::string, std::string> environment;          // Only names with the prefix VOLADOR_ are used.
  std::vector<std::pair<std::string, std::string>> flags;  // Key and text; each key at most once.
};

// Resolved values of all settings.
class Config {
 public:
  // Return the value of a setting. The key must exist with that kind and be set, otherwise the process aborts.
  const std::string& text(std::string_view key) const;  // kText and kSecret.
  int64_t integer(std::string_view key) const;
  double real(std::string_view key) const;
  bool boolean(std::string_view key) const;
  std::chrono::nanoseconds duration(std::string_view key) const;
  int64_t bytes(std::string_view key) const;
  std::map<std::string, std::string> pairs(std::string_view key) const;

  bool is_set(std::string_view key) const;  // By a source or a default.
  SettingSource source(std::string_view key) const;
  std::string origin(std::string_view key) const;  // "--port", "VOLADOR_PORT", "volador.yaml:3:7", "default".
  std::string shown(std::string_view key) const;   // Value for display: secrets as "********", unset as "".

  // Sentences about environment variables that look like misspelled settings. Other unknown variables are allowed:
  // programs have their own.
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  friend Result<Config> resolve(std::span<const Setting> settings, const ConfigLayers& layers);

  struct Value {
    SettingKind kind = SettingKind::kText;
    std::optional<std::string> text;
    SettingSource source = SettingSource::kDefault;
    std::string origin = "default";
  };
  const Value& value(std::string_view key) const;
  const std::string& checked(std::string_view key, SettingKind kind) const;

  std::map<std::string, Value, std::less<>> values_;
  std::vector<std::string> warnings_;
};

// Returns the entries of a YAML file in order, with mappings joined by dots down to `settings`. kInvalidArgument, with
// file:line:column: invalid YAML, an unknown key (names the nearest one), a duplicate key, a list or null instead of a
// value, a file above 1 MiB, a YAML alias.
Result<std::vector<FileEntry>> parse_config_file(std::span<const Setting> settings, std::string_view file_name,
                                                 std::string_view text);

// Validates every source and determines each setting's value. kInvalidArgument: as parse_config_file, or a value that
// does not match the setting's kind, choices or range: "port: expected an integer from 1 to 65535, got "ten"
// (volador.yaml:3:7)".
Result<Config> resolve(std::span<const Setting> settings, const ConfigLayers& layers);

// Default locations of the configuration file, in order: ./volador.yaml, the user's, /etc/volador/config.yaml. The
// first existing file is used.
struct ConfigPlaces {
  std::optional<std::filesystem::path> named;  // --config or VOLADOR_CONFIG: the file must exist.
  std::filesystem::path user;                  // Paths::user_config().
  std::filesystem::path working_directory = ".";
  std::filesystem::path system = "/etc/volador/config.yaml";
};

// Reads the applicable file and resolves the settings. kNotFound: the named file is missing; otherwise as resolve.
Result<Config> load_config(std::span<const Setting> settings, const ConfigPlaces& places,
                           std::map<std::string, std::string> environment,
                           std::vector<std::pair<std::string, std::string>> flags);

// The environment of this process.
std::map<std::string, std::string> environment_of_this_process();

}  // namespace volador
