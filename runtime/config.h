// Settings with one precedence everywhere: flag > environment (VOLADOR_*) > file > default. Every value knows where it
// came from.
//
// The core (parse_config_file, resolve) is pure; load_config at the end reads the environment and the disk.
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
  kPairs,     // "a=1,b=2", in a file a mapping as well.
};

struct Setting {
  std::string key;  // "log.level": a dot is a level of nesting in the file, '_' in VOLADOR_LOG_LEVEL.
  SettingKind kind = SettingKind::kText;
  std::optional<std::string> default_value = {};  // None: the setting may stay unset.
  std::string help = {};                          // One line.
  std::vector<std::string> choices = {};          // The values allowed; empty: any.
  std::optional<double> min = {};                 // Of integers, reals, durations (seconds) and bytes.
  std::optional<double> max = {};
};

// "log.level" → "VOLADOR_LOG_LEVEL".
std::string environment_name(std::string_view key);

enum class SettingSource : uint8_t { kDefault, kFile, kEnvironment, kFlag };

// One entry of a configuration file, before it is checked against the settings.
struct FileEntry {
  std::string key;
  std::string text;
  std::string origin;  // "volador.yaml:3:7"
  bool is_mapping = false;
};

// What each source says. Later sources win over earlier ones.
struct ConfigLayers {
  std::string file_name;                                   // For messages.
  std::optional<std::string> file_text;                    // None: there is no file.
  std::map<std::string, std::string> environment;          // Only names that start with VOLADOR_ are looked at.
  std::vector<std::pair<std::string, std::string>> flags;  // Key and text; a key at most once.
};

class Config {
 public:
  // The value of a setting. The key is one of the settings and of that kind, and is set (else our bug: it aborts).
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
  std::string shown(std::string_view key) const;   // The value for people: secrets as "********", unset as "".

  // Environment variables that look like a misspelt setting, a sentence each. An unknown variable alone is no error:
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

// The entries of a YAML file in their order, mappings joined by dots down to those of `settings`.
// kInvalidArgument, with file:line:column: no YAML, a key that no setting has (names the nearest one), a key twice, a
// list or null where a value belongs, a file above 1 MiB, a YAML alias.
Result<std::vector<FileEntry>> parse_config_file(std::span<const Setting> settings, std::string_view file_name,
                                                 std::string_view text);

// Checks every source and picks each setting's value. kInvalidArgument: what parse_config_file refuses, or a value that
// is not of the setting's kind, choices or range: "port: expected an integer from 1 to 65535, got "ten"
// (volador.yaml:3:7)".
Result<Config> resolve(std::span<const Setting> settings, const ConfigLayers& layers);

// The files looked at where none was named, the first that exists wins: ./volador.yaml, the user's,
// /etc/volador/config.yaml.
struct ConfigPlaces {
  std::optional<std::filesystem::path> named;  // --config or VOLADOR_CONFIG: it must exist.
  std::filesystem::path user;                  // Paths::user_config().
  std::filesystem::path working_directory = ".";
  std::filesystem::path system = "/etc/volador/config.yaml";
};

// Reads the file that applies and resolves. kNotFound: the named file is missing; else as resolve.
Result<Config> load_config(std::span<const Setting> settings, const ConfigPlaces& places,
                           std::map<std::string, std::string> environment,
                           std::vector<std::pair<std::string, std::string>> flags);

// The environment of this process.
std::map<std::string, std::string> environment_of_this_process();

}  // namespace volador
