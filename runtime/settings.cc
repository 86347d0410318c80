#include "runtime/settings.h"

#include <vector>

namespace volador {

std::span<const Setting> volador_settings() {
  using enum SettingKind;
  static const std::vector<Setting> settings{
      {.key = "address", .help = "host:port of the head to join or to ask"},
      {.key = "token", .kind = kSecret, .help = "Token that the head printed, vt1.…"},
      {.key = "token_file", .help = "File that holds the token"},
      {.key = "cluster", .help = "Name of the cluster; start --head makes one up where none is given"},
      {.key = "name", .help = "Name of this node; the host name where none is given"},
      {.key = "bind",
       .default_value = "127.0.0.1",
       .help = "Address to serve on; auto takes the one that leads to the network, 127.0.0.1 serves this machine only"},
      {.key = "port",
       .kind = kInteger,
       .default_value = "6380",
       .help = "TCP port of the head; 0 takes a free one",
       .min = 0,
       .max = 65535},
      {.key = "num_cpus",
       .kind = kReal,
       .help = "CPUs to offer; those that this machine may use where not given",
       .min = 0,
       .max = 1e6},
      {.key = "num_gpus",
       .kind = kInteger,
       .help = "GPUs to offer; those found where not given",
       .min = 0,
       .max = 1024},
      {.key = "memory",
       .kind = kBytes,
       .help = "Memory to offer; that of the machine or its limit where not given",
       .min = 0},
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

}  // namespace volador
