#include "cli/commands/run_trial_command.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <sstream>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "cli/commands/collect_trial.h"
#include "cli/head_calls.h"
#include "cli/shim_search.h"
#include "cli/warm_trial.h"
#include "experiments/config/checkpoint_target.h"
#include "experiments/katib/collection.h"
#include "experiments/launch/trial_launch.h"
#include "experiments/launch/warm_start.h"
#include "runtime/control/cluster_api.h"
#include "runtime/files/durable_file.h"
#include "runtime/net/loopback_socket.h"
#include "runtime/paths.h"
#include "runtime/protocol/volador/v1/experiments.pb.h"
#include "runtime/storage/storage.h"

namespace volador::cli {
namespace {

namespace fs = std::filesystem;

constexpr int kPortDefault = 29400;
constexpr size_t kScriptBytesMax = 1 << 20;

std::string job_variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::string() : value;
}

// A number that the job or the head has set.
Result<int64_t> number_variable(const char* name) {
  const std::string text = job_variable(name);
  int64_t number = 0;
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || read.ec != std::errc() || read.ptr != text.data() + text.size()) {
    return make_error(ErrorCode::kInvalidArgument,
                      fmt::format("{}: expected a number, got \"{}\"; this command runs in jobs of experiments, which "
                                  "`volador experiment create` submits",
                                  name, text));
  }
  return number;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const size_t end = std::min(text.find(separator), text.size());
    parts.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parts;
}

// A port that no other process of this machine has now; a default one if there is no socket.
int free_port() { return net::free_loopback_port().value_or(kPortDefault); }

bool imports_determined(std::string_view text) {
  for (const std::string_view place : {"import determined", "from determined", "-m determined"})
    if (text.find(place) != std::string_view::npos) return true;
  return false;
}

// Whether the entrypoint, or a script of it in the folder of the code, imports the package determined.
bool imports_determined(const v1::StartTrialRunReply& reply, const fs::path& directory) {
  for (const std::string& part : reply.command()) {
    if (imports_determined(part)) return true;
    std::istringstream words(part);
    for (std::string word; words >> word;) {
      if (!word.ends_with(".py")) continue;
      const auto text = read_file_limited(directory / word, kScriptBytesMax);
      if (text && imports_determined(*text)) return true;
    }
  }
  return false;
}

// For this user only: the files have secrets.
Result<void> write_info(const fs::path& folder, const std::map<std::string, std::string>& files) {
  std::error_code code;
  fs::create_directories(folder, code);
  if (code) return make_error(file_error("make", folder, code.value()));
  fs::permissions(folder, fs::perms::owner_all, code);
  for (const auto& [name, content] : files) {
    auto file = FileHandle::open(folder / name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (!file) return make_error(file.error());
    VOLADOR_TRY(write_all(file->get(), content, folder / name));
  }
  return {};
}

std::map<std::string, std::string> own_variables() {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view pair = *entry;
    if (const size_t equals = pair.find('='); equals != std::string_view::npos)
      variables.emplace(pair.substr(0, equals), pair.substr(equals + 1));
  }
  return variables;
}

// Returns only if the program cannot be started; the exit codes are those of shells.
Outcome replaced_by(const std::vector<std::string>& command) {
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  ::execvp(words.front(), words.data());
  const int error = errno;
  return fail(static_cast<ExitCode>(error == ENOENT ? 127 : 126),
              Error{ErrorCode::kNotFound, fmt::format("entrypoint: {} cannot be started on node {}: {}; a list names a "
                                                      "program and its arguments, one text is a command line of bash",
                                                      command.front(), job_variable("VOLADOR_JOB_NODE"),
                                                      std::generic_category().message(error))});
}

// Deletes a folder of the storage, complete or not. Succeeds if it is absent.
Result<void> delete_stored(storage::Storage& storage, const std::string& key) {
  VOLADOR_TRY(storage::check_key("checkpoint", key));
  if (storage.url().kind != storage::StorageKind::kFolder) return storage.remove(key);
  const fs::path folder = fs::path(storage.url().prefix) / key;
  std::error_code code;
  fs::remove_all(folder, code);  // Its empty folders too.
  if (code) return make_error(file_error("delete", folder, code.value()));
  return {};
}

Result<void> delete_checkpoint(storage::Storage& storage, const std::string& id) {
  if (id.find('/') == std::string::npos) return delete_stored(storage, id);
  return make_error(ErrorCode::kInvalidArgument, fmt::format("checkpoint \"{}\": expected an id without slashes", id));
}

}  // namespace

