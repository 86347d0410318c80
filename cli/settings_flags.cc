#include "cli/settings_flags.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstring>

#include "runtime/settings.h"

namespace volador::cli {

namespace {

std::string flag_of(std::string key) {
  std::replace_if(
      key.begin(), key.end(), [](char c) { return c == '_' || c == '.'; }, '-');
  return "--" + key;
}

const char* type_of(SettingKind kind) {
  switch (kind) {
    case SettingKind::kInteger:
      return "INTEGER";
    case SettingKind::kReal:
      return "NUMBER";
    case SettingKind::kBoolean:
      return "true|false";
    case SettingKind::kDuration:
      return "DURATION";
    case SettingKind::kBytes:
      return "SIZE";
    case SettingKind::kPairs:
      return "NAME=VALUE,…";
    case SettingKind::kSecret:
      return "TOKEN";
    case SettingKind::kText:
      return "TEXT";
  }
  return "TEXT";
}

}  // namespace

void SettingsFlags::declare(CLI::App& app, const std::vector<std::string>& keys) {
  for (const std::string& key : keys) {
    const auto settings = volador_settings();
    const auto setting =
        std::find_if(settings.begin(), settings.end(), [&](const Setting& candidate) { return candidate.key == key; });
    VOLADOR_CHECK(setting != settings.end(), key);
    std::string help = setting->help;
    if (!setting->choices.empty()) help += fmt::format(" ({})", fmt::join(setting->choices, ", "));
    if (setting->default_value && !setting->default_value->empty())
      help += fmt::format("; {} by default", *setting->default_value);
    auto take = [this, key](const std::string& text) {
      std::erase_if(flags_, [&](const auto& flag) { return flag.first == key; });
      flags_.emplace_back(key, text);
    };
    app.add_option_function<std::string>(flag_of(key), take, help)->type_name(type_of(setting->kind));
  }
  app.add_option("--config", config_file_,
                 "Configuration file; by default the first of ./volador.yaml, the user's, and /etc/volador/config.yaml "
                 "that exists")
      ->envname("VOLADOR_CONFIG")
      ->type_name("FILE");
}

void SettingsFlags::hide_secrets(int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    char* secret = nullptr;
    if (std::strncmp(argv[i], "--token=", 8) == 0) secret = argv[i] + 8;
    if (std::strcmp(argv[i], "--token") == 0 && i + 1 < argc) secret = argv[i + 1];
    if (secret != nullptr) std::memset(secret, 'x', std::strlen(secret));
  }
}

tl::expected<Config, Failure> SettingsFlags::resolve(const Paths& paths) const {
  ConfigLayers only_flags{.flags = flags_};
  if (auto checked = volador::resolve(volador_settings(), only_flags); !checked)
    return fail(ExitCode::kUsage, checked.error());
  ConfigPlaces places{.user = paths.user_config()};
  if (!config_file_.empty()) places.named = config_file_;
  auto config = load_config(volador_settings(), places, environment_of_this_process(), flags_);
  if (!config) return fail(ExitCode::kConfig, config.error());
  return std::move(*config);
}

}  // namespace volador::cli
