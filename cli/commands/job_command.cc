#include "cli/commands/job_command.h"

#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <thread>
#include <utility>

#include "cli/command_line.h"
#include "cli/commands/job_queue_command.h"
#include "cli/commands/job_usage_command.h"
#include "cli/job_forward.h"
#include "cli/job_session.h"
#include "cli/process_title.h"
#include "cli/render/job_view.h"
#include "cli/render/json_text.h"
#include "cli/render/table.h"
#include "dashboard/operation_json.h"
#include "experiments/core/trial_job.h"
#include "jobs/environment/environment.h"
#include "jobs/job_client.h"
#include "jobs/job_output.h"
#include "jobs/job_spec.h"
#include "jobs/job_yaml.h"
#include "jobs/own_command.h"
#include "runtime/clock.h"
#include "runtime/control/cluster_api.h"
#include "runtime/control/warm_calls.h"
#include "runtime/paths.h"
#include "runtime/process_file.h"
#include "runtime/quantities.h"
#include "runtime/random.h"
#include "volador/init.h"

namespace volador::cli {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

constexpr size_t kSpecFileMax = 1 << 20;
constexpr milliseconds kSilence{1000};

int64_t unix_ms_now() { return unix_ms(SystemClock().wall()); }

// `wait`: see JobSessionOptions; less than the timeout of the API.
milliseconds wait_within(milliseconds timeout) { return std::min(milliseconds(10'000), timeout / 2); }

void declare_rank(CLI::App& app, int& rank, bool& wait) {
  app.add_option("--rank", rank, "Rank in which it runs; 0 by default")
      ->check(CLI::Range(0, 1'000'000))
      ->type_name("INTEGER");
  app.add_flag("--wait", wait, "Wait until the job runs and its setup has succeeded");
}

void declare_job(CLI::App& app, std::string& job) {
  app.add_option("job", job, "Id, number or name of the job")->required();
}

nlohmann::ordered_json json_of_job(const v1::Job& job) {
  auto json = dashboard::json_of(job);
  json["api_version"] = "v1";
  return json;
}

void print_job(const Context& context, bool json, const v1::Job& job) {
  context.terminal.print(json ? cli::text_of(json_of_job(job)) : job_line(job, unix_ms_now(), context.terminal) + "\n");
}

// The end of a job as the outcome of a command, with the job's exit code.
Outcome outcome_of(const v1::Job& job, const Context& context) {
  if (job.state() == "succeeded") return {};
  const int code =
      job.state() == "failed" && job.exit_code() != 0 ? job.exit_code() : static_cast<int>(ExitCode::kFailed);
  return fail(static_cast<ExitCode>(code),
              Error{ErrorCode::kApplication, job_line(job, unix_ms_now(), context.terminal)});
}

// Prints a job's output until it has ended.
Outcome follow_output(control::ClusterApi& api, const std::string& id, int rank, int tail, bool json,
                      const Context& context) {
  bool several = false;
  jobs::JobOutput output(
      api, rank, tail, [&](const jobs::JobOutput::Line& line) { print_output(context.terminal, json, several, line); });
  bool waits = false;
  auto ended = jobs::JobClient(api).wait(id, [&](const v1::Job& job) {
    several = job.ranks_size() > 1 && rank < 0;
    // A job that starts at once needs no word.
    const bool waits_long = job.state() == "queued" && unix_ms_now() - job.submitted_ms() > kSilence.count();
    if (waits_long && !waits && !json) {
      waits = true;
      context.terminal.note(job_line(job, unix_ms_now(), context.terminal));
    }
    if (job.state() != "queued") waits = false;
    const auto read = output.read(job);
    return read && *read;
  });
  if (!ended) return fail(ended.error());
  (void)output.read(*ended);
  return outcome_of(*ended, context);
}

tl::expected<std::pair<std::string, std::string>, Failure> pair_of(std::string_view flag, const std::string& text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    return usage_error(fmt::format("{}: expected NAME=VALUE, got \"{}\"", flag, text));
  return std::pair(text.substr(0, equals), text.substr(equals + 1));
}

tl::expected<int64_t, Failure> seconds_of(std::string_view flag, const std::string& text) {
  const auto time = parse_duration(text);
  if (!time || time->count() < 0)
    return usage_error(fmt::format("{}: expected a time such as 2h or 30min, got \"{}\"", flag, text));
  return std::chrono::ceil<std::chrono::seconds>(*time).count();
}

}  // namespace

JobCommand::JobCommand() {
  add(std::make_unique<JobSubmitCommand>());
  add(std::make_unique<JobListCommand>());
  add(std::make_unique<JobShowCommand>());
  add(std::make_unique<JobLogsCommand>());
  add(std::make_unique<JobWaitCommand>());
  add(std::make_unique<JobExecCommand>());
  add(std::make_unique<JobAttachCommand>());
  add(std::make_unique<JobForwardCommand>());
  add(std::make_unique<JobStopCommand>());
  add(std::make_unique<JobDeleteCommand>());
  add(std::make_unique<JobCloneCommand>());
  add(std::make_unique<JobPriorityCommand>());
  add(std::make_unique<JobExtendCommand>());
  add(std::make_unique<JobQueueCommand>());
  add(std::make_unique<JobUsageCommand>());
}

CLI::App* JobCommand::declare(CLI::App& root) {
  CLI::App* app = declare_group(root, "job", "Run commands in the cluster's queue, on one or several nodes");
  app->footer(
      "Examples:\n"
      "  volador job submit --gpus=1 -- python3 train.py    this folder travels along\n"
      "  volador job submit --nodes=2 --mode=torchrun --follow -- python3 train.py\n"
      "  volador job submit --dry-run --gpus=8 -- true      when would it start?\n"
      "  volador job list\n"
      "  volador job logs job-7 --follow\n"
      "  volador job attach job-7                           a shell beside the command\n"
      "  volador job stop job-7");
  return app;
}

CLI::App* JobSubmitCommand::declare(CLI::App& root) {
  CLI::App* app = app_ =
      root.add_subcommand("submit", "Submit a command; the folder in which it is given travels along");
  app->footer(
      "Examples:\n"
      "  volador job submit --gpus=2 --duration=4h -- python3 train.py --epochs 3\n"
      "  volador job submit --environment=requirements.txt -- python3 train.py\n"
      "  volador job submit --no-code --directory=/data/run -- bash -c 'A=1 ./run.sh && ./report.sh'\n"
      "  volador job submit --file=job.yaml");
  app->add_option("command", command_, "The command, after --: an executable and its arguments");
  app->add_option("--file", file_, "Fields of the job as YAML; flags and a command replace those of the file")
      ->type_name("FILE");
  app->add_option("--name", name_, "Name of the job; its id by default")->type_name("TEXT");
  app->add_option("--nodes", nodes_,
                  "Number of nodes, each of which runs the command; 1 by default. 2-4: as many as are free, at least 2")
      ->type_name("NUMBERS");
  app->add_option("--min-nodes", min_nodes_, "The job starts on fewer nodes, at least so many, if no more are free")
      ->type_name("INTEGER");
  app->add_flag("--grow", grow_,
                "A job on fewer than its nodes is asked to save, and goes on with more when they are free");
  app->add_flag("--share-nodes", share_nodes_,
                "Ranks may run on the same node, each with its own CPUs, GPUs and memory: --nodes is their number");
  app->add_option("--cpus", cpus_, "CPUs on each node; 1 by default")->type_name("NUMBER");
  app->add_option("--gpus", gpus_, "GPUs on each node, also parts such as 0.5")->type_name("NUMBER");
  app->add_option("--memory", memory_, "Memory on each node, such as 16GiB; unlimited by default")->type_name("SIZE");
  app->add_option("--resource", resources_, "NAME=AMOUNT of a custom resource on each node; may be repeated")
      ->type_name("TEXT")
      ->allow_extra_args(false);
  app->add_option("--mode", mode_,
                  "How a program on several nodes starts: single (default), torch, torchrun, horovod, mpi, deepspeed, "
                  "tensorflow")
      ->type_name("TEXT");
  app->add_option("--parameter-servers", servers_, "Of the nodes, for mode tensorflow")->type_name("INTEGER");
  app->add_option("--setup", setup_, "Command line that bash runs on each node before the command")->type_name("TEXT");
  app->add_option("--environment", environment_,
                  "What the command runs in: a file of the code folder that lists packages (requirements.txt, uv.lock, "
                  "pyproject.toml, environment.yml), a path of the nodes, an image, a name from the settings; host by "
                  "default")
      ->type_name("TEXT");
  app->add_option("--secret", secrets_,
                  "NAME of a variable of your environment that the command gets; its value is shown nowhere; may be "
                  "repeated")
      ->type_name("NAME")
      ->allow_extra_args(false);
  app->add_option("--env", env_, "NAME=VALUE for the environment, or NAME as --environment; may be repeated")
      ->type_name("TEXT")
      ->allow_extra_args(false);
  app->add_option("--code", code_, "Folder that travels with the job and is its working directory; . by default")
      ->type_name("DIRECTORY");
  app->add_flag("--no-code", no_code_, "No folder travels");
  app->add_option("--directory", directory_,
                  "Working directory: a folder of the nodes with --no-code, otherwise one inside the code folder")
      ->type_name("DIRECTORY");
  app->add_flag(
      "--isolated", isolated_,
      "Run in namespaces of its own: the files of the node are read-only, /tmp, /dev/shm and processes private");
  app->add_option("--mount", mounts_,
                  "SOURCE:TARGET[:ro|:copy]: a folder of the node for an isolated job; may be repeated")
      ->type_name("TEXT")
      ->allow_extra_args(false);
  app->add_option("--shm", shm_, "Size of /dev/shm of an isolated job; 4GiB by default")->type_name("SIZE");
  app->add_option("--priority", priority_, "normal (default), urgent or very_urgent (operators only)")
      ->type_name("TEXT");
  app->add_option("--duration", duration_, "Maximum running time, such as 4h; unlimited by default")
      ->type_name("DURATION");
  app->add_option("--restarts", restarts_, "How often the job starts again when it fails; 0 by default")
      ->type_name("INTEGER");
  app->add_option(
         "--max-resumes", resumes_,
         "How often the job is asked to save and goes on elsewhere when one of its nodes fails, is drained or has "
         "a health problem; not with --restarts")
      ->type_name("INTEGER");
  app->add_option("--teardown", teardown_,
                  "Command line that bash runs on each node after the command, however that ended")
      ->type_name("TEXT");
  app->add_option("--debug", debug_,
                  "After a failure keep its nodes and their files for this time, such as 4h, for volador job attach")
      ->type_name("DURATION");
  app->add_option("--graceful", graceful_, "Time from the stop signal to SIGKILL when it is stopped; 30s by default")
      ->type_name("DURATION");
  app->add_option("--node", node_names_, "Only on this node; may be repeated")
      ->type_name("NAME")
      ->allow_extra_args(false);
  app->add_option("--label", labels_, "NAME=VALUE: only on nodes with this label; may be repeated")
      ->type_name("TEXT")
      ->allow_extra_args(false);
  app->add_option("--pool", pool_, "Only on nodes of this pool; the nodes without a pool by default")
      ->type_name("NAME");
  app->add_option("--stop-signal", stop_signal_,
                  "Signal that asks the job to save and end: TERM (default), INT, USR1, USR2 or HUP")
      ->type_name("SIGNAL");
  app->add_option("--project", project_, "Project that the job belongs to; default by default")->type_name("NAME");
  app->add_option("--access", access_, "What others of the project may do with it: none, read (default) or write")
      ->type_name("WORD");
  app->add_option("--note", note_, "Text for people who look at the job")->type_name("TEXT");
  app->add_option("--array", array_, "Submit it so many times as a batch; VOLADOR_TASK_INDEX tells them apart, from 0")
      ->check(CLI::Range(1, jobs::kBatchMax).description(""))
      ->type_name("INTEGER");
  app->add_option("--or", alternatives_,
                  "FIELD=VALUE,… of another job that does as well, such as gpus=2,pool=old; the first that starts "
                  "stops the others; may be repeated")
      ->allow_extra_args(false)
      ->type_name("FIELDS");
  app->add_option("--output", output_, "Folder on the nodes for what the job makes, as VOLADOR_OUTPUT_DIR")
      ->type_name("PATH");
  app->add_option(
         "--notify", notify_,
         "Who is told of its start, its end and its alerts: a mail address, or a name of the queue's notifications; "
         "may be repeated")
      ->allow_extra_args(false)
      ->type_name("TARGET");
  app->add_flag("--dry-run", dry_run_, "Only check the job and tell when it would start");
  app->add_flag("-f,--follow", follow_,
                "Print its output until it ends, and exit with its exit code; Ctrl-C leaves it running");
  app->add_option("--request-id", request_,
                  "Any text that names this request: sent again with the same text it is not done twice and gets the "
                  "same answer")
      ->type_name("TEXT");
  declare_connection(*app, "30s");
  return app;
}

tl::expected<jobs::JobSet, Failure> JobSubmitCommand::described() const {
  jobs::JobSet set;
  v1::JobSpec& spec = set.base;
  if (!file_.empty()) {
    auto text = read_file_limited(file_, kSpecFileMax);
    if (!text) return fail_here(text.error());
    auto read = jobs::jobs_from_yaml(*text, file_);
    if (!read) return fail(ExitCode::kConfig, read.error());
    set = std::move(*read);
  }
  const auto given = [this](const char* flag) { return app_->count(flag) > 0; };
  if (!command_.empty()) {
    spec.clear_command();
    for (const std::string& word : command_) spec.add_command(word);
  }
  if (spec.command().empty() && set.tasks.empty())
    return usage_error("job submit: which command? Write it after --, as in `volador job submit -- python3 train.py`");
  if (given("--name")) spec.set_name(name_);
  if (given("--nodes")) {
    const auto counts = jobs::parse_node_counts(nodes_);
    if (!counts) return usage_error("--" + counts.error().message);
    spec.set_nodes(counts->nodes);
    spec.set_min_nodes(counts->min_nodes);
  }
  if (given("--min-nodes")) spec.set_min_nodes(min_nodes_);
  if (grow_) spec.set_grow(true);
  if (share_nodes_) spec.set_share_nodes(true);
  if (given("--cpus")) spec.set_cpus(cpus_);
  if (given("--gpus")) spec.set_gpus(gpus_);
  if (given("--memory")) {
    const auto bytes = parse_byte_count(memory_);
    if (!bytes) return usage_error(fmt::format("--memory: {}", bytes.error().message));
    spec.set_memory_bytes(*bytes);
  }
  for (const std::string& text : resources_) {
    const auto pair = pair_of("--resource", text);
    if (!pair) return tl::unexpected(pair.error());
    const auto amount = parse_real(pair->second);
    if (!amount) return usage_error(fmt::format("--resource: {}: {}", pair->first, amount.error().message));
    (*spec.mutable_resources())[pair->first] = *amount;
  }
  if (given("--mode")) spec.set_mode(mode_);
  if (given("--parameter-servers")) spec.set_parameter_servers(servers_);
  if (given("--setup")) spec.set_setup(setup_);
  if (given("--environment")) spec.set_environment(environment_);
  bool named = given("--environment");
  for (const std::string& text : env_) {
    if (text.find('=') == std::string::npos && !text.empty()) {
      if (std::exchange(named, true)) {
        return usage_error(
            fmt::format("--env: \"{}\" names an environment, and so does another flag; leave one out, or write a "
                        "variable as NAME=VALUE",
                        text));
      }
      spec.set_environment(text);
      continue;
    }
    const auto pair = pair_of("--env", text);
    if (!pair) return tl::unexpected(pair.error());
    (*spec.mutable_env())[pair->first] = pair->second;
  }
  for (const std::string& name : secrets_) {
    const char* value = ::getenv(name.c_str());
    if (value == nullptr) {
      return usage_error(
          fmt::format("--secret: the environment has no variable {}; set it before, as in: read -rs {} && export {}",
                      name, name, name));
    }
    (*spec.mutable_secrets())[name] = value;
  }
  if (isolated_) spec.set_isolated(true);
  for (const std::string& mount : mounts_) spec.add_mounts(mount);
  if (given("--shm")) {
    const auto bytes = parse_byte_count(shm_);
    if (!bytes) return usage_error(fmt::format("--shm: {}", bytes.error().message));
    spec.set_shm_bytes(*bytes);
  }
  if (given("--directory")) spec.set_directory(directory_);
  if (given("--priority")) spec.set_priority(priority_);
  if (given("--duration")) {
    const auto seconds = seconds_of("--duration", duration_);
    if (!seconds) return tl::unexpected(seconds.error());
    spec.set_duration_s(*seconds);
  }
  if (given("--restarts")) spec.set_max_restarts(restarts_);
  if (given("--max-resumes")) spec.set_max_resumes(resumes_);
  if (given("--teardown")) spec.set_teardown(teardown_);
  if (given("--debug")) {
    const auto seconds = seconds_of("--debug", debug_);
    if (!seconds) return tl::unexpected(seconds.error());
    spec.set_debug_s(*seconds);
  }
  if (given("--graceful")) {
    const auto seconds = seconds_of("--graceful", graceful_);
    if (!seconds) return tl::unexpected(seconds.error());
    spec.set_graceful_s(*seconds);
  }
  if (given("--node")) *spec.mutable_node_names() = {node_names_.begin(), node_names_.end()};
  for (const std::string& text : labels_) {
    const auto pair = pair_of("--label", text);
    if (!pair) return tl::unexpected(pair.error());
    (*spec.mutable_labels())[pair->first] = pair->second;
  }
  if (given("--pool")) spec.set_pool(pool_);
  if (given("--stop-signal")) spec.set_stop_signal(stop_signal_);
  if (given("--project")) spec.set_project(project_);
  if (given("--access")) spec.set_access(access_);
  if (given("--note")) spec.set_note(note_);
  if (given("--output")) spec.set_output(output_);
  if (given("--notify")) *spec.mutable_notify() = {notify_.begin(), notify_.end()};
  if (given("--array")) set.array = array_;
  for (const std::string& text : alternatives_) {
    std::string map = "{";
    std::istringstream fields(text);
    for (std::string field; std::getline(fields, field, ',');) {
      const auto pair = pair_of("--or", field);
      if (!pair) return tl::unexpected(pair.error());
      map += fmt::format("{}{}: {}", map.size() > 1 ? ", " : "", pair->first, pair->second);
    }
    if (set.alternatives.empty()) set.alternatives.emplace_back("{}");  // What the other flags say.
    set.alternatives.push_back(map + "}");
  }
  return set;
}

Outcome JobSubmitCommand::run(const Context& context) {
  if (no_code_ && !code_.empty()) return usage_error("job submit: --code or --no-code, not both");
  auto set = described();
  if (!set) return tl::unexpected(set.error());
  auto specs = jobs::jobs_of(*set, jobs::new_unique_name());
  if (!specs) return usage_error("job submit: " + specs.error().message);
  if (follow_ && specs->size() > 1)
    return usage_error("job submit: --follow follows one job, and these are several; see `volador job logs`");
  for (const v1::JobSpec& spec : *specs) {
    const auto environment = jobs::parse_environment(spec.environment());
    if (!environment) return usage_error(environment.error().message);
    if (no_code_ && spec.directory().empty() && !jobs::code_files_of(*environment).empty()) {
      return usage_error(
          fmt::format("environment: {} is a file of the code folder, and none travels; remove --no-code, "
                      "or name the --directory of the nodes that has it",
                      environment->text));
    }
  }
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  jobs::JobClient client(**api);
  std::string files_hash;
  if (!no_code_ && !dry_run_) {
    std::error_code failed;
    const fs::path folder = code_.empty() ? fs::current_path(failed) : fs::path(code_);
    const char* home = ::getenv("HOME");
    if (code_.empty() && (folder == "/" || (home != nullptr && folder == fs::path(home).lexically_normal()))) {
      return usage_error(
          fmt::format("job submit: {} would travel with the job; go to the folder of your code, name it with "
                      "--code, or use --no-code",
                      folder.string()));
    }
    std::set<std::string> environments;  // The folder must have the files of each.
    for (const v1::JobSpec& spec : *specs) environments.insert(spec.environment());
    for (const std::string& environment : environments) {
      auto hash = client.send_code(folder, environment, [&](int64_t files, int64_t bytes) {
        context.terminal.note(context.terminal.fill("sends {} files, {} packed", files, format_bytes(bytes)));
      });
      if (!hash) return fail(hash.error());
      files_hash = *hash;
    }
  }
  // A set of different jobs is submitted as a whole or not at all.
  for (size_t i = 0; specs->size() > 1 && set->array == 0 && !dry_run_ && i < specs->size(); ++i) {
    v1::SubmitJobRequest check;
    *check.mutable_spec() = (*specs)[i];
    check.set_dry_run(true);
    if (auto reply = client.submit(check); !reply)
      return fail(
          Error{reply.error().code, fmt::format("job {} of {}: {}", i + 1, specs->size(), reply.error().message)});
  }
  v1::Job job;
  for (size_t i = 0; i < specs->size(); ++i) {
    v1::SubmitJobRequest request;
    *request.mutable_spec() = std::move((*specs)[i]);
    request.mutable_spec()->set_files_sha256(files_hash);
    if (!request_.empty()) request.set_request_id(i == 0 ? request_ : fmt::format("{}-{}", request_, i));
    request.set_dry_run(dry_run_);
    auto reply = client.submit(request);
    if (!reply) return fail(reply.error());
    job = std::move(*reply->mutable_job());
    if (dry_run_ && !wants_json()) {
      context.terminal.print((specs->size() > 1 ? fmt::format("{}: ", i + 1) : "") +
                             start_text(job.start(), unix_ms_now(), context.terminal) + "\n");
    } else if (dry_run_ || specs->size() > 1) {
      print_job(context, wants_json(), job);
    }
  }
  if (dry_run_) return {};
  if (specs->size() > 1) {
    if (!wants_json() && !job.spec().batch().empty())
      context.terminal.note(context.terminal.fill("the batch: volador job list --batch {}", job.spec().batch()));
    return {};
  }
  if (!follow_) {
    print_job(context, wants_json(), job);
    if (!wants_json()) context.terminal.note(context.terminal.fill("output: volador job logs {} --follow", job.id()));
    return {};
  }
  if (!wants_json())
    context.terminal.note(context.terminal.fill("{} is submitted; Ctrl-C leaves it running", job.id()));
  return follow_output(**api, job.id(), -1, 0, wants_json(), context);
}

CLI::App* JobListCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("list", "List jobs, the newest first");
  app->add_option("--state", state_,
                  "Only jobs that are open (queued or running), queued, running, succeeded, failed, "
                  "stopped or expired")
      ->check(CLI::IsMember({"open", "queued", "running", "succeeded", "failed", "stopped", "expired"}))
      ->type_name("TEXT");
  app->add_option("--name", name_, "Only jobs whose name contains this text")->type_name("TEXT");
  app->add_option("--project", project_, "Only jobs of this project")->type_name("NAME");
  app->add_option("--batch", batch_, "Only jobs of this batch")->type_name("NAME");
  app->add_option("--limit", limit_, "Show at most this many; 50 by default")
      ->check(CLI::Range(1, 100'000))
      ->type_name("INTEGER");
  declare_wide(*app);
  declare_connection(*app);
  return app;
}

Outcome list_jobs(control::ClusterApi& api, const JobFilter& filter, const Terminal& terminal) {
  v1::ListJobsRequest request;
  request.set_state(filter.state);
  request.set_name(filter.name);
  request.set_project(filter.project);
  request.set_batch(filter.batch);
  request.set_limit(filter.limit);
  const auto reply = api.call<v1::ListJobsReply>("Jobs/ListJobs", request);
  if (!reply) return fail(reply.error());
  if (terminal.json()) {
    auto json = dashboard::json_of(*reply);
    json["api_version"] = "v1";
    terminal.print(cli::text_of(json));
  } else {
    terminal.print(jobs_text(*reply, unix_ms_now(), terminal));
  }
  return {};
}

Outcome JobListCommand::run(const Context& context) {
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  return list_jobs(**api, {.state = state_, .name = name_, .project = project_, .batch = batch_, .limit = limit_},
                   table_terminal(context));
}

CLI::App* JobShowCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("show", "Show a job: why it waits, when it starts, its nodes and how it ended");
  app->alias("explain");
  declare_job(*app, job_);
  declare_connection(*app);
  return app;
}

Outcome JobShowCommand::run(const Context& context) {
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  const auto job = jobs::JobClient(**api).get(job_);
  if (!job) return fail(job.error());
  context.terminal.print(wants_json() ? cli::text_of(json_of_job(*job))
                                      : job_text(*job, unix_ms_now(), context.terminal));
  return {};
}

CLI::App* JobLogsCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("logs", "Print the output of a job");
  app->footer(
      "Examples:\n  volador job logs job-7 --follow    until it ends\n  volador job logs job-7 --rank=1 --tail=100");
  declare_job(*app, job_);
  app->add_flag("-f,--follow", follow_, "Continue until the job ends, and exit with its exit code");
  app->add_option("--rank", rank_, "Only of this rank")->check(CLI::Range(0, 1'000'000))->type_name("INTEGER");
  app->add_option("--tail", tail_, "Only so many of the last lines of each stream")
      ->check(CLI::Range(1, 1000))
      ->type_name("INTEGER");
  declare_connection(*app);
  return app;
}

Outcome print_job_output(const Context& context, control::ClusterApi& api, const std::string& id, int rank, int tail,
                         bool follow, bool json) {
  if (follow) return follow_output(api, id, rank, tail, json, context);
  const auto job = jobs::JobClient(api).get(id);
  if (!job) return fail(job.error());
  if (rank >= job->ranks_size() && job->ranks_size() > 0)
    return usage_error(fmt::format("--rank: expected 0 to {}, got {}", job->ranks_size() - 1, rank));
  const bool several = job->ranks_size() > 1 && rank < 0;
  jobs::JobOutput output(
      api, rank, tail, [&](const jobs::JobOutput::Line& line) { print_output(context.terminal, json, several, line); });
  const auto read = output.read(*job);
  if (!read) return fail(read.error());
  if (!*read) context.terminal.note(job_line(*job, unix_ms_now(), context.terminal));
  return {};
}

Outcome JobLogsCommand::run(const Context& context) {
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  return print_job_output(context, **api, job_, rank_, tail_, follow_, wants_json());
}

CLI::App* JobWaitCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("wait", "Wait until a job has ended, and exit with its exit code");
  declare_job(*app, job_);
  declare_connection(*app);
  return app;
}

Outcome JobWaitCommand::run(const Context& context) {
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  const auto ended = jobs::JobClient(**api).wait(job_);
  if (!ended) return fail(ended.error());
  if (ended->state() == "succeeded" || wants_json()) print_job(context, wants_json(), *ended);
  return outcome_of(*ended, context);
}

CLI::App* JobExecCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("exec",
                                      "Run a command in the environment, folder and sandbox of a rank of a running "
                                      "job, and exit with its exit code");
  app->footer(
      "Examples:\n"
      "  volador job exec job-7 -- nvidia-smi\n"
      "  volador job exec job-7 --rank=1 -- bash -c 'tail -n 5 *.log'\n"
      "  volador job exec job-7 -t -- top                   with a terminal\n"
      "  volador job exec job-7 -i -- tee x.txt < x.txt     with an input");
  declare_job(*app, job_);
  app->add_option("command", command_, "The command, after --: an executable and its arguments");
  declare_rank(*app, rank_, wait_);
  app->add_flag("-t,--terminal", terminal_, "Give it a terminal, as interactive programs need it");
  app->add_flag("-i,--input", input_, "Give it the standard input");
  declare_connection(*app, "30s");
  return app;
}

