#include "jobs/launch/launch.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <optional>
#include <set>
#include <span>
#include <utility>

#include "jobs/launch/command_check.h"
#include "runtime/nearest_word.h"

namespace volador::jobs {

namespace {

constexpr std::array<std::pair<LaunchMode, std::string_view>, 7> kLaunchModeNames = {{
    {LaunchMode::kSingle, "single"},
    {LaunchMode::kTorch, "torch"},
    {LaunchMode::kTorchrun, "torchrun"},
    {LaunchMode::kHorovod, "horovod"},
    {LaunchMode::kMpi, "mpi"},
    {LaunchMode::kDeepSpeed, "deepspeed"},
    {LaunchMode::kTensorFlow, "tensorflow"},
}};

using LaunchWords = std::vector<std::string>;

tl::unexpected<Error> invalid_launch(std::string message) {
  return make_error(ErrorCode::kInvalidArgument, std::move(message));
}

std::string_view basename_of(std::string_view path) { return path.substr(path.rfind('/') + 1); }

bool uses_mpi(LaunchMode mode) { return mode == LaunchMode::kHorovod || mode == LaunchMode::kMpi; }
bool has_hostfile(LaunchMode mode) { return uses_mpi(mode) || mode == LaunchMode::kDeepSpeed; }

bool has_master(const LaunchRequest& request) {
  switch (request.mode) {
    case LaunchMode::kTorch:
    case LaunchMode::kTorchrun:
    case LaunchMode::kDeepSpeed:
      return true;
    case LaunchMode::kSingle:
      return request.hosts.size() > 1;
    case LaunchMode::kHorovod:
    case LaunchMode::kMpi:
    case LaunchMode::kTensorFlow:
      return false;
  }
  return false;
}

bool is_host(std::string_view host) {
  const auto accepted = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
           std::string_view("-._:%").find(c) != std::string_view::npos;
  };
  return !host.empty() && host[0] != '-' && std::ranges::all_of(host, accepted);
}

Result<void> check_hosts(const LaunchRequest& request) {
  if (request.hosts.empty())
    return invalid_launch("hosts: expected the host of each node, got none; a job has at least one node");
  const bool distinct = has_hostfile(request.mode);
  std::set<std::string_view> seen;
  for (const std::string& host : request.hosts) {
    if (!is_host(host)) {
      return invalid_launch(
          fmt::format("hosts: expected a host name or address (letters, digits and -._:%), got \"{}\"", host));
    }
    if (uses_mpi(request.mode) && host.find(':') != std::string::npos) {
      return invalid_launch(
          fmt::format("hosts: mode {} writes host:slots, so a host cannot contain \":\", got \"{}\"; use the "
                      "name of the node",
                      to_string(request.mode), host));
    }
    if (!seen.insert(host).second && distinct) {
      return invalid_launch(
          fmt::format("hosts: mode {} needs a different host for each node, got \"{}\" twice; give each node "
                      "a name of its own",
                      to_string(request.mode), host));
    }
  }
  return {};
}

Result<void> check_request(const LaunchRequest& request) {
  VOLADOR_TRY(check_command(request.command));
  VOLADOR_TRY(check_hosts(request));
  const std::string_view mode = to_string(request.mode);
  const auto nodes = static_cast<int64_t>(request.hosts.size());
  if (request.slots < 1) {
    return invalid_launch(
        fmt::format("slots: expected at least 1 per node, got {}; a node without GPUs has 1", request.slots));
  }
  if (request.rank < 0 || request.rank >= nodes) {
    return invalid_launch(
        fmt::format("rank: expected 0 to {} for a job of {} nodes, got {}", nodes - 1, nodes, request.rank));
  }
  if (request.parameter_servers != 0 && request.mode != LaunchMode::kTensorFlow) {
    return invalid_launch(
        fmt::format("parameter_servers: only mode tensorflow has parameter servers, got {} for mode {}; set 0 "
                    "or change the mode",
                    request.parameter_servers, mode));
  }
  if (request.parameter_servers < 0 || request.parameter_servers >= nodes) {
    return invalid_launch(
        fmt::format("parameter_servers: expected 0 to {} for a job of {} nodes, so that at least one node is "
                    "a worker, got {}",
                    nodes - 1, nodes, request.parameter_servers));
  }
  const bool needs_port = has_master(request) || request.mode == LaunchMode::kTensorFlow;
  if (needs_port && (request.master_port < 1 || request.master_port > 65535)) {
    return invalid_launch(fmt::format("master_port: expected 1 to 65535, got {}", request.master_port));
  }
  const int64_t last_shared = request.shared_port + nodes - 2;
  if (request.mode == LaunchMode::kTensorFlow && (request.shared_port < 1 || last_shared > 65535)) {
    return invalid_launch(fmt::format("shared_port: expected 1 to {} for {} ranks, got {}", 65535 - (nodes - 2), nodes,
                                      request.shared_port));
  }
  if (has_hostfile(request.mode) && !request.file_root.starts_with('/')) {
    return invalid_launch(
        fmt::format("file_root: mode {} needs the absolute path of the folder with its host file, got \"{}\"", mode,
                    request.file_root));
  }
  return {};
}

// A python command, split where the launcher goes in between.
struct PythonCommand {
  LaunchWords interpreter;  // The interpreter and its options.
  LaunchWords program;      // The script, or -m and the module, and the arguments.
};

// Options of CPython: -c and -m end them, -W and -X take a value, which may be attached; flags may share a dash.
// Nothing: there is no script and no module, or the program is read from -c or the standard input.
std::optional<PythonCommand> split_python(const LaunchWords& command) {
  PythonCommand split{.interpreter = {command[0]}, .program = {}};
  size_t i = 1;
  const auto rest_from = [&](size_t index) {
    split.program.insert(split.program.end(), command.begin() + static_cast<ptrdiff_t>(index), command.end());
    return split;
  };
  for (; i < command.size(); ++i) {
    const std::string& word = command[i];
    if (word == "-" || word.empty()) return std::nullopt;
    if (word == "--") {
      ++i;
      break;
    }
    if (word[0] != '-') break;
    if (word.starts_with("--")) {
      split.interpreter.push_back(word);
      if (word == "--check-hash-based-pycs" && i + 1 < command.size()) split.interpreter.push_back(command[++i]);
      continue;
    }
    const size_t letter = word.find_first_of("cmWX", 1);
    if (letter == std::string::npos) {
      split.interpreter.push_back(word);
    } else if (word[letter] == 'c') {
      return std::nullopt;
    } else if (word[letter] == 'm') {
      if (letter > 1) split.interpreter.push_back(word.substr(0, letter));
      const bool attached = letter + 1 < word.size();
      if (!attached && i + 1 == command.size()) return std::nullopt;
      split.program = {"-m"};
      if (attached) split.program.push_back(word.substr(letter + 1));
      return rest_from(i + 1);
    } else {
      split.interpreter.push_back(word);
      if (letter + 1 == word.size() && i + 1 < command.size()) split.interpreter.push_back(command[++i]);
    }
  }
  if (i >= command.size()) return std::nullopt;
  return rest_from(i);
}

// Command of torch and torchrun.
Result<LaunchWords> torch_command(const LaunchRequest& request) {
  const std::string_view program = basename_of(request.command[0]);
  const bool distributed = std::ranges::any_of(request.command, [](const std::string& word) {
    return word.find("torch.distributed.launch") != std::string::npos ||
           word.find("torch.distributed.run") != std::string::npos;
  });
  if (distributed || (program != "python" && program != "python3")) return request.command;
  const std::optional<PythonCommand> split = split_python(request.command);
  if (!split) {
    return invalid_launch(
        fmt::format("command: mode {} starts a script or a module of Python in each process, got \"{}\"; put "
                    "the program into a file, or use mode single",
                    to_string(request.mode), fmt::join(request.command, " ")));
  }
  const bool launch = request.mode == LaunchMode::kTorch;
  LaunchWords words = split->interpreter;
  words.insert(words.end(), {"-m", launch ? "torch.distributed.launch" : "torch.distributed.run"});
  const std::string nodes = fmt::format("--nnodes={}", request.hosts.size());
  const std::string processes = fmt::format("--nproc_per_node={}", request.slots);
  words.push_back(launch ? processes : nodes);
  words.push_back(launch ? nodes : processes);
  words.push_back(fmt::format("--node_rank={}", request.rank));
  words.push_back(fmt::format("--master_addr={}", request.rank == 0 ? "localhost" : request.hosts[0]));
  words.push_back(fmt::format("--master_port={}", request.master_port));
  words.insert(words.end(), split->program.begin(), split->program.end());
  return words;
}

bool is_mpi_starter(std::string_view word) { return basename_of(word) == "mpirun" || basename_of(word) == "mpiexec"; }

// Whether a word of the command, or of the code for its shell, starts MPI.
bool starts_mpi(const LaunchWords& command) {
  if (std::ranges::any_of(command, is_mpi_starter)) return true;
  const std::optional<size_t> code = shell_code_index(command);
  if (!code) return false;
  static constexpr std::string_view kBreaks = " \t\r\n;&|()`\"'";
  std::string_view rest = command[*code];
  while (!rest.empty()) {
    const size_t end = std::min(rest.find_first_of(kBreaks), rest.size());
    if (is_mpi_starter(rest.substr(0, end))) return true;
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return false;
}

LaunchWords mpi_command(const LaunchRequest& request) {
  if (starts_mpi(request.command)) return request.command;
  const auto processes = static_cast<int64_t>(request.hosts.size()) * request.slots;
  LaunchWords words = {"mpirun",   "--allow-run-as-root",
                       "-np",      std::to_string(processes),
                       "-bind-to", "none",
                       "-map-by",  "slot",
                       "-x",       "NCCL_DEBUG=INFO",
                       "-x",       "LD_LIBRARY_PATH",
                       "-x",       "PATH",
                       "-mca",     "pml",
                       "ob1",      "-mca",
                       "btl",      "^openib"};
  words.insert(words.end(), request.command.begin(), request.command.end());
  return words;
}

LaunchWords deepspeed_command(const LaunchRequest& request, const std::string& root) {
  LaunchWords words = request.command;
  if (basename_of(words[0]) == "deepspeed" && root != "/job/")
    words.insert(words.begin() + 1, "--hostfile=" + root + "hostfile");
  return words;
}

std::string lines_of_hosts(const LaunchRequest& request, std::string_view separator) {
  std::string text;
  for (const std::string& host : request.hosts) text += fmt::format("{}{}{}\n", host, separator, request.slots);
  return text;
}

// "server1:2222" for each rank, with the quotes; a host has no characters that JSON escapes. No two are equal.
LaunchWords tf_addresses(const LaunchRequest& request) {
  LaunchWords quoted;
  std::map<std::string_view, int> ranks;  // By host, so far.
  for (const std::string& host : request.hosts) {
    const int before = ranks[host]++;
    const int port = before == 0 ? request.master_port : request.shared_port + before - 1;
    const bool ipv6 = host.find(':') != std::string::npos;
    quoted.push_back(ipv6 ? fmt::format("\"[{}]:{}\"", host, port) : fmt::format("\"{}:{}\"", host, port));
  }
  return quoted;
}

std::string tf_config(const LaunchRequest& request) {
  const LaunchWords all = tf_addresses(request);
  const std::span<const std::string> addresses = all;
  const auto servers = static_cast<size_t>(request.parameter_servers);
  const std::string ps = servers == 0 ? "" : fmt::format("\"ps\": [{}], ", fmt::join(addresses.first(servers), ", "));
  const bool is_server = request.rank < request.parameter_servers;
  return fmt::format(
      "{{\"cluster\": {{{}\"worker\": [{}]}}, \"task\": {{\"type\": \"{}\", \"index\": {}}}, \"environment\": "
      "\"cloud\"}}",
      ps, fmt::join(addresses.subspan(servers), ", "), is_server ? "ps" : "worker",
      is_server ? request.rank : request.rank - request.parameter_servers);
}

void add_mpi(const LaunchRequest& request, const std::string& root, Launch& launch) {
  launch.files["mpich_hostfile"] = lines_of_hosts(request, ":");
  launch.env["OMPI_MCA_orte_default_hostfile"] = root + "hostfile";
  launch.env["HYDRA_HOST_FILE"] = root + "mpich_hostfile";
  launch.env["HYDRA_IFACE"] = "eth0";
  launch.env["OMPI_ALLOW_RUN_AS_ROOT"] = "1";
  launch.env["OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"] = "1";
}

}  // namespace

std::string_view to_string(LaunchMode mode) {
  for (const auto& [value, name] : kLaunchModeNames) {
    if (value == mode) return name;
  }
  return "single";
}

Result<LaunchMode> parse_launch_mode(std::string_view text) {
  LaunchWords names;
  for (const auto& [mode, name] : kLaunchModeNames) {
    if (name == text) return mode;
    names.emplace_back(name);
  }
  return invalid_launch(fmt::format("launch mode: expected one of {}, got \"{}\"{}", fmt::join(names, ", "), text,
                                    did_you_mean(text, names)));
}

Result<Launch> make_launch(const LaunchRequest& request) {
  VOLADOR_TRY(check_request(request));
  Launch launch;
  launch.env = {{"VOLADOR_JOB_RANK", std::to_string(request.rank)},
                {"VOLADOR_JOB_NODES", std::to_string(request.hosts.size())},
                {"VOLADOR_JOB_HOSTS", fmt::format("{}", fmt::join(request.hosts, ","))},
                {"SLOTS", std::to_string(request.slots)}};
  if (has_master(request)) {
    launch.env["MASTER_ADDR"] = request.master_addr.empty() ? request.hosts[0] : request.master_addr;
    launch.env["MASTER_PORT"] = std::to_string(request.master_port);
    launch.env["WORLD_SIZE"] = std::to_string(request.hosts.size());
    launch.env["RANK"] = std::to_string(request.rank);
  }
  if (has_hostfile(request.mode)) launch.files["hostfile"] = lines_of_hosts(request, " slots=");
  const std::string root = request.file_root.ends_with('/') ? request.file_root : request.file_root + "/";
  switch (request.mode) {
    case LaunchMode::kSingle:
      launch.command = request.command;
      break;
    case LaunchMode::kTorch:
    case LaunchMode::kTorchrun: {
      Result<LaunchWords> command = torch_command(request);
      if (!command) return make_error(std::move(command).error());
      launch.command = *std::move(command);
      break;
    }
    case LaunchMode::kHorovod:
    case LaunchMode::kMpi:
      add_mpi(request, root, launch);
      if (request.rank == 0) launch.command = mpi_command(request);
      break;
    case LaunchMode::kDeepSpeed:
      if (request.rank == 0) launch.command = deepspeed_command(request, root);
      break;
    case LaunchMode::kTensorFlow:
      launch.command = request.command;
      launch.env["TF_CONFIG"] = tf_config(request);
      break;
  }
  return launch;
}

}  // namespace volador::jobs
