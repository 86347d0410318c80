#include "jobs/job_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <csignal>
#include <set>
#include <utility>

#include "jobs/environment/environment.h"
#include "jobs/job_access.h"
#include "jobs/launch/command_check.h"
#include "jobs/launch/launch.h"
#include "jobs/log_policy.h"
#include "jobs/notify/notice_settings.h"
#include "jobs/queue/job_planner.h"
#include "jobs/queue_settings.h"
#include "jobs/sandbox/sandbox.h"
#include "runtime/quantities.h"

namespace volador::jobs {
namespace {

constexpr size_t kNameBytesMax = 128;
constexpr size_t kNoteBytesMax = 16 << 10;
constexpr size_t kPathBytesMax = 4096;

tl::unexpected<Error> bad_spec(std::string message) {
  return make_error(ErrorCode::kInvalidArgument, std::move(message));
}

Result<void> check_text(std::string_view field, const std::string& text, size_t bytes_max) {
  if (text.size() > bytes_max)
    return bad_spec(fmt::format("{}: expected at most {} bytes, got {}", field, bytes_max, text.size()));
  const bool plain =
      std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) >= 0x20 && c != 0x7f; });
  if (!plain) return bad_spec(fmt::format("{}: expected text without control characters, got \"{}\"", field, text));
  return {};
}

Result<void> check_number(std::string_view field, int64_t value, int64_t least, int64_t most) {
  if (value >= least && value <= most) return {};
  return bad_spec(fmt::format("{}: expected {} to {}, got {}", field, least, most, value));
}

bool is_variable(const std::string& name, const std::string& value) {
  return !name.empty() && name.find('=') == std::string::npos && name.find('\0') == std::string::npos &&
         value.find('\0') == std::string::npos;
}

Result<void> check_environment(const v1::JobSpec& spec) {
  for (const auto& [name, value] : spec.env()) {
    if (!is_variable(name, value)) return bad_spec(fmt::format("env: expected NAME=VALUE, got \"{}={}\"", name, value));
  }
  for (const auto& [name, value] : spec.secrets()) {
    if (!is_variable(name, value))
      return bad_spec(
          fmt::format("secrets: expected a name and a value of an environment variable, got the name \"{}\"", name));
    if (value == kHiddenSecret) {
      return bad_spec(
          fmt::format("secrets: {}: \"{}\" stands for a value that replies do not show; give the value itself", name,
                      kHiddenSecret));
    }
    if (spec.env().contains(name))
      return bad_spec(fmt::format("secrets: {}: env has the same variable; give it once", name));
  }
  return {};
}

Result<void> check_files(const v1::JobSpec& spec) {
  const std::string& hash = spec.files_sha256();
  if (hash.empty()) return {};
  if (hash.size() != 64 || hash.find_first_not_of("0123456789abcdef") != std::string::npos)
    return bad_spec(fmt::format("files_sha256: expected 64 hex digits, got \"{}\"", hash));
  if (spec.directory().starts_with('/')) {
    return bad_spec(fmt::format(
        "directory: a job with a code folder runs in it, so that a path is relative to it; got {}", spec.directory()));
  }
  if (("/" + spec.directory() + "/").find("/../") != std::string::npos)
    return bad_spec(fmt::format("directory: expected a folder inside the code folder, got {}", spec.directory()));
  return {};
}

Result<void> check_elastic(const v1::JobSpec& spec) {
  if (spec.min_nodes() < 0 || spec.min_nodes() > spec.nodes()) {
    return bad_spec(
        fmt::format("min_nodes: expected 1 to the job's nodes ({}), got {}; an elastic job has both, as in "
                    "nodes: 2-4",
                    spec.nodes(), spec.min_nodes()));
  }
  if (spec.grow() && !is_elastic(spec)) {
    return bad_spec(fmt::format("grow: only an elastic job grows; give min_nodes, below nodes ({})", spec.nodes()));
  }
  return {};
}

}  // namespace

Result<int> stop_signal_number(std::string_view name) {
  static constexpr std::pair<std::string_view, int> kSignals[] = {
      {"TERM", SIGTERM}, {"INT", SIGINT}, {"USR1", SIGUSR1}, {"USR2", SIGUSR2}, {"HUP", SIGHUP}};
  const std::string_view bare = name.starts_with("SIG") ? name.substr(3) : name;
  for (const auto& [known, number] : kSignals) {
    if (bare == known) return number;
  }
  return bad_spec(fmt::format("stop_signal: expected TERM, INT, USR1, USR2 or HUP, got \"{}\"", name));
}