Outcome JobExecCommand::run(const Context& context) {
  if (command_.empty())
    return usage_error("job exec: which command? Write it after --, as in `volador job exec job-7 -- nvidia-smi`");
  if (terminal_ && (::isatty(STDIN_FILENO) == 0 || ::isatty(STDOUT_FILENO) == 0))
    return usage_error("job exec: --terminal needs a terminal as standard input and output; leave it out");
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  return run_job_session(**api,
                         {.job = job_,
                          .rank = rank_,
                          .command = command_,
                          .terminal = terminal_,
                          .waits = wait_,
                          .input = input_,
                          .wait = wait_within(*timeout())},
                         context.terminal);
}

CLI::App* JobAttachCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand(
      "attach", "Open a shell in the environment, folder and sandbox of a rank of a running job; exit ends the shell");
  app->footer("Examples:\n  volador job attach job-7\n  volador job attach job-7 --rank=1");
  declare_job(*app, job_);
  declare_rank(*app, rank_, wait_);
  declare_connection(*app, "30s");
  return app;
}

Outcome JobAttachCommand::run(const Context& context) {
  if (::isatty(STDIN_FILENO) == 0 || ::isatty(STDOUT_FILENO) == 0) {
    return usage_error(
        "job attach: it needs a terminal as standard input and output; `volador job exec JOB -- COMMAND` needs none");
  }
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  return run_job_session(**api,
                         {.job = job_,
                          .rank = rank_,
                          .command = {},
                          .terminal = true,
                          .waits = wait_,
                          .input = true,
                          .wait = wait_within(*timeout())},
                         context.terminal);
}

