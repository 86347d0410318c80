#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "cli/roles.h"
#include "head/kernel/options.h"
#include "head/sign_on/provider.h"
#include "runtime/clock.h"
#include "runtime/paths.h"
#include "runtime/quantities.h"
#include "volador/roles/cluster_storage.h"
#include "volador/roles/katib_services.h"

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

std::set<std::string> texts_of(const std::string& list) {
  std::set<std::string> out;
  for (size_t begin = 0; begin <= list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    std::string text = list.substr(begin, end - begin);
    text.erase(0, text.find_first_not_of(' '));
    text.erase(text.find_last_not_of(' ') + 1);
    if (!text.empty()) out.insert(text);
    begin = end + 1;
  }
  return out;
}

std::string text_or(const Config& config, std::string_view key, std::string otherwise = {}) {
  return config.is_set(key) ? config.text(key) : std::move(otherwise);
}

// The first line of a file with a secret, which consists of visible ASCII characters.
tl::expected<std::string, Failure> secret_of_file(const Config& config, std::string_view key) {
  const std::string file = config.text(key);
  auto text = read_file_limited(file, kSecretBytesMax);
  if (!text) {
    return fail(blame(config, key),
                {text.error().code, fmt::format("{}: {} ({})", key, text.error().message, config.origin(key))});
  }
  std::string secret = text->substr(0, text->find_first_of("\r\n"));
  const bool is_visible = std::all_of(secret.begin(), secret.end(), [](char c) { return c > ' ' && c < 127; });
  if (!secret.empty() && is_visible) return secret;
  return fail(blame(config, key),
              {ErrorCode::kInvalidArgument,
               fmt::format("{}: expected a first line of visible ASCII characters without spaces in {} ({})", key, file,
                           config.origin(key))});
}

// nullopt: no provider is configured.
tl::expected<std::optional<head::SignOnOptions>, Failure> sign_on_settings(const Config& config) {
  const auto wrong = [&config](std::string_view key, const std::string& why) {
    return fail(blame(config, key),
                {ErrorCode::kInvalidArgument, fmt::format("{}: {} ({})", key, why, config.origin(key))});
  };
  if (config.is_set("oidc.issuer") != config.is_set("oidc.client_id")) {
    const char* given = config.is_set("oidc.issuer") ? "oidc.issuer" : "oidc.client_id";
    return wrong(given, "oidc.issuer and oidc.client_id go together; set both or none");
  }
  if (!config.is_set("oidc.issuer")) return std::nullopt;
  head::SignOnOptions options{.issuer = config.text("oidc.issuer"),
                              .client_id = config.text("oidc.client_id"),
                              .label = text_or(config, "oidc.label"),
                              .scopes = config.text("oidc.scopes"),
                              .name_claim = config.text("oidc.name_claim"),
                              .full_name_claim = config.text("oidc.full_name_claim"),
                              .mail_claim = config.text("oidc.mail_claim"),
                              .groups_claim = text_or(config, "oidc.groups_claim"),
                              .role = security::parse_user_role(config.text("oidc.role")).value(),
                              .create_users = config.boolean("oidc.create_users"),
                              .device_grant = config.boolean("oidc.device_grant"),
                              .link_users = config.boolean("oidc.link_users"),
                              .allowed_domains = texts_of(text_or(config, "oidc.allowed_domains")),
                              .allowed_groups = texts_of(text_or(config, "oidc.allowed_groups"))};
  if (const auto url = head::check_provider_url("it", options.issuer); !url)
    return wrong("oidc.issuer", url.error().message);
  const std::set<std::string> scopes = [&] {
    std::string commas = options.scopes;
    std::replace(commas.begin(), commas.end(), ' ', ',');
    return texts_of(commas);
  }();
  if (!scopes.contains("openid"))
    return wrong("oidc.scopes", fmt::format("expected openid among the scopes, got \"{}\"", options.scopes));
  for (const std::string& domain : options.allowed_domains) {
    if (domain.find('@') != std::string::npos ||
        std::any_of(domain.begin(), domain.end(), [](char c) { return c >= 'A' && c <= 'Z'; }))
      return wrong("oidc.allowed_domains",
                   fmt::format("expected domains in lower case such as example.org, got \"{}\"", domain));
  }
  if (!options.allowed_groups.empty() && options.groups_claim.empty())
    return wrong("oidc.allowed_groups", "it needs oidc.groups_claim, the claim with the groups");
  if (options.label.empty()) options.label = outgoing::parse_webhook(options.issuer)->host;
  if (config.is_set("oidc.client_secret_file")) {
    auto secret = secret_of_file(config, "oidc.client_secret_file");
    if (!secret) return tl::unexpected(secret.error());
    options.client_secret = security::Secret(std::move(*secret));
  }
  return options;
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
    auto secret = secret_of_file(config, "alert_secret_file");
    if (!secret) return tl::unexpected(secret.error());
    settings.alert_secret = std::move(*secret);
  }
  if (config.is_set("experiments.checkpoint_storage")) {
    settings.checkpoint_storage = config.text("experiments.checkpoint_storage");
    if (const auto good = experiment_defaults(settings.checkpoint_storage); !good) {
      return fail(blame(config, "experiments.checkpoint_storage"),
                  {good.error().code, fmt::format("experiments.checkpoint_storage: {} ({})", good.error().message,
                                                  config.origin("experiments.checkpoint_storage"))});
    }
  }
  for (const auto& [key, to] : {std::pair("katib.suggestions", &settings.katib_suggestions),
                                std::pair("katib.early_stopping", &settings.katib_early_stopping)}) {
    if (!config.is_set(key)) continue;
    *to = config.text(key);
    if (const auto good = katib_service_entries(*to); !good) {
      return fail(blame(config, key),
                  {good.error().code, fmt::format("{}: {} ({})", key, good.error().message, config.origin(key))});
    }
  }
  auto sign_on = sign_on_settings(config);
  if (!sign_on) return tl::unexpected(sign_on.error());
  settings.sign_on = std::move(*sign_on);
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
