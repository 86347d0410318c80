// Command line of bubblewrap that runs a job's command in namespaces of its own: the host's files read-only, the job's
// folders writable, private /tmp, /dev and /proc.
// Pure: no clock, thread, I/O or randomness.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/result.h"

namespace volador::jobs {

// A file or folder of the host that the job sees at another path.
struct Mount {
  std::string source;
  std::string target;  // A relative path is below the working directory.
  bool read_only = false;
  bool copied = false;  // The job reads a copy on the node's disk instead of the source (jobs/data).
  // Open descriptor (O_PATH) of the source, inherited by bwrap, or -1. A path is opened by bwrap, which follows
  // symbolic links on the host; for a path that a user controls, open it beneath the user's folder (openat2,
  // RESOLVE_BENEATH) and pass the descriptor.
  int source_fd = -1;

  bool operator==(const Mount&) const = default;
};

// Parses "/source:/target", with ":ro" (read-only), ":rw" or ":copy" (read-only and copied) at the end. Removes repeated and final slashes.
// kInvalidArgument: the source is not absolute, the target is the working directory, "/", or in /proc or /dev, a path
// is empty or contains "..", or the option is unknown. The message has the text and the rule.
Result<Mount> parse_mount(std::string_view text);

// An existing file, folder or symbolic link of the host.
struct RootEntry {
  std::string path;
  std::string symlink_target = {};  // Empty: not a link.
  std::string source = {};          // Where the host has it; empty: at `path`.
};

// User that runs the command. bwrap runs as root and makes no user namespace.
struct SandboxUser {
  uint32_t uid = 0;
  uint32_t gid = 0;
  std::vector<uint32_t> groups = {};  // Supplementary groups.
  std::string setpriv = "/usr/bin/setpriv";
};

struct SandboxRequest {
  std::string bwrap = "/usr/bin/bwrap";
  // What the job sees of the host, read-only: normally all entries of "/"; see folders_to_list. Entries in /proc, /dev
  // and /tmp are left out. A socket can be used although it is read-only: leave out /run where it has sockets that a
  // job must not use.
  std::vector<RootEntry> entries;
  std::vector<Mount> mounts;                 // Also the job's own folder. Parents are mounted before their children.
  std::map<std::string, std::string> files;  // Target, such as "/etc/hosts", and source on the host; read-only.
  std::string working_directory;             // Absolute path inside.
  std::string hostname;                      // Empty: the host's name. Needs new_uts.
  int64_t shm_bytes = 4'294'967'296;         // Size of /dev/shm; above 0.
  std::vector<std::string> devices;          // Further device nodes.
  // Numbers of the NVIDIA GPUs: their device nodes are added, and CUDA_VISIBLE_DEVICES counts them from 0, because CUDA
  // numbers only the devices that it can open. Empty: the job sees no GPU. No value: nothing is added or set.
  std::optional<std::vector<int>> gpus;
  std::optional<SandboxUser> user;  // No value: the user that starts bwrap.
  // Whether bwrap, started by the job's user, makes a user namespace; the command cannot make another one.
  bool new_user = false;
  // Whether the command keeps root's capabilities. Only for a bwrap that runs as root of a user namespace already.
  bool keep_capabilities = false;
  bool new_pid = true;
  bool new_ipc = true;
  bool new_uts = true;
  // Whether a terminal is attached; the command then stays in its session, because job control needs it.
  bool terminal = false;
  int filter_fd = -1;  // If not -1, bwrap reads a filter of system calls there (system_call_filter.h).
  int status_fd = -1;  // If not -1, bwrap writes JSON there: child-pid, and exit-code only if the command has run.
  std::vector<std::string> command;
};

// kInvalidArgument: two mounts or files have the same target; or bwrap runs as root (without new_user and
// keep_capabilities) and a target is within a writable mount. There bwrap would follow the user's symbolic links, out
// of the sandbox too, and create files of root on the host.
Result<void> check_targets(const SandboxRequest& request);

// The words of the command line. The root folder is an empty file system in memory with the entries, mounts and files
// of the request, and is read-only itself. bwrap creates missing targets; in a writable mount they remain on the host
// and belong to the user that started bwrap. In a read-only entry or mount it cannot create them, and fails with exit
// code 1 before it runs the command.
std::vector<std::string> bwrap_command(const SandboxRequest& request);

// Folders of the host, parents first, that must not be an entry, because a mount or file of the request has a target in
// it that does not exist: use the entries of the folder instead. For /etc/mpi/hostfile this is /etc, if the host has no
// /etc/mpi. `exists`: whether the host has a path.
std::vector<std::string> folders_to_list(const SandboxRequest& request,
                                         const std::function<bool(const std::string&)>& exists);

}  // namespace volador::jobs
