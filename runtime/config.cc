#include "runtime/config.h"

#include <fmt/format.h>
#include <unistd.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <set>

#include "runtime/nearest_word.h"
#include "runtime/paths.h"
#include "runtime/quantities.h"

namespace volador {

namespace {

constexpr size_t kFileBytesMax = 1 << 20;
constexpr size_t kSlipsMax = 2;  // Letters by which a variable may differ from the setting that it means.

const Setting* find(std::span<const Setting> settings, std::string_view key) {
  for (const Setting& setting : settings)
    if (setting.key == key) return &setting;
  return nullptr;
}

std::vector<std::string> keys_of(std::span<const Setting> settings) {
  std::vector<std::string> keys;
  for (const Setting& setting : settings) keys.push_back(setting.key);
  return keys;
}

// Whether a setting is nested below the key: "log" for "log.level".
bool is_group(std::span<const Setting> settings, std::string_view key) {
  return std::any_of(settings.begin(), settings.end(),
                     [&](const Setting& setting) { return setting.key.starts_with(std::string(key) + "."); });
}

std::string place(std::string_view file, const YAML::Mark& mark) {
  if (mark.is_null()) return std::string(file);
  return fmt::format("{}:{}:{}", file, mark.line + 1, mark.column + 1);
}

tl::unexpected<Error> invalid(std::string message) {
  return make_error(ErrorCode::kInvalidArgument, std::move(message));
}

std::string range_words(const Setting& setting, std::string_view unit) {
  if (setting.min && setting.max) return fmt::format(" from {} to {}{}", *setting.min, *setting.max, unit);
  if (setting.min) return fmt::format(" of at least {}{}", *setting.min, unit);
  if (setting.max) return fmt::format(" of at most {}{}", *setting.max, unit);
  return "";
}

// Returns the number that min and max apply to, or the expectation for the error.
Result<double> number_of(const Setting& setting, const std::string& text) {
  switch (setting.kind) {
    case SettingKind::kInteger:
      return parse_integer(text).map([](int64_t value) { return static_cast<double>(value); });
    case SettingKind::kReal:
      return parse_real(text);
    case SettingKind::kBytes:
      return parse_byte_count(text).map([](int64_t value) { return static_cast<double>(value); });
    case SettingKind::kDuration:
      return parse_duration(text).map(
          [](std::chrono::nanoseconds value) { return std::chrono::duration<double>(value).count(); });
    case SettingKind::kBoolean:
      return parse_boolean(text).map([](bool) { return 0.0; });
    case SettingKind::kPairs:
      return parse_pairs(text).map([](const auto&) { return 0.0; });
    case SettingKind::kText:
    case SettingKind::kSecret:
      return 0.0;
  }
  return 0.0;
}

std::string what_is_expected(const Setting& setting) {
  switch (setting.kind) {
    case SettingKind::kInteger:
      return "an integer" + range_words(setting, "");
    case SettingKind::kReal:
      return "a number" + range_words(setting, "");
    case SettingKind::kBytes:
      return "a size such as 512MiB or 8GiB" + range_words(setting, " bytes");
    case SettingKind::kDuration:
      return "a duration such as 500ms or 3.5s" + range_words(setting, " s");
    case SettingKind::kBoolean:
      return "true or false";
    case SettingKind::kPairs:
      return "pairs such as zone=a,disk=ssd, each key once";
    case SettingKind::kText:
    case SettingKind::kSecret:
      return "text";
  }
  return "text";
}

Result<void> check_value(const Setting& setting, const std::string& text, const std::string& origin) {
  auto refused = [&](std::string_view expected, const std::string& hint = "") {
    const std::string got =
        setting.kind == SettingKind::kSecret ? "other characters" : fmt::format("\"{}\"", text.substr(0, 80));
    return invalid(fmt::format("{}: expected {}, got {}{} ({})", setting.key, expected, got, hint, origin));
  };
  auto number = number_of(setting, text);
  if (!number || (setting.min && *number < *setting.min) || (setting.max && *number > *setting.max))
    return refused(what_is_expected(setting));
  if (setting.kind == SettingKind::kText || setting.kind == SettingKind::kSecret) {
    for (unsigned char c : text)
      if (c < 0x20 || c == 0x7f) return refused("one line without control characters");
  }
  if (!setting.choices.empty() &&
      std::find(setting.choices.begin(), setting.choices.end(), text) == setting.choices.end())
    return refused(fmt::format("one of {}", fmt::join(setting.choices, ", ")), did_you_mean(text, setting.choices));
  return {};
}

// Traverses a file's mappings down to the settings.
class FileWalk {
 public:
  FileWalk(std::span<const Setting> settings, std::string_view file) : settings_(settings), file_(file) {}