CLI::App* JobForwardCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand(
      "forward", "Open a port of this machine that leads to a port of the machine of a rank of a running job");
  app->footer(
      "Examples:\n"
      "  volador job forward job-7 8888                     http://127.0.0.1:8888 shows its notebooks\n"
      "  volador job forward job-7 9000:8888 --rank=1       another port here; the second rank\n"
      "  volador job forward job-7 6006 -- tensorboard --logdir=runs --port=6006");
  declare_job(*app, job_);
  app->add_option("port", ports_, "The port there; or HERE:THERE, where 0 is any free port here")
      ->type_name("[HERE:]PORT")
      ->required();
  app->add_option("command", command_, "After --: a command that runs in the job meanwhile, such as the server");
  declare_rank(*app, rank_, wait_);
  declare_connection(*app, "30s");
  return app;
}

Outcome JobForwardCommand::run(const Context& context) {
  const auto ports = parse_forwarded_ports(ports_);
  if (!ports) return usage_error("job forward: " + ports.error().message);
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  return run_job_forward(**api,
                         {.job = job_,
                          .rank = rank_,
                          .ports = *ports,
                          .command = command_,
                          .waits = wait_,
                          .wait = wait_within(*timeout())},
                         context.terminal);
}

CLI::App* JobStopCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("stop", "Stop jobs: their stop signal, then SIGKILL after their graceful time");
  app->add_option("jobs", jobs_, "Ids, numbers or names of jobs")->required();
  app->add_flag("--now", now_, "Kill their processes at once");
  declare_connection(*app);
  return app;
}

