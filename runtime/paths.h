// Folder layout and permissions of Volador's files, and atomic writes.
//
//   <home>/                                     VOLADOR_HOME, else $XDG_STATE_HOME/volador, else ~/.local/state/volador
//     current                                   name of the cluster started last on this machine
//     logins.json                               where this user is signed in (0600)
//     clusters/<cluster>/
//       access.json                             address, authority's fingerprint and operator token (0600)
//       head/           cluster.json authority.key authority.pem journal.db lock head.log head.pid experiments/
//       nodes/<node>/   node.json node.key node.pem authority.pem worker.log worker.pid logs/
//   <run>/<8 hex of the node's id>/             sockets: $VOLADOR_HOME/run, else $XDG_RUNTIME_DIR/volador, else
//                                               /tmp/volador-<uid>; those of hosts then in /dev/shm/volador-<uid>
//   <cache>/programs/<sha256>                   $VOLADOR_HOME/cache, else $XDG_CACHE_HOME/volador, else ~/.cache/volador
//
// Folders have mode 0700, files with secrets 0600. The free functions access the disk; the classes only form paths.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "runtime/ids.h"
#include "runtime/result.h"

namespace volador {

// Inputs of the layout. Empty strings stand for unset variables.
struct PathEnvironment {
  std::string volador_home;     // VOLADOR_HOME
  std::string home;             // HOME, otherwise the home folder in the user database.
  std::string xdg_state_home;   // XDG_STATE_HOME
  std::string xdg_runtime_dir;  // XDG_RUNTIME_DIR
  std::string xdg_cache_home;   // XDG_CACHE_HOME
  std::string xdg_config_home;  // XDG_CONFIG_HOME
  std::string memory_run;       // For hosts' sockets, see Paths::memory_run.
  uid_t uid = 0;

  // Reads the environment of this process; call once, in main.
  static PathEnvironment of_this_process();
};

// Paths in a head's folder.
struct HeadPaths {
  std::filesystem::path directory;

  std::filesystem::path cluster_json() const { return directory / "cluster.json"; }
  std::filesystem::path authority_key() const { return directory / "authority.key"; }
  std::filesystem::path authority_pem() const { return directory / "authority.pem"; }
  std::filesystem::path journal() const { return directory / "journal.db"; }
  std::filesystem::path lock() const { return directory / "lock"; }
  std::filesystem::path log() const { return directory / "head.log"; }
  std::filesystem::path pid() const { return directory / "head.pid"; }
  // Drivers' experiments, including those of ended drivers.
  std::filesystem::path experiments() const { return directory / "experiments"; }
};

// Paths in a node's folder.
struct NodePaths {
  std::filesystem::path directory;

  std::filesystem::path node_json() const { return directory / "node.json"; }
  std::filesystem::path node_key() const { return directory / "node.key"; }
  std::filesystem::path node_pem() const { return directory / "node.pem"; }
  std::filesystem::path authority_pem() const { return directory / "authority.pem"; }
  std::filesystem::path log() const { return directory / "worker.log"; }
  std::filesystem::path pid() const { return directory / "worker.pid"; }
  std::filesystem::path groups() const { return directory / "cgroups"; }  // Folders of the worker's control groups.
  std::filesystem::path logs() const { return directory / "logs"; }       // Output of hosts.
  std::filesystem::path spill() const { return directory / "spill"; }     // Spilled objects; removed with the worker.
  std::filesystem::path scratch() const {
    return directory / "scratch";
  }  // Working folders of hosts; removed with the worker.
};

// Paths in a cluster's folder.
struct ClusterPaths {
  std::filesystem::path directory;

  HeadPaths head() const { return {directory / "head"}; }
  std::filesystem::path nodes() const { return directory / "nodes"; }
  // `node` must be valid by check_name.
  NodePaths node(std::string_view node) const { return {nodes() / node}; }
  std::filesystem::path access() const { return directory / "access.json"; }
};

// The layout for one environment. Value type.
class Paths {
 public:
  // kInvalidArgument: VOLADOR_HOME is not absolute, or neither it nor HOME is set; names the variable to set.
  [[nodiscard]] static Result<Paths> from(const PathEnvironment& environment);

  const std::filesystem::path& home() const { return home_; }
  std::filesystem::path clusters() const { return home_ / "clusters"; }
  std::filesystem::path current() const { return home_ / "current"; }
  std::filesystem::path logins() const { return home_ / "logins.json"; }
  // `cluster` must be valid by check_name.
  ClusterPaths cluster(std::string_view cluster) const { return {clusters() / cluster}; }

  // Short enough for kSocketNameBytesMax more bytes in a node's folder; create it with make_run_directory.
  const std::filesystem::path& run() const { return run_; }
  std::filesystem::path run_of(const NodeId& node) const { return run_ / short_id(node); }

  // Folder in memory for many short-lived sockets, if run() is on a disk at its default location; empty: use run().
  const std::filesystem::path& memory_run() const { return memory_run_; }
  std::filesystem::path memory_run_of(const NodeId& node) const { return memory_run_ / short_id(node); }

  const std::filesystem::path& cache() const { return cache_; }
  std::filesystem::path programs() const { return cache_ / "programs"; }

  // The user's configuration file: $XDG_CONFIG_HOME/volador/config.yaml, else ~/.config/volador/config.yaml.
  const std::filesystem::path& user_config() const { return user_config_; }

 private:
  std::filesystem::path home_, run_, memory_run_, cache_, user_config_;
};

// Maximum length of a socket's name in run_of(node), so that the whole path fits the 108 bytes of sockaddr_un.
inline constexpr size_t kSocketNameBytesMax = 40;

// Names of clusters and nodes become folder and server names: 1 to 63 letters, digits, '-', '_' and '.', starting with
// a letter or digit. kInvalidArgument: names `what`, the name and the rule.
[[nodiscard]] Result<void> check_name(std::string_view what, std::string_view name);

// Creates the folder and its missing parents with mode 0700. An existing folder is unchanged.
[[nodiscard]] Result<void> make_private_directory(const std::filesystem::path& directory);

// As make_private_directory, for the socket folder, which may be in /tmp: rejects one that is a link or owned by
// another user (kPermissionDenied) and removes other users' permissions.
[[nodiscard]] Result<void> make_run_directory(const std::filesystem::path& directory, uid_t uid);

// Writes a temporary file next to `path`, syncs it, renames it to `path` and syncs the folder: after a crash the file
// is either the old or the new one. Leaves no temporary file after an error. The folder must exist. kUnavailable: no
// space left; kPermissionDenied: not owned or read-only; kNotFound: no such folder. The message names the file.
[[nodiscard]] Result<void> write_file_atomic(const std::filesystem::path& path, std::string_view bytes, mode_t mode);

// Removes temporary files of write_file_atomic left by a killed writer. The caller must have locked the folder: files
// of another active writer would be removed as well.
void remove_half_written(const std::filesystem::path& directory);

// Reads the whole file. kNotFound; kPermissionDenied; kInvalidArgument: longer than bytes_max, or not a regular file.
[[nodiscard]] Result<std::string> read_file_limited(const std::filesystem::path& path, size_t bytes_max);

// Error of a failed system call on a file: "cannot <action> <path>: <reason>; <next step>", with a code for the errno.
Error file_error(std::string_view action, const std::filesystem::path& path, int error_number);

}  // namespace volador
