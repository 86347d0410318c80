#include "runtime/settings.h"

#include <fmt/format.h>

#include <vector>

#include "runtime/paths.h"

namespace volador {
namespace {

constexpr size_t kTokenFileBytesMax = 16 << 10;

}  // namespace

std::span<const Setting> volador_settings() {
  using enum SettingKind;
  static const std::vector<Setting> settings{
      {.key = "address", .help = "host:port of the head to join or to ask"},
      {.key = "token", .kind = kSecret, .help = "Token that the head printed, vt1.…"},
      {.key = "token_file", .help = "File that holds the token"},
      {.key = "cluster", .help = "Name of the cluster; start --head makes one up by default"},
      {.key = "lang",
       .help = "Language of what commands print; that of LC_ALL, LC_MESSAGES or LANG by default",
       .choices = {"en", "zh"}},
      {.key = "name", .help = "Name of this node; the host name by default"},
      {.key = "bind",
       .default_value = "127.0.0.1",
       .help = "Address to serve on; auto takes the one that leads to the network, 127.0.0.1 serves this machine only"},
      {.key = "port",
       .kind = kInteger,
       .default_value = "6380",
       .help = "TCP port of the head; 0 takes a free one",
       .min = 0,
       .max = 65535},
      {.key = "dashboard_port",
       .kind = kInteger,
       .default_value = "0",
       .help = "TCP port of the dashboard; 0 takes that of last time, else a free one",
       .min = 0,
       .max = 65535},
      {.key = "public_url", .help = "Address of the dashboard where a proxy stands before it, https://volador.example"},
      {.key = "tls_cert",
       .help = "PEM file with a certificate of your own for the dashboard, its chain behind it; read again when it "
               "changes. Where not given: one of the cluster's authority"},
      {.key = "tls_key", .help = "PEM file with the key of --tls-cert"},
      {.key = "alert_url",
       .kind = kSecret,
       .help = "Webhook, https://…, that is told when an experiment ends or a node is lost; better in a file, for the "
               "list of processes shows flags"},
      {.key = "alert_secret_file", .help = "File with a secret that the webhook receives as a bearer token"},
      {.key = "oidc.issuer",
       .help = "OpenID Connect provider by which users sign in, https://id.example.org/realms/lab"},
      {.key = "oidc.client_id", .help = "Name of this cluster's client at the provider"},
      {.key = "oidc.client_secret_file", .help = "File with the client's secret; none for a public client"},
      {.key = "oidc.label", .help = "Name of the provider on the sign-in button; the issuer's host by default"},
      {.key = "oidc.scopes", .default_value = "openid profile email", .help = "Scopes to ask for, with spaces"},
      {.key = "oidc.name_claim",
       .default_value = "preferred_username",
       .help = "Claim that names a new user; of an address the part before the @"},
      {.key = "oidc.full_name_claim", .default_value = "name", .help = "Claim with the name of the person"},
      {.key = "oidc.mail_claim", .default_value = "email", .help = "Claim with the mail address"},
      {.key = "oidc.groups_claim",
       .help =
           "Claim that decides at each sign-in which of the cluster's groups the user is in; by default groups stay "
           "as they are"},
      {.key = "oidc.role",
       .default_value = "user",
       .help = "Role of users whom a sign-in adds",
       .choices = {"user", "operator", "viewer"}},
      {.key = "oidc.create_users",
       .kind = kBoolean,
       .default_value = "true",
       .help = "Whether a first sign-in adds the user"},
      {.key = "oidc.link_users",
       .kind = kBoolean,
       .default_value = "false",
       .help = "Whether a first sign-in takes over a user of the same name that an operator has added"},
      {.key = "oidc.device_grant",
       .kind = kBoolean,
       .default_value = "true",
       .help = "Whether command lines use the provider's device grant where it has one"},
      {.key = "oidc.allowed_domains",
       .help = "Domains whose verified mail addresses may sign in, with commas; all by default"},
      {.key = "oidc.allowed_groups",
       .help = "Groups of the provider that may sign in, with commas; all by default. Needs oidc.groups_claim"},
      {.key = "experiments.checkpoint_storage",
       .help = "Where checkpoints of experiments go unless their configuration says it: s3://bucket/prefix, "
               "gs://bucket/prefix, azure://container, or a folder that all nodes share; by default a folder of the "
               "cluster on the head's machine"},
      {.key = "katib.suggestions",
       .help =
           "Services that suggest the trials of Katib's experiments, by name of the algorithm: a map in YAML or JSON "
           "of commands and addresses, or the path of a file with one"},
      {.key = "katib.early_stopping", .help = "Services of early stopping for Katib's experiments, likewise"},
      {.key = "num_cpus",
       .kind = kReal,
       .help = "CPUs to offer; by default those that this process may use",
       .min = 0,
       .max = 1e6},
      {.key = "num_gpus",
       .kind = kInteger,
       .help = "GPUs to offer; by default those that are found",
       .min = 0,
       .max = 1024},
      {.key = "memory",
       .kind = kBytes,
       .help = "Memory to offer; by default the machine's, or the limit of the container",
       .min = 0},
      {.key = "object_store_memory",
       .kind = kBytes,
       .help = "Memory for objects of volador::put; 30 % of the node's memory by default",
       .min = 0},
      {.key = "object_spill_limit",
       .kind = kBytes,
       .help = "Disk space for objects that do not fit into --object-store-memory; half of the free space by default, "
               "0 keeps objects off the disk",
       .min = 0},
      {.key = "object_spill_directory",
       .help = "Folder for objects on disk, on a fast disk; by default in the node's own folder"},
      {.key = "memory_threshold",
       .kind = kReal,
       .default_value = "0.95",
       .help =
           "Share of the machine's memory in use at which the largest actor that can be made again is ended; 0: never",
       .min = 0,
       .max = 1},
      {.key = "cgroups",
       .default_value = "auto",
       .help = "Whether actors and jobs get control groups, which hold them to the memory they asked for and end all "
               "of their processes: auto (where the machine permits it) or off",
       .choices = {"auto", "off"}},
      {.key = "processes_per_actor",
       .kind = kInteger,
       .default_value = "4096",
       .help = "Processes and threads that one actor or rank of a job may have, with --cgroups=auto; 0: no limit",
       .min = 0,
       .max = 4'000'000},
      {.key = "health_check",
       .help = "Program that inspects this node: each line that it prints is a problem, `gpu 1: text` of that GPU, "
               "another line of the node; nothing new is placed there until it prints none"},
      {.key = "health_check_interval",
       .kind = kDuration,
       .default_value = "30s",
       .help = "How often the program of --health-check runs",
       .min = 0.1,
       .max = 86'400},
      {.key = "health_check_timeout",
       .kind = kDuration,
       .default_value = "10s",
       .help = "How long the program of --health-check may run; then it is ended, which is a problem as well",
       .min = 0.1,
       .max = 3'600},
      {.key = "resources", .kind = kPairs, .default_value = "", .help = "Further resources to offer, name=amount"},
      {.key = "labels", .kind = kPairs, .default_value = "", .help = "Labels of this node, name=value"},
      {.key = "store", .default_value = "sqlite", .help = "Where the head journals: sqlite, or redis://host:port"},
      {.key = "durability",
       .default_value = "process",
       .help = "What an acknowledged fact survives: process (any kill) or power (a power cut as well, slower)",
       .choices = {"process", "power"}},
      {.key = "heartbeat",
       .kind = kDuration,
       .default_value = "500ms",
       .help = "How often a worker is heard",
       .min = 0.05,
       .max = 60},
      {.key = "lease",
       .kind = kDuration,
       .default_value = "3.5s",
       .help = "How long a node may stay unheard before its actors park",
       .min = 0.2,
       .max = 600},
      {.key = "reconnect_window",
       .kind = kDuration,
       .default_value = "10s",
       .help = "How long a restarted head waits for its workers before it places actors again",
       .min = 0.2,
       .max = 3600},
      {.key = "log.level",
       .default_value = "info",
       .help = "Lines that head and worker log",
       .choices = {"debug", "info", "warn", "error"}},
  };
  return settings;
}

Result<std::string> token_setting(const Config& config) {
  // The more direct source wins: flag over environment over file.
  const bool from_file =
      config.is_set("token_file") && (!config.is_set("token") || config.source("token_file") > config.source("token"));
  if (!from_file) return config.is_set("token") ? config.text("token") : std::string();
  auto text = read_file_limited(config.text("token_file"), kTokenFileBytesMax);
  if (!text)
    return make_error(text.error().code, fmt::format("{} ({})", text.error().message, config.origin("token_file")));
  while (!text->empty() && (text->back() == '\n' || text->back() == '\r' || text->back() == ' ')) text->pop_back();
  return *text;
}

bool is_cluster_named(const Config& config) {
  return config.is_set("cluster") &&
         (!config.is_set("address") || config.source("cluster") >= config.source("address"));
}

}  // namespace volador