Outcome JobStopCommand::run(const Context& context) {
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  Outcome outcome;
  for (const std::string& each : jobs_) {
    const auto reply = jobs::JobClient(**api).stop(each, now_);
    if (reply) {
      print_job(context, wants_json(), *reply);
    } else if (jobs_.size() == 1) {
      return fail(reply.error());
    } else {  // The others are stopped nevertheless.
      context.terminal.note(reply.error().message);
      outcome = fail(reply.error());
    }
  }
  return outcome;
}

CLI::App* JobDeleteCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("delete", "Delete ended jobs from the list for good");
  app->add_option("jobs", jobs_, "Ids, numbers or names of jobs")->required();
  declare_yes(*app);
  declare_connection(*app);
  return app;
}

Outcome JobDeleteCommand::run(const Context& context) {
  const std::string question = jobs_.size() == 1 ? context.terminal.fill("Delete job {}?", jobs_.front())
                                                 : context.terminal.fill("Delete {} jobs?", jobs_.size());
  if (auto agreed = confirm(context, question); !agreed) return agreed;
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  Outcome outcome;
  for (const std::string& each : jobs_) {
    v1::DeleteJobRequest request;
    request.set_job(each);
    request.set_request_id(jobs::new_request_id());
    const auto reply = (*api)->call<v1::DeleteJobReply>("Jobs/DeleteJob", request);
    if (!reply && jobs_.size() == 1) return fail(reply.error());
    if (!reply) {
      context.terminal.note(reply.error().message);
      outcome = fail(reply.error());
    } else if (!wants_json()) {
      context.terminal.print(context.terminal.fill("{} is deleted", each) + "\n");
    }
  }
  if (wants_json()) context.terminal.print("{\"api_version\": \"v1\"}\n");
  return outcome;
}