Result<NodeCounts> parse_node_counts(std::string_view text) {
  const size_t dash = text.find('-');
  const std::string_view most = dash == std::string_view::npos ? text : text.substr(dash + 1);
  NodeCounts counts;
  const auto read = [](std::string_view digits, int& number) {
    const auto [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    return failed == std::errc() && end == digits.data() + digits.size() && !digits.starts_with('-');
  };
  const bool sound =
      read(most, counts.nodes) && (dash == std::string_view::npos || read(text.substr(0, dash), counts.min_nodes));
  if (sound && (dash == std::string_view::npos || counts.min_nodes > 0)) return counts;
  return bad_spec(fmt::format("nodes: expected a number such as 4, or 2-4 for an elastic job, got \"{}\"", text));
}

bool is_watched(const v1::JobSpec& spec) { return !spec.log_policies().empty() || spec.debug_s() > 0; }

bool is_elastic(const v1::JobSpec& spec) { return spec.min_nodes() > 0 && spec.min_nodes() < spec.nodes(); }

Result<ResourceSet> resources_of(const v1::JobSpec& spec) {
  Resources wanted{.cpus = spec.cpus(), .gpus = spec.gpus(), .memory = spec.memory_bytes()};
  for (const auto& [name, amount] : spec.resources()) wanted.custom[name] = amount;
  return ResourceSet::from(wanted);
}

Result<v1::JobSpec> checked_spec(const v1::JobSpec& given) {
  v1::JobSpec spec = given;
  if (const size_t bytes = spec.ByteSizeLong(); bytes > kSpecBytesMax)
    return bad_spec(fmt::format("job: expected at most {} bytes, got {}; put long data into the code folder",
                                kSpecBytesMax, bytes));
  VOLADOR_TRY(check_text("name", spec.name(), kNameBytesMax));
  VOLADOR_TRY(check_text("project", spec.project(), kNameBytesMax));
  if (spec.note().size() > kNoteBytesMax)
    return bad_spec(fmt::format("note: expected at most {} bytes, got {}", kNoteBytesMax, spec.note().size()));
  VOLADOR_TRY(check_command({spec.command().begin(), spec.command().end()}));
  if (spec.setup().find('\0') != std::string::npos)
    return bad_spec("setup: expected a command line for bash, got one with a zero byte");
  VOLADOR_TRY(check_environment(spec));
  VOLADOR_TRY(check_text("directory", spec.directory(), kPathBytesMax));
  VOLADOR_TRY(check_files(spec));
  VOLADOR_TRY(check_text("environment", spec.environment(), kPathBytesMax));
  const auto environment = parse_environment(spec.environment());
  if (!environment) return make_error(environment.error());
  if (spec.nodes() == 0) spec.set_nodes(1);
  VOLADOR_TRY(check_number("nodes", spec.nodes(), 1, kNodesMax));
  VOLADOR_TRY(check_elastic(spec));
  if (spec.cpus() == 0) spec.set_cpus(1);
  if (const auto resources = resources_of(spec); !resources) return make_error(resources.error());
  if (spec.mode().empty()) spec.set_mode("single");
  const auto mode = parse_launch_mode(spec.mode());
  if (!mode) return make_error(mode.error());
  if (spec.parameter_servers() != 0 && *mode != LaunchMode::kTensorFlow)
    return bad_spec(fmt::format("parameter_servers: only mode tensorflow has them, got mode {}", spec.mode()));
  if (spec.priority().empty()) spec.set_priority("normal");
  if (const auto priority = parse_job_priority(spec.priority()); !priority) return make_error(priority.error());
  VOLADOR_TRY(check_number("duration_s", spec.duration_s(), 0, kDurationMaxS));
  VOLADOR_TRY(check_number("max_restarts", spec.max_restarts(), 0, kRestartsMax));
  VOLADOR_TRY(check_number("max_resumes", spec.max_resumes(), 0, kResumesMax));
  if (spec.max_resumes() > 0 && spec.max_restarts() > 0) {
    return bad_spec(fmt::format("max_resumes: a job either resumes or restarts, and max_restarts is {}; leave one out",
                                spec.max_restarts()));
  }
  VOLADOR_TRY(check_log_policies(spec));
  if (spec.teardown().find('\0') != std::string::npos)
    return bad_spec("teardown: expected a command line for bash, got one with a zero byte");
  if (spec.stop_signal().empty()) spec.set_stop_signal("TERM");
  if (const auto number = stop_signal_number(spec.stop_signal()); !number) return make_error(number.error());
  if (spec.stop_signal().starts_with("SIG")) spec.set_stop_signal(spec.stop_signal().substr(3));
  VOLADOR_TRY(check_text("pool", spec.pool(), kNameBytesMax));
  if (spec.pool().empty()) spec.set_pool(std::string(kDefaultPool));
  if (const auto access = parse_job_access(spec.access()); !access) return make_error(access.error());
  if (spec.access().empty()) spec.set_access("read");
  VOLADOR_TRY(check_text("one_of", spec.one_of(), kNameBytesMax));
  VOLADOR_TRY(check_text("batch", spec.batch(), kNameBytesMax));
  if (spec.batch().empty() && (spec.batch_index() != 0 || spec.batch_size() != 0))
    return bad_spec(fmt::format("batch: expected a name, as batch_size is {}", spec.batch_size()));
  if (!spec.batch().empty()) {
    VOLADOR_TRY(check_number("batch_size", spec.batch_size(), 1, kBatchMax));
    VOLADOR_TRY(check_number("batch_index", spec.batch_index(), 0, spec.batch_size() - 1));
  }
  VOLADOR_TRY(check_text("output", spec.output(), kPathBytesMax));
  if (!spec.output().empty() && !spec.output().starts_with('/'))
    return bad_spec(fmt::format("output: expected an absolute path on the nodes, got {}", spec.output()));
  if (spec.graceful_s() == 0) spec.set_graceful_s(kGracefulDefaultS);
  VOLADOR_TRY(check_number("graceful_s", spec.graceful_s(), 1, kGracefulMaxS));
  VOLADOR_TRY(check_number("debug_s", spec.debug_s(), 0, kDebugMaxS));
  for (const std::string& text : spec.mounts()) {
    if (const auto mount = parse_mount(text); !mount) return make_error(mount.error());
  }
  if (spec.shm_bytes() < 0)
    return bad_spec(fmt::format("shm_bytes: expected 0 (4 GiB) or more, got {}", spec.shm_bytes()));
  const bool has_root = environment->kind == EnvironmentKind::kImage;
  if (spec.mounts_size() > 0 || spec.shm_bytes() > 0 || has_root) spec.set_isolated(true);
  if (spec.project().empty()) spec.set_project(std::string(kDefaultProject));
  if (spec.node_names_size() > 0 && spec.nodes() > 1 && !spec.share_nodes()) {
    return bad_spec(
        fmt::format("node_names: only a job on one node or with share_nodes names nodes, this one has {}; select them "
                    "with labels",
                    counted(spec.nodes(), "node")));
  }
  if (spec.share_nodes() && spec.nodes() > 1 && spec.gpus() > 0 && *mode == LaunchMode::kDeepSpeed &&
      !spec.isolated()) {
    return bad_spec(
        "share_nodes: the launcher of mode deepspeed counts the GPUs of each rank from 0, so that ranks on one node "
        "would "
        "use the same ones; add isolated, in which a rank sees only its own");
  }
  // Finds what only the launch mode knows, with the most and the fewest nodes.
  LaunchRequest launch{.mode = *mode,
                       .command = {spec.command().begin(), spec.command().end()},
                       .slots = std::max(1, static_cast<int>(spec.gpus())),
                       .rank = 0,
                       .hosts = {},
                       .parameter_servers = spec.parameter_servers(),
                       .file_root = "/job"};
  for (int i = 1; i <= spec.nodes(); ++i) launch.hosts.push_back(fmt::format("server{}", i));
  if (const auto made = make_launch(launch); !made) return make_error(made.error());
  if (is_elastic(spec)) {
    launch.hosts.resize(static_cast<size_t>(spec.min_nodes()));
    if (const auto made = make_launch(launch); !made) {
      return bad_spec(fmt::format("min_nodes: the job cannot run on {}: {}", counted(spec.min_nodes(), "node"),
                                  made.error().message));
    }
  }
  return spec;
}

}  // namespace volador::jobs