tl::expected<void, Failure> NodeCommand::ask(const Context& context, const char* operation,
                                             const google::protobuf::Message& request,
                                             google::protobuf::Message& reply) const {
  return head_calls(context)->call(operation, request, reply);
}

std::unique_ptr<HeadCalls> NodeCommand::head_calls(const Context& context) const {
  return std::make_unique<HeadCalls>([this, &context] { return connect(context); },
                                     [&context](const std::string& why) {
                                       context.terminal.note(context.terminal.fill(
                                           "the head does not answer and is asked again for up to {} minutes: {}",
                                           kHeadAwayMax / std::chrono::minutes(1), why));
                                     });
}

CLI::App* RunTrialCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("run-trial", "")->group("");  // Not in the help.
  declare_connection(*app, "60s");
  return app;
}

Outcome RunTrialCommand::run(const Context& context) {
  v1::StartTrialRunRequest request;
  experiments::TrialNode node;
  for (const char* name : {"VOLADOR_ADDRESS", "VOLADOR_TOKEN", "VOLADOR_JOB_DIR"}) {
    if (job_variable(name).empty())
      return usage_error(
          fmt::format("experiment run-trial: {} is not set; it runs in jobs of experiments, which `volador experiment "
                      "create` submits",
                      name));
  }
  const auto trial = number_variable("VOLADOR_TRIAL"), number = number_variable("VOLADOR_TRIAL_RUN"),
             rank = number_variable("VOLADOR_JOB_RANK");
  for (const auto* each : {&trial, &number, &rank})
    if (!*each) return usage_error("experiment run-trial: " + each->error().message);
  node.hosts = split(job_variable("VOLADOR_JOB_HOSTS"), ',');
  if (node.hosts.empty()) node.hosts.emplace_back("127.0.0.1");
  request.set_trial(*trial);
  request.set_run(*number);
  request.set_rank(static_cast<int32_t>(*rank));
  request.set_node(job_variable("VOLADOR_JOB_NODE"));
  request.set_nodes(static_cast<int32_t>(node.hosts.size()));

  // Trials of kind Trial import no `determined`.
  std::optional<ShimSearch> shims;
  if (job_variable("KATIB_TRIAL_NAME").empty()) shims.emplace();
  v1::StartTrialRunReply reply;
  auto calls = head_calls(context);
  if (auto asked = calls->call("Experiments/StartTrialRun", request, reply); !asked) {
    if (asked.error().error.code != ErrorCode::kCancelled) return asked;
    context.terminal.note(
        context.terminal.fill("run {} of trial {} does not start: {}", *number, *trial, asked.error().error.message));
    return {};
  }

  std::error_code failed;
  const fs::path directory = fs::current_path(failed);
  const auto port = number_variable("MASTER_PORT");
  node.address = job_variable("VOLADOR_ADDRESS");
  node.token = job_variable("VOLADOR_TOKEN");
  node.job = job_variable("VOLADOR_JOB_ID");
  node.name = request.node();
  node.rank = request.rank();
  node.chief = job_variable("MASTER_ADDR");
  node.port = node.hosts.size() == 1 ? free_port() : port ? static_cast<int>(*port) : kPortDefault;
  node.directory = directory.string();
  node.info_folder = (fs::path(job_variable("VOLADOR_JOB_DIR")) / "trial").string();
  if (shims) node.shims = shims->result();
  node.python_path = job_variable("PYTHONPATH");
  node.visible_gpus = job_variable("CUDA_VISIBLE_DEVICES");
  node.has_startup_hook = fs::exists(directory / "startup-hook.sh", failed);
  const auto launch = experiments::make_trial_launch(reply, node);
  if (!launch) return fail_here(launch.error());
  if (!reply.trial_class().empty() && node.shims.empty() && !node.has_startup_hook) {
    return fail_here(Error{
        ErrorCode::kNotFound,
        context.terminal.fill("entrypoint: {} is a trial class, and the Python package volador, which runs it, is not "
                              "installed for python3 on node {}; install it there, or in the image or environment of "
                              "the experiment",
                              reply.trial_class(), node.name)});
  }
  if (shims && node.shims.empty() && !node.has_startup_hook && imports_determined(reply, directory)) {
    context.terminal.note(context.terminal.fill(
        "python3 on node {} lacks Volador's Python package: `import determined` finds only what the program brings",
        node.name));
  }
  if (auto written = write_info(node.info_folder, launch->files); !written) return fail_here(written.error());
  for (const std::string& name : launch->left_out) {
    context.terminal.note(context.terminal.fill(
        "{} is too long for a variable and is left out; the files in {} have it", name, node.info_folder));
  }
  for (const auto& [name, value] : launch->env) ::setenv(name.c_str(), value.c_str(), 1);
  if (reply.collection().empty()) {
    calls.reset();
    const auto variables = own_variables();
    if (auto words = experiments::warm_words(reply, node, *launch, variables)) {
      const auto code = run_warm({.experiment = std::to_string(reply.trial().experiment()),
                                  .words = std::move(*words),
                                  .variables = variables});
      if (code)
        std::_Exit(*code);  // As a program that was started by exec: nothing of this command remains to be done.
    }
    return replaced_by(launch->command);
  }
  auto collection = experiments::katib::collection_from(reply.collection());
  if (!collection) return fail_here(collection.error());
  ::setenv("KATIB_TRIAL_NAME", collection->trial.c_str(), 1);
  const TrialCheckpoints checkpoints{.folder = collection->checkpoints,
                                     .parent = collection->parent,
                                     .latest = reply.latest_checkpoint(),
                                     .storage = reply.storage(),
                                     .trial = *trial,
                                     .run = *number,
                                     .node = node.name,
                                     .info_folder = node.info_folder};
  // The output of the first process counts, as Katib collects that of the primary container.
  if (request.rank() != 0) {
    if (auto restored = restore_checkpoints(checkpoints, *calls); !restored) return restored;
    calls.reset();
    return replaced_by(launch->command);
  }
  return collect_trial(context,
                       {.trial = *trial,
                        .run = *number,
                        .node = node.name,
                        .collection = std::move(*collection),
                        .command = launch->command,
                        .checkpoints = checkpoints},
                       *calls);
}