CLI::App* JobCloneCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("clone", "Submit a job again as it was, with the same code");
  declare_job(*app, job_);
  app->add_option("--name", name_, "Name of the new job; its id by default")->type_name("TEXT");
  declare_connection(*app);
  return app;
}

Outcome JobCloneCommand::run(const Context& context) {
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  const auto job = jobs::JobClient(**api).get(job_);
  if (!job) return fail(job.error());
  v1::SubmitJobRequest request;
  *request.mutable_spec() = job->spec();
  request.mutable_spec()->set_name(name_);
  request.set_request_id(jobs::new_request_id());
  const auto reply = (*api)->call<v1::SubmitJobReply>("Jobs/SubmitJob", request);
  if (!reply) return fail(reply.error());
  print_job(context, wants_json(), reply->job());
  return {};
}

CLI::App* JobPriorityCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("priority", "Change the priority of a queued job");
  declare_job(*app, job_);
  app->add_option("priority", priority_, "normal, urgent or very_urgent (operators only)")->required();
  declare_connection(*app);
  return app;
}

Outcome JobPriorityCommand::run(const Context& context) {
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  v1::SetJobPriorityRequest request;
  request.set_job(job_);
  request.set_priority(priority_);
  request.set_request_id(jobs::new_request_id());
  const auto reply = (*api)->call<v1::SetJobPriorityReply>("Jobs/SetJobPriority", request);
  if (!reply) return fail(reply.error());
  print_job(context, wants_json(), reply->job());
  return {};
}