  Result<void> walk(const YAML::Node& mapping, const std::string& prefix) {
    std::set<std::string> seen;
    for (const auto& entry : mapping) {
      const std::string origin = place(file_, entry.first.Mark());
      if (!entry.first.IsScalar()) return invalid(fmt::format("expected a key ({})", origin));
      const std::string key = prefix + entry.first.Scalar();
      if (!seen.insert(key).second) return invalid(fmt::format("{}: comes twice; keep one ({})", key, origin));
      VOLADOR_TRY(take(key, entry.second, origin));
    }
    return {};
  }

  std::vector<FileEntry> entries;

 private:
  Result<void> take(const std::string& key, const YAML::Node& node, const std::string& key_origin) {
    const Setting* setting = find(settings_, key);
    if (setting == nullptr && is_group(settings_, key)) {
      if (!node.IsMap())
        return invalid(
            fmt::format("{}: expected settings below it, got {} ({})", key, describe(node), place(file_, node.Mark())));
      return walk(node, key + ".");
    }
    if (setting == nullptr)
      return invalid(
          fmt::format("{}: there is no such setting{} ({})", key, did_you_mean(key, keys_of(settings_)), key_origin));

    FileEntry entry{.key = key, .text = {}, .origin = place(file_, node.Mark())};
    if (node.IsScalar()) {
      entry.text = node.Scalar();
    } else if (node.IsMap() && setting->kind == SettingKind::kPairs) {
      VOLADOR_TRY(join_pairs(key, node, entry.text));
    } else {
      return invalid(
          fmt::format("{}: expected {}, got {} ({})", key, what_is_expected(*setting), describe(node), entry.origin));
    }
    entries.push_back(std::move(entry));
    return {};
  }

  Result<void> join_pairs(const std::string& key, const YAML::Node& mapping, std::string& out) {
    std::set<std::string> seen;
    for (const auto& pair : mapping) {
      const std::string origin = place(file_, pair.first.Mark());
      if (!pair.first.IsScalar() || !pair.second.IsScalar())
        return invalid(fmt::format("{}: expected names and plain values below it ({})", key, origin));
      const std::string& name = pair.first.Scalar();
      if (name.find_first_of(",=") != std::string::npos || pair.second.Scalar().find(',') != std::string::npos)
        return invalid(fmt::format("{}.{}: a name has no ',' or '=', a value no ',' ({})", key, name, origin));
      if (!seen.insert(name).second)
        return invalid(fmt::format("{}.{}: comes twice; keep one ({})", key, name, origin));
      out += fmt::format("{}{}={}", out.empty() ? "" : ",", name, pair.second.Scalar());
    }
    return {};
  }

  static std::string describe(const YAML::Node& node) {
    if (node.IsSequence()) return "a list";
    if (node.IsMap()) return "a mapping";
    if (node.IsScalar()) return fmt::format("\"{}\"", node.Scalar().substr(0, 80));
    return "nothing";
  }

