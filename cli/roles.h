// Main functions of the daemons that `volador start` creates: head and worker.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "cli/outcome.h"
#include "head/sign_on/sign_on_options.h"
#include "runtime/config.h"
#include "runtime/outgoing/retry.h"
#include "runtime/paths.h"
#include "runtime/security/own_certificate.h"

namespace volador::cli {

struct HeadSettings {
  std::string cluster;
  std::string bind;  // An address of this machine.
  uint16_t port = 0;
  std::string store;
  bool force_store = false;
  bool survive_power_cut = false;
  std::chrono::milliseconds heartbeat{500};
  std::chrono::milliseconds lease{3500};
  std::chrono::milliseconds reconnect_window{10'000};
  std::string log_level;
  bool dashboard = true;
  uint16_t dashboard_port = 0;                               // 0: the previous port, or a free one.
  std::string public_url;                                    // URL of a proxy in front of the dashboard.
  std::optional<security::OwnCertificateFiles> certificate;  // Certificate of the dashboard provided by the user.
  std::optional<outgoing::Webhook> alerts;
  std::string alert_secret;
  std::string katib_suggestions, katib_early_stopping;  // See katib_service_entries().
  std::string checkpoint_storage;  // For experiments: an address or an absolute folder; empty: a folder of the cluster.
  std::optional<head::SignOnOptions> sign_on;  // Sign-in by an OpenID Connect provider.
};

struct HeadReady {
  std::string address;
  std::string login_link;    // Signs in at the dashboard, once; empty: not available.
  std::string join_token;    // For machines.
  std::string driver_token;  // For programs elsewhere.
};

struct WorkerSettings {
  std::string cluster;  // Empty: the cluster that the head reports.
  std::string node;     // Empty: the host name.
  std::string head_address;
  std::string token;
  std::string bind;
  std::optional<double> cpus;
  std::optional<int> gpus;
  std::optional<int64_t> memory;
  std::optional<int64_t> object_store_memory;
  std::optional<int64_t> object_spill_limit;
  std::string object_spill_directory;
  double memory_threshold = 0.95;
  bool cgroups = true;
  int64_t processes_per_actor = 4096;
  std::string health_check;  // Absolute; empty: none.
  std::chrono::milliseconds health_check_interval{30'000};
  std::chrono::milliseconds health_check_timeout{10'000};
  std::map<std::string, double> custom;
  std::map<std::string, std::string> labels;
  std::string log_level;
};

struct WorkerReady {
  std::string node;
  std::string data_address;
};

// Run the daemon until it is stopped; return the process's exit code. Each calls `ready` once.
int live_as_head(const Paths& paths, const HeadSettings& settings, const std::function<void(const HeadReady&)>& ready);
// waiting: called once if the head does not answer for a second.
int live_as_worker(const Paths& paths, const WorkerSettings& settings,
                   const std::function<void(const WorkerReady&)>& ready,
                   const std::function<void(const std::string&)>& waiting);

// Failure of the command for a daemon that did not start: by its exit code, with the message of `error`.
Failure failure_of_head(Error error);
Failure failure_of_worker(int code, Error error);

// kUsage: an amount of --resources is not a number.
[[nodiscard]] tl::expected<HeadSettings, Failure> head_settings(const Config& config);
[[nodiscard]] tl::expected<WorkerSettings, Failure> worker_settings(const Config& config);

}  // namespace volador::cli
