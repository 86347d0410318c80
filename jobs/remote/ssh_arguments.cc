#include "jobs/remote/ssh_arguments.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <map>
#include <utility>

#include "runtime/text.h"

namespace volador::jobs {

namespace {

constexpr std::string_view kWithValue = "BbcDEeFIiJLlmOoPpQRSWw";
constexpr std::string_view kRefused = "DfGLNOQRsVWw";

std::string_view meaning_of(char option) {
  switch (option) {
    case 'D':
    case 'L':
    case 'R':
    case 'W':
    case 'w':
      return "forwards connections; the nodes of a job reach each other directly";
    case 'f':
      return "goes to the background; write & behind the command";
    case 's':
      return "starts a subsystem such as sftp; copy files with tar: tar c FILES | ssh HOST tar x";
    case 'N':
      return "runs no command";
    default:
      return "runs no command; this ssh belongs to the job and has neither versions nor settings";
  }
}

tl::unexpected<Error> refuse_ssh(std::string what) {
  return make_error(ErrorCode::kInvalidArgument,
                    fmt::format("ssh: {}; inside a job it runs commands on the nodes of the job: ssh HOST COMMAND…",
                                std::move(what)));
}

}  // namespace

Result<SshArguments> parse_ssh_arguments(const std::vector<std::string>& words) {
  SshArguments parsed;
  size_t i = 0;
  bool options_ended = false;
  for (; i < words.size(); ++i) {
    const std::string& word = words[i];
    if (!options_ended && word == "--") {
      options_ended = true;
      continue;
    }
    if (!options_ended && word.size() > 1 && word[0] == '-') {
      for (size_t at = 1; at < word.size(); ++at) {
        const char option = word[at];
        if (kRefused.find(option) != std::string_view::npos)
          return refuse_ssh(fmt::format("-{} {}", option, meaning_of(option)));
        if (option == 'n') parsed.input = false;
        if (kWithValue.find(option) == std::string_view::npos) continue;
        if (at + 1 == word.size() && ++i == words.size())
          return refuse_ssh(fmt::format("-{} needs a value and is the last word", option));
        break;  // The rest of the word is the value.
      }
      continue;
    }
    if (!parsed.host.empty()) break;
    parsed.host = word.substr(word.rfind('@') + 1);
    if (parsed.host.empty()) return refuse_ssh(fmt::format("\"{}\" has no host", word));
  }
  if (parsed.host.empty()) return refuse_ssh("expected a host, got none");
  for (; i < words.size(); ++i) {
    if (!parsed.command_line.empty()) parsed.command_line += ' ';
    parsed.command_line += words[i];
  }
  if (parsed.command_line.find_first_not_of(" \t\n") == std::string::npos)
    return refuse_ssh(fmt::format("expected a command for {}, got none; there are no interactive shells", parsed.host));
  return parsed;
}

std::optional<size_t> find_peer(const std::vector<Peer>& peers, size_t own_rank, std::string_view host) {
  if (host == "localhost" && own_rank < peers.size()) return own_rank;
  for (const auto field : {&Peer::name, &Peer::node, &Peer::address}) {
    const auto is_it = [&](const Peer& peer) { return !host.empty() && equal_without_case(peer.*field, host); };
    const auto found = std::ranges::find_if(peers, is_it);
    if (found == peers.end()) continue;
    const auto is_elsewhere = [&](const Peer& peer) { return is_it(peer) && peer.node != found->node; };
    if (std::ranges::any_of(peers, is_elsewhere)) return std::nullopt;
    if (own_rank < peers.size() && is_it(peers[own_rank])) return own_rank;
    return static_cast<size_t>(found - peers.begin());
  }
  return std::nullopt;
}

std::string list_of_peers(const std::vector<Peer>& peers) {
  std::string text;
  for (const Peer& peer : peers) {
    text += fmt::format("{}{} ({}{}{})", text.empty() ? "" : ", ", peer.name, peer.node,
                        peer.address.empty() ? "" : ", ", peer.address);
  }
  return text;
}

std::string hosts_file(std::string_view before, const std::vector<Peer>& peers, std::string_view job) {
  std::string text(before);
  if (!text.empty() && text.back() != '\n') text += '\n';
  for (size_t rank = 0; rank < peers.size(); ++rank) {
    if (peers[rank].address.empty()) continue;
    text += fmt::format("{} {} {}-{}\n", peers[rank].address, peers[rank].name, job, rank);
  }
  return text;
}

std::map<std::string, std::string> remote_environment(const std::string& folder) {
  const std::string ssh = folder + "/ssh";
  return {
      {"OMPI_MCA_plm_rsh_agent", "ssh"},  // By name: mpirun tells it to all nodes, and its path differs by node.
      // The first node starts all daemons.
      {"OMPI_MCA_plm_rsh_no_tree_spawn", "1"},
      // A daemon in the background would outlive its command, with which a sandbox ends; so all stay connected.
      {"OMPI_MCA_orte_leave_session_attached", "1"},
      {"OMPI_MCA_plm_rsh_num_concurrent", "1024"},
      // Names are not looked up: only isolated jobs have them in /etc/hosts, and nodes may share an address.
      {"OMPI_MCA_if_base_do_not_resolve", "1"},
      {"HYDRA_LAUNCHER", "ssh"},
      {"HYDRA_LAUNCHER_EXEC", ssh},
      {"I_MPI_HYDRA_BOOTSTRAP", "ssh"},
      {"I_MPI_HYDRA_BOOTSTRAP_EXEC", ssh},
      {"PDSH_RCMD_TYPE", "ssh"},
  };
}

}  // namespace volador::jobs
