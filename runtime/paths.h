// Where Volador keeps its files: the layout of folders, who may read them, and writing them so that a crash leaves the
// old or the new content, never half of one.
//
//   <home>/                                     VOLADOR_HOME, else $XDG_STATE_HOME/volador, else ~/.local/state/volador
//     current                                   name of the cluster started last on this machine
//     clusters/<cluster>/
//       access.json                             address, authority's fingerprint and operator token for this user's
//       programs (0600) head/     cluster.json authority.key authority.pem journal.db lock head.log head.pid
//                                 experiments/
//       nodes/<node>/   node.json node.key node.pem authority.pem worker.log worker.pid logs/
//   <run>/<8 hex of the node's id>/             sockets: $VOLADOR_HOME/run, else $XDG_RUNTIME_DIR/volador, else
//                                               /tmp/volador-<uid>; those of hosts then in /dev/shm/volador-<uid>
//   <cache>/programs/<sha256>                   $VOLADOR_HOME/cache, else $XDG_CACHE_HOME/volador, else ~/.cache/volador
//
// Folders are 0700, files with secrets 0600. The functions below the classes touch the disk, the classes only name
// things.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "runtime/ids.h"
#include "runtime/result.h"

namespace volador {

// Everything that decides where files lie. Empty strings stand for variables that are not set.
struct PathEnvironment {
  std::string volador_home;     // VOLADOR_HOME
  std::string home;             // HOME, else the home folder of the user database.
  std::string xdg_state_home;   // XDG_STATE_HOME
  std::string xdg_runtime_dir;  // XDG_RUNTIME_DIR
  std::string xdg_cache_home;   // XDG_CACHE_HOME
  std::string xdg_config_home;  // XDG_CONFIG_HOME
  std::string memory_run;       // Of hosts' sockets, see Paths::memory_run.
  uid_t uid = 0;

  // Of this process; read it once, in main.
  static PathEnvironment of_this_process();
};

struct HeadPaths {
  std::filesystem::path directory;

  std::filesystem::path cluster_json() const { return directory / "cluster.json"; }
  std::filesystem::path authority_key() const { return directory / "authority.key"; }
  std::filesystem::path authority_pem() const { return directory / "authority.pem"; }
  std::filesystem::path journal() const { return directory / "journal.db"; }
  std::filesystem::path lock() const { return directory / "lock"; }
  std::filesystem::path log() const { return directory / "head.log"; }
  std::filesystem::path pid() const { return directory / "head.pid"; }
  std::filesystem::path experiments() const { return directory / "experiments"; }  // Of drivers, also those that are gone.
};

struct NodePaths {
  std::filesystem::path directory;

  std::filesystem::path node_json() const { return directory / "node.json"; }
  std::filesystem::path node_key() const { return directory / "node.key"; }
  std::filesystem::path node_pem() const { return directory / "node.pem"; }
  std::filesystem::path authority_pem() const { return directory / "authority.pem"; }
  std::filesystem::path log() const { return directory / "worker.log"; }
  std::filesystem::path pid() const { return directory / "worker.pid"; }
  std::filesystem::path logs() const { return directory / "logs"; }    // Output of hosts.
  std::filesystem::path spill() const { return directory / "spill"; }  // Objects that left memory; gone with the worker.
  std::filesystem::path scratch() const {
    return directory / "scratch";
  }  // Their working folders; gone with the worker.
};

struct ClusterPaths {
  std::filesystem::path directory;

  HeadPaths head() const { return {directory / "head"}; }
  std::filesystem::path nodes() const { return directory / "nodes"; }
  // `node` passed check_name.
  NodePaths node(std::string_view node) const { return {nodes() / node}; }
  std::filesystem::path access() const { return directory / "access.json"; }
};

// The layout for one environment. A value; copies freely.
class Paths {
 public:
  // kInvalidArgument: VOLADOR_HOME is not absolute, or neither it nor HOME is set; says which variable to set.
  [[nodiscard]] static Result<Paths> from(const PathEnvironment& environment);

  const std::filesystem::path& home() const { return home_; }
  std::filesystem::path clusters() const { return home_ / "clusters"; }
  std::filesystem::path current() const { return home_ / "current"; }
  // `cluster` passed check_name.
  ClusterPaths cluster(std::string_view cluster) const { return {clusters() / cluster}; }

  // Short enough for kSocketNameBytesMax more bytes below a node's folder; make it with make_run_directory.
  const std::filesystem::path& run() const { return run_; }
  std::filesystem::path run_of(const NodeId& node) const { return run_ / short_id(node); }

  // For many short-lived sockets, where run() lies on a disk and nobody said where it is to lie; empty: they belong into run().
  const std::filesystem::path& memory_run() const { return memory_run_; }
  std::filesystem::path memory_run_of(const NodeId& node) const { return memory_run_ / short_id(node); }

  const std::filesystem::path& cache() const { return cache_; }
  std::filesystem::path programs() const { return cache_ / "programs"; }

  // The user's configuration file: $XDG_CONFIG_HOME/volador/config.yaml, else ~/.config/volador/config.yaml.
  const std::filesystem::path& user_config() const { return user_config_; }

 private:
  std::filesystem::path home_, run_, memory_run_, cache_, user_config_;
};

// A socket's name below run_of(node): at most this long, so that the whole path fits the 108 bytes of sockaddr_un.
inline constexpr size_t kSocketNameBytesMax = 40;

// Names of clusters and nodes become folders and server names: 1 to 63 letters, digits, '-', '_' and '.', a letter or
// digit first. kInvalidArgument: names `what`, the name and the rule.
[[nodiscard]] Result<void> check_name(std::string_view what, std::string_view name);

// Makes the folder and those above it that are missing, 0700 each. A folder that exists is left as it is.
[[nodiscard]] Result<void> make_private_directory(const std::filesystem::path& directory);

// The same for the folder of sockets, which may lie in /tmp: refuses one that is a link or belongs to another user
// (kPermissionDenied) and takes other users' permissions away.
[[nodiscard]] Result<void> make_run_directory(const std::filesystem::path& directory, uid_t uid);

// Writes a temporary file beside `path`, syncs it, renames it over `path` and syncs the folder: after a crash the file
// is the old one or the new one. Leaves no temporary file behind on an error. The folder must exist. kUnavailable: no
// space left; kPermissionDenied: not ours or read-only; kNotFound: no such folder. The message names the file.
[[nodiscard]] Result<void> write_file_atomic(const std::filesystem::path& path, std::string_view bytes, mode_t mode);

// Removes the temporary files of write_file_atomic that a killed writer left in the folder. For a folder that the
// caller has locked: another writer's would go as well.
void remove_half_written(const std::filesystem::path& directory);

// The whole file. kNotFound; kPermissionDenied; kInvalidArgument: longer than bytes_max, or no regular file.
[[nodiscard]] Result<std::string> read_file_limited(const std::filesystem::path& path, size_t bytes_max);

// The error of a failed system call on a file: "cannot <action> <path>: <reason>; <next step>", with the code that fits
// the errno.
Error file_error(std::string_view action, const std::filesystem::path& path, int error_number);

}  // namespace volador