CLI::App* RunGarbageCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("run-gc", "")->group("");  // Not in the help.
  declare_connection(*app, "60s");
  return app;
}

Outcome RunGarbageCommand::run(const Context& context) {
  const auto experiment = number_variable("VOLADOR_EXPERIMENT");
  if (!experiment) return usage_error("experiment run-gc: " + experiment.error().message);
  v1::GetGarbageRequest request;
  request.set_experiment(*experiment);
  v1::GetGarbageReply garbage;
  if (auto asked = ask(context, "Experiments/GetGarbage", request, garbage); !asked) return asked;

  v1::ReportGarbageRequest report;
  report.set_experiment(*experiment);
  auto opened = [&]() -> Result<storage::Storage> {
    auto target = experiments::checkpoint_target(garbage.storage());
    if (!target) return make_error(target.error());
    std::error_code code;
    // A file system that is not mounted here must not look like one without checkpoints.
    if (target->url.kind == storage::StorageKind::kFolder && !fs::is_directory(target->url.prefix, code)) {
      return make_error(
          ErrorCode::kNotFound,
          fmt::format("{}: there is no such folder on node {}, where the checkpoints of experiment {} are "
                      "to be deleted; mount it there",
                      target->url.prefix, job_variable("VOLADOR_JOB_NODE"), *experiment));
    }
    return storage::Storage::open(*target);
  }();
  for (const std::string& id : garbage.ids()) {
    const auto deleted = opened ? delete_checkpoint(*opened, id) : Result<void>(make_error(opened.error()));
    (deleted ? report.add_deleted() : report.add_failed())->assign(id);
    if (!deleted && report.error().empty()) report.set_error(deleted.error().message);
  }
  // The trials' event files. Without checkpoints the storage may never have been used.
  if (garbage.whole() && (opened || garbage.ids_size() > 0)) {
    const auto deleted = opened ? delete_stored(*opened, fmt::format("tensorboard/experiment/{}", *experiment))
                                : Result<void>(make_error(opened.error()));
    if (!deleted && report.error().empty()) report.set_error(deleted.error().message);
  }
  v1::ReportGarbageReply done;
  if (auto asked = ask(context, "Experiments/ReportGarbage", report, done); !asked) return asked;
  context.terminal.print(context.terminal.fill("experiment {}: {} of {} checkpoints are deleted", *experiment,
                                               report.deleted_size(), garbage.ids_size()) +
                         "\n");
  if (!report.error().empty()) return fail_here(Error{ErrorCode::kUnavailable, report.error()});
  return {};
}

}  // namespace volador::cli
