#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "cli/roles.h"
#include "head/kernel/options.h"
#include "runtime/clock.h"
#include "runtime/paths.h"
#include "runtime/quantities.h"

namespace volador::cli {

namespace {
constexpr size_t kSecretBytesMax = 4096;

std::chrono::milliseconds milliseconds_of(const Config& config, std::string_view key) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(config.duration(key));
}
// The exit code for an invalid value depends on its source.
ExitCode blame(const Config& config, std::string_view key) {
  return config.source(key) == SettingSource::kFlag ? ExitCode::kUsage : ExitCode::kConfig;
}
}  // namespace

tl::expected<HeadSettings, Failure> head_settings(const Config& config) {
  HeadSettings settings{.bind = config.text("bind"),
                        .port = static_cast<uint16_t>(config.integer("port")),
                        .store = config.text("store"),
                        .survive_power_cut = config.text("durability") == "power",
                        .heartbeat = milliseconds_of(config, "heartbeat"),
                        .lease = milliseconds_of(config, "lease"),
                        .reconnect_window = milliseconds_of(config, "reconnect_window"),
                        .log_level = config.text("log.level"),
                        .dashboard_port = static_cast<uint16_t>(config.integer("dashboard_port"))};
  if (config.is_set("public_url")) settings.public_url = config.text("public_url");
  const bool is_url = settings.public_url.starts_with("http://") || settings.public_url.starts_with("https://");
  if (!settings.public_url.empty() && !is_url)
    return fail(
        blame(config, "public_url"),
        {ErrorCode::kInvalidArgument, fmt::format("public_url: expected https://name or http://name, got \"{}\" ({})",
                                                  settings.public_url, config.origin("public_url"))});
  if (config.is_set("tls_cert") != config.is_set("tls_key")) {
    const char* given = config.is_set("tls_cert") ? "tls_cert" : "tls_key";
    return fail(blame(config, given),
                {ErrorCode::kInvalidArgument,
                 fmt::format("tls_cert and tls_key go together; only {} was given ({})", given, config.origin(given))});
  }
  if (config.is_set("tls_cert")) {
    settings.certificate =
        security::OwnCertificateFiles{.certificate = std::filesystem::absolute(config.text("tls_cert")),
                                      .key = std::filesystem::absolute(config.text("tls_key"))};
    const auto usable = security::load_own_certificate(*settings.certificate, SystemClock().wall());
    if (!usable) return fail(blame(config, "tls_cert"), usable.error());
  }
  if (config.is_set("alert_url")) {
    auto to = outgoing::parse_webhook(config.text("alert_url"));
    if (!to)
      return fail(blame(config, "alert_url"),
                  {to.error().code, fmt::format("alert_url: {} ({})", to.error().message, config.origin("alert_url"))});
    settings.alerts = std::move(*to);
  }
  if (config.is_set("alert_secret_file")) {
    const std::string file = config.text("alert_secret_file");
    auto secret = read_file_limited(file, kSecretBytesMax);
    if (!secret)
      return fail(blame(config, "alert_secret_file"),
                  {secret.error().code, fmt::format("alert_secret_file: {} ({})", secret.error().message,
                                                    config.origin("alert_secret_file"))});
    settings.alert_secret = secret->substr(0, secret->find_first_of("\r\n"));
    const bool is_visible = std::all_of(settings.alert_secret.begin(), settings.alert_secret.end(),
                                        [](char c) { return c > ' ' && c < 127; });
    if (settings.alert_secret.empty() || !is_visible)
      return fail(
          blame(config, "alert_secret_file"),
          {ErrorCode::kInvalidArgument,
           fmt::format("alert_secret_file: expected a first line of visible ASCII characters without spaces in {} ({})",
                       file, config.origin("alert_secret_file"))});
  }
  if (settings.lease < 3 * settings.heartbeat)
    return fail(blame(config, "lease"),
                {ErrorCode::kInvalidArgument,
                 fmt::format("lease: expected at least three heartbeats ({} ms), got {} ms ({})",
                             3 * settings.heartbeat.count(), settings.lease.count(), config.origin("lease"))});
  const auto window_min = settings.lease + head::Times().lease_margin;
  if (settings.reconnect_window < window_min)
    return fail(blame(config, "reconnect_window"),
                {ErrorCode::kInvalidArgument,
                 fmt::format("reconnect_window: expected at least the lease and {} ms ({} ms), so that no actor is "
                             "placed while an earlier one "
                             "may still run, got {} ms ({})",
                             head::Times().lease_margin.count(), window_min.count(), settings.reconnect_window.count(),
                             config.origin("reconnect_window"))});
  if (settings.store != "sqlite" && !settings.store.starts_with("redis://"))
    return fail(blame(config, "store"), {ErrorCode::kInvalidArgument,
                                         fmt::format("store: expected sqlite or redis://host:port, got \"{}\" ({})",
                                                     settings.store, config.origin("store"))});
  return settings;
}

tl::expected<WorkerSettings, Failure> worker_settings(const Config& config) {
  WorkerSettings settings{
      .bind = config.text("bind"), .labels = config.pairs("labels"), .log_level = config.text("log.level")};
  if (config.is_set("name")) {
    settings.node = config.text("name");
    if (auto good = check_name("name", settings.node); !good) return fail(blame(config, "name"), good.error());
  }
  if (config.is_set("cluster")) settings.cluster = config.text("cluster");
  if (config.is_set("num_cpus")) settings.cpus = config.real("num_cpus");
  if (config.is_set("num_gpus")) settings.gpus = static_cast<int>(config.integer("num_gpus"));
  if (config.is_set("memory")) settings.memory = config.bytes("memory");
  settings.memory_threshold = config.real("memory_threshold");
  settings.cgroups = config.text("cgroups") == "auto";
  settings.processes_per_actor = config.integer("processes_per_actor");
  if (config.is_set("health_check")) {
    std::error_code ignored;
    settings.health_check = std::filesystem::absolute(config.text("health_check"), ignored).string();
  }
  settings.health_check_interval = milliseconds_of(config, "health_check_interval");
  settings.health_check_timeout = milliseconds_of(config, "health_check_timeout");
  if (config.is_set("object_store_memory")) settings.object_store_memory = config.bytes("object_store_memory");
  if (config.is_set("object_spill_limit")) settings.object_spill_limit = config.bytes("object_spill_limit");
  if (config.is_set("object_spill_directory")) {
    std::error_code ignored;
    settings.object_spill_directory =
        std::filesystem::absolute(config.text("object_spill_directory"), ignored).string();
  }
  for (const auto& [name, text] : config.pairs("resources")) {
    auto amount = parse_real(text);
    if (!amount || *amount < 0)
      return fail(
          blame(config, "resources"),
          {ErrorCode::kInvalidArgument, fmt::format("resources.{}: expected a number of at least 0, got \"{}\" ({})",
                                                    name, text, config.origin("resources"))});
    settings.custom[name] = *amount;
  }
  return settings;
}

}  // namespace volador::cli