  std::span<const Setting> settings_;
  std::string_view file_;
};

}  // namespace

std::string environment_name(std::string_view key) {
  std::string name = "VOLADOR_";
  for (char c : key) name += c == '.' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return name;
}

Result<std::vector<FileEntry>> parse_config_file(std::span<const Setting> settings, std::string_view file_name,
                                                 std::string_view text) {
  if (text.size() > kFileBytesMax)
    return invalid(
        fmt::format("{}: longer than the limit of {} bytes for a configuration file", file_name, kFileBytesMax));
  YAML::Node root;
  try {
    root = YAML::Load(std::string(text));
  } catch (const YAML::Exception& error) {
    return invalid(fmt::format("not valid YAML: {} ({})", error.msg, place(file_name, error.mark)));
  }
  if (root.IsNull()) return std::vector<FileEntry>();
  if (!root.IsMap())
    return invalid(fmt::format("expected settings such as \"port: 6380\" ({})", place(file_name, root.Mark())));
  FileWalk walk(settings, file_name);
  VOLADOR_TRY(walk.walk(root, ""));
  return std::move(walk.entries);
}

Result<Config> resolve(std::span<const Setting> settings, const ConfigLayers& layers) {
  Config config;
  for (const Setting& setting : settings) {
    Config::Value value{.kind = setting.kind, .text = setting.default_value};
    VOLADOR_CHECK(config.values_.emplace(setting.key, std::move(value)).second, setting.key);
  }
  auto take = [&](const std::string& key, const std::string& text, SettingSource source,
                  const std::string& origin) -> Result<void> {
    const Setting* setting = find(settings, key);
    VOLADOR_CHECK(setting != nullptr, key);
    VOLADOR_TRY(check_value(*setting, text, origin));
    Config::Value& value = config.values_.find(key)->second;
    value.text = text;
    value.source = source;
    value.origin = origin;
    return {};
  };

  if (layers.file_text) {
    auto entries = parse_config_file(settings, layers.file_name, *layers.file_text);
    if (!entries) return make_error(entries.error());
    for (const FileEntry& entry : *entries)
      VOLADOR_TRY(take(entry.key, entry.text, SettingSource::kFile, entry.origin));
  }

  std::map<std::string, std::string> key_of;
  std::vector<std::string> names;
  for (const Setting& setting : settings) {
    names.push_back(environment_name(setting.key));
    key_of[names.back()] = setting.key;
  }
  static const std::set<std::string> kOtherNames{"VOLADOR_HOME", "VOLADOR_CONFIG", "VOLADOR_TORCH"};
  for (const auto& [name, text] : layers.environment) {
    if (!name.starts_with("VOLADOR_") || kOtherNames.contains(name)) continue;
    if (auto known = key_of.find(name); known != key_of.end()) {
      // An empty variable counts as unset, as in the shell's `VOLADOR_TOKEN= program`.
      if (!text.empty()) VOLADOR_TRY(take(known->second, text, SettingSource::kEnvironment, name));
    } else {
      // Distances take time, and processes of jobs have many such variables.
      std::vector<std::string> near;
      std::copy_if(names.begin(), names.end(), std::back_inserter(near), [&name = name](const std::string& setting) {
        return std::max(setting.size(), name.size()) - std::min(setting.size(), name.size()) <= kSlipsMax;
      });
      if (auto meant = nearest_word(name, near); meant && edit_distance(name, *meant) <= kSlipsMax)
        config.warnings_.push_back(fmt::format("{} is no setting and is ignored; did you mean {}?", name, *meant));
    }
  }

  for (const auto& [key, text] : layers.flags) {
    std::string flag = "--" + key;
    std::replace_if(
        flag.begin(), flag.end(), [](char c) { return c == '_' || c == '.'; }, '-');
    VOLADOR_TRY(take(key, text, SettingSource::kFlag, flag));
  }
  return config;
}

const Config::Value& Config::value(std::string_view key) const {
  auto found = values_.find(key);
  VOLADOR_CHECK(found != values_.end(), std::string(key));
  return found->second;
}

const std::string& Config::checked(std::string_view key, SettingKind kind) const {
  const Value& found = value(key);
  VOLADOR_CHECK(found.kind == kind && found.text.has_value(), std::string(key));
  return *found.text;
}

const std::string& Config::text(std::string_view key) const {
  return checked(key, value(key).kind == SettingKind::kSecret ? SettingKind::kSecret : SettingKind::kText);
}
int64_t Config::integer(std::string_view key) const {
  return parse_integer(checked(key, SettingKind::kInteger)).value();
}
double Config::real(std::string_view key) const { return parse_real(checked(key, SettingKind::kReal)).value(); }
bool Config::boolean(std::string_view key) const { return parse_boolean(checked(key, SettingKind::kBoolean)).value(); }
std::chrono::nanoseconds Config::duration(std::string_view key) const {
  return parse_duration(checked(key, SettingKind::kDuration)).value();
}
int64_t Config::bytes(std::string_view key) const {
  return parse_byte_count(checked(key, SettingKind::kBytes)).value();
}
std::map<std::string, std::string> Config::pairs(std::string_view key) const {
  return parse_pairs(checked(key, SettingKind::kPairs)).value();
}

bool Config::is_set(std::string_view key) const { return value(key).text.has_value(); }
SettingSource Config::source(std::string_view key) const { return value(key).source; }
std::string Config::origin(std::string_view key) const { return value(key).origin; }
std::string Config::shown(std::string_view key) const {
  const Value& found = value(key);
  if (!found.text) return "";
  return found.kind == SettingKind::kSecret ? "********" : *found.text;
}

Result<Config> load_config(std::span<const Setting> settings, const ConfigPlaces& places,
                           std::map<std::string, std::string> environment,
                           std::vector<std::pair<std::string, std::string>> flags) {
  ConfigLayers layers{.environment = std::move(environment), .flags = std::move(flags)};
  std::vector<std::filesystem::path> files;
  if (places.named) {
    files = {*places.named};
  } else {
    files = {places.working_directory / "volador.yaml", places.user, places.system};
  }
  for (const std::filesystem::path& file : files) {
    if (file.empty()) continue;
    auto text = read_file_limited(file, kFileBytesMax);
    if (!text && text.error().code == ErrorCode::kNotFound && !places.named) continue;
    if (!text) return make_error(text.error());
    layers.file_name = file.lexically_normal().native();
    layers.file_text = std::move(*text);
    break;
  }
  return resolve(settings, layers);
}

std::map<std::string, std::string> environment_of_this_process() {
  std::map<std::string, std::string> out;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    std::string_view text = *entry;
    const size_t equals = text.find('=');
    if (equals != std::string_view::npos) out.emplace(text.substr(0, equals), text.substr(equals + 1));
  }
  return out;
}

}  // namespace volador
