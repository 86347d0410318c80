// The node agent: joins a cluster, runs and watches hosts and reports, until it is stopped. Runs in the calling
// process, which should do nothing else: it becomes a subreaper and handles SIGTERM and SIGINT.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "runtime/log.h"
#include "runtime/paths.h"
#include "runtime/resources.h"
#include "runtime/result.h"

namespace volador::worker {

// Settings of the user; other values are discovered.
struct ResourceOverrides {
  std::optional<double> cpus;     // --num-cpus
  std::optional<int> gpus;        // --num-gpus: fewer than found: the first ones; more: adds simulated ones.
  std::optional<int64_t> memory;  // --memory, bytes.
  std::optional<int64_t> object_store_memory;  // --object-store-memory, bytes; default: 30 % of the node's memory.
  std::optional<int64_t> object_spill_limit;   // --object-spill-limit, bytes; default: half of the free space; 0: none.
  std::string object_spill_directory;          // --object-spill-directory, absolute; default: a folder of the node.
  std::map<std::string, double> custom;        // --resources
};

// Options of run_worker().
struct WorkerOptions {
  Paths paths;
  std::string cluster_name;  // For the state folder; empty: the name from the head when this node joins.
  std::string node_name;     // Empty: the machine's host name.
  std::string head_address;  // host:port.
  std::string token;         // Join token. Empty: the certificate of an earlier join is used.
  std::string bind_address;  // Data port, numeric. Empty: the address from which this machine reaches the head.
  uint16_t data_port = 0;    // 0: a free one.
  ResourceOverrides resources;
  std::map<std::string, std::string> labels;
  double memory_threshold = 0.95;      // --memory-threshold: use at which the largest actor is ended; 0: never.
  bool cgroups = true;                 // --cgroups: hosts get control groups where the machine permits them.
  int64_t processes_per_actor = 4096;  // --processes-per-actor: processes and threads of a host; 0: no limit.
  std::string health_check;            // --health-check: absolute path of a program; empty: none.
  std::chrono::milliseconds health_check_interval{30'000};
  std::chrono::milliseconds health_check_timeout{10'000};
  // End-of-file on it stops the node (private local clusters: the driver holds the other end). -1: none.
  int parent_fd = -1;
  bool log_to_file = true;  // nodes/<name>/worker.log, else stderr.
  log::Level log_level = log::Level::kInfo;
  // Called once, when the head has accepted the registration; on another thread, briefly.
  std::function<void(const std::string& node_name, const std::string& data_address)> on_ready = {};
  // Called once if the head does not answer for a second: what is tried, why it failed, for how long. On any thread,
  // briefly.
  std::function<void(const std::string& text)> on_waiting = {};
};

// Exit codes of run_worker: 0 stopped on request · 1 internal error · 2 invalid options, including those that only the
// head can check (name in use, version) · 3 the head is unreachable · 4 token or certificate rejected · 5 role not
// permitted; the reason is on stderr.
enum class WorkerExit : int {
  kStopped = 0,
  kFailed = 1,
  kBadOptions = 2,
  kUnreachable = 3,
  kRefused = 4,
  kForbidden = 5
};

// Returns when the node has stopped; every host and its children are gone by then. Create no thread before calling it.
// Takes over the signals SIGTERM and SIGINT of this process.
[[nodiscard]] WorkerExit run_worker(WorkerOptions options);

}  // namespace volador::worker