CLI::App* JobExtendCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("extend", "Change the maximum running time of a job, also while it runs");
  app->footer(
      "Examples:\n  volador job extend job-7 6h    six hours since its start\n  volador job extend job-7 0     "
      "unlimited");
  declare_job(*app, job_);
  app->add_option("duration", duration_, "New maximum running time since the start, such as 6h; 0: unlimited")
      ->required();
  declare_connection(*app);
  return app;
}

Outcome JobExtendCommand::run(const Context& context) {
  const auto seconds = seconds_of("duration", duration_);
  if (!seconds) return tl::unexpected(seconds.error());
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  v1::ExtendJobRequest request;
  request.set_job(job_);
  request.set_duration_s(*seconds);
  request.set_request_id(jobs::new_request_id());
  const auto reply = (*api)->call<v1::ExtendJobReply>("Jobs/ExtendJob", request);
  if (!reply) return fail(reply.error());
  print_job(context, wants_json(), reply->job());
  return {};
}

namespace {

// The command of the jobs of trials.
std::vector<std::string> words_of_trials() {
  const v1::JobSpec spec = experiments::job_of_program({}, {}, {});
  return {spec.command().begin(), spec.command().end()};
}

}  // namespace

CLI::App* JobHostCommand::declare(CLI::App& root) {
  return root.add_subcommand("job-host", "")->group("");  // Not in the help.
}

Outcome JobHostCommand::run(const Context& context) {
  if (::getenv("VOLADOR_ROLE") == nullptr)
    return usage_error("job-host: workers start it to run the ranks of jobs; see volador job --help");
  jobs::set_own_command({.words = words_of_trials(), .run = [&context] {
                           context.title.set("volador experiment run-trial");
                           return run_trial_command(PathEnvironment::of_this_process(), context.title);
                         }});
  control::prepare_calls_of_forks();
  const Cluster never = init();  // Does not return in the processes of a worker.
  return {};
}

}  // namespace volador::cli
