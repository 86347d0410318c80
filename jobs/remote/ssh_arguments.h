// Command line of ssh and rsh, as launchers of distributed programs write it.
// Pure: no clock, thread, I/O or randomness.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/result.h"

namespace volador::jobs {

struct SshArguments {
  std::string host;          // Without a user.
  std::string command_line;  // For a shell: the words after the host, with spaces in between.
  bool input = true;         // False: the command reads nothing (-n).
};

// Parses the words behind `ssh` or `rsh`. Options before and after the host are skipped with their values: those that
// concern keys, ports, users, terminals and verbosity have no meaning inside a job.
// kInvalidArgument: there is no host or no command, or an option asks for something else than to run a command
// (forwarding, a subsystem, the version). The message says what is possible.
Result<SshArguments> parse_ssh_arguments(const std::vector<std::string>& words);

// A node of the job as its ranks know it.
struct Peer {
  std::string name;     // "server2".
  std::string node;     // Name in the cluster.
  std::string address;  // Empty: unknown.
};

// The rank of the peer with this name, node name or address. localhost is the asking rank. If several of one node
// match, it is the asking one, else the first. No value: there is none, or several nodes have this address.
std::optional<size_t> find_peer(const std::vector<Peer>& peers, size_t own_rank, std::string_view host);
// "server1 (west, 10.0.0.1), server2 (east, 10.0.0.2)".
std::string list_of_peers(const std::vector<Peer>& peers);
// Content of /etc/hosts with the peers: the lines of `before`, then a line for each peer with an address. Peers are also
// known by the host name of their sandbox.
std::string hosts_file(std::string_view before, const std::vector<Peer>& peers, std::string_view job);

// Environment variables by which the launchers of OpenMPI, MPICH, Intel MPI and DeepSpeed use the ssh in the folder, and
// without which they would not work there.
std::map<std::string, std::string> remote_environment(const std::string& folder);

}  // namespace volador::jobs
