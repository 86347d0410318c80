#include "jobs/command.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include "jobs/data/data_copies.h"
#include "jobs/environment/environment_store.h"
#include "jobs/launch/command_check.h"
#include "jobs/output_tap.h"
#include "jobs/rank_process.h"
#include "jobs/remote/rsh_server.h"
#include "jobs/remote/ssh_arguments.h"
#include "jobs/sandbox/sandbox.h"
#include "jobs/store/shared_store.h"
#include "runtime/actor/future.h"
#include "runtime/actor/handle.h"
#include "runtime/actor/self.h"
#include "runtime/clock.h"
#include "runtime/files/directory_archive.h"
#include "runtime/paths.h"
#include "runtime/result.h"

namespace volador::jobs {
namespace {

namespace fs = std::filesystem;

// The message is the cause of the actor's death, which everyone sees: it has nothing of the job's specification.
[[noreturn]] void refuse(ErrorCode code, std::string message) { throw Exception(Error{code, std::move(message)}); }

// Path of this program in an isolated job.
constexpr const char* kProgramInside = "/run/volador/volador";
// Path of the job's folder in an isolated job on several nodes.
constexpr const char* kFolderInside = "/run/volador/job";
// The setup of the other rank may install much.
constexpr std::chrono::minutes kPeerPatience{10};
// How long the rank stays for the head to take its last matches of log policies.
constexpr std::chrono::seconds kMatchesPatience{5};

// The interactive shell of a rank. Not a login shell, whose profile would replace the PATH of the job's environment.
constexpr const char* kShell = "command -v bash >/dev/null 2>&1 && exec bash -i; exec sh -i";

void write_file(const fs::path& path, std::string_view content) {
  std::ofstream out(path, std::ios::binary);
  out << content;
  if (!out.flush()) refuse(ErrorCode::kUnavailable, fmt::format("{}: cannot be written", path.string()));
}

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// A store of this user on this node, in the folder of caches. `prefix`: of the environment variables of its limits.
std::unique_ptr<SharedStore> open_store(const char* name, StoreLimits defaults, const std::string& prefix) {
  static const SystemClock clock;
  const auto variable = [](const std::string& variable_name) {
    const char* value = std::getenv(variable_name.c_str());
    return std::string(value == nullptr ? "" : value);
  };
  fs::path folder = variable(prefix + "_FOLDER");
  if (folder.empty()) {
    const auto paths = Paths::from(PathEnvironment::of_this_process());
    if (!paths) refuse(paths.error().code, paths.error().message);
    folder = paths->cache() / name;
  }
  const auto limits = store_limits(defaults, prefix, variable(prefix + "_DAYS"), variable(prefix + "_SIZE"));
  if (!limits) refuse(limits.error().code, limits.error().message);
  return std::make_unique<SharedStore>(folder, *limits, clock, say);
}

// A command on another rank, by calls to its actor.
class PeerRun final : public RemoteRun {
 public:
  PeerRun(const CommandStart& own, const fs::path& folder, size_t rank, std::string command_line, bool input)
      : peer_(parse_id<ActorId>(own.peer_actors[rank]).value_or(ActorId())),
        command_{.id = fmt::format("{}.{}", own.rank, ++count_),
                 .command_line = std::move(command_line),
                 .input = input,
                 .folder = folder.string()} {}

  void start() override {
    adopt(peer_.call<&Command::ready>());
    if (!waits_.wait_for(kPeerPatience)) {
      waits_.cancel();
      refuse(ErrorCode::kTimeout, "it is not up after 10 minutes; volador job show says what it waits for");
    }
    waits_.get();
    adopt(peer_.call<&Command::start_remote>(command_));
    waits_.get();
    const std::lock_guard lock(mutex_);
    started_ = true;
    if (abandoned_) end();
  }
  std::vector<RemoteEvent> next() override {
    // The next call is under way while the answer of the last one is written.
    if (!events_.is_valid()) events_ = peer_.call<&Command::remote_events>(command_.id);
    std::vector<RemoteEvent> events = events_.get();
    if (events.empty()) refuse(ErrorCode::kCancelled, "the command was ended");
    events_ = {};
    if (events.back().kind != RemoteEvent::kEnded) events_ = peer_.call<&Command::remote_events>(command_.id);
    return events;
  }
  void input(std::string bytes, bool last) override {
    static_cast<void>(peer_.call<&Command::remote_input>(command_.id, Bytes{std::move(bytes)}, last).result());
  }
  void send(int signal) override { static_cast<void>(peer_.call<&Command::remote_signal>(command_.id, signal)); }
  void abandon() override {
    const std::lock_guard lock(mutex_);
    if (std::exchange(abandoned_, true)) return;
    if (started_) return end();
    if (waits_.is_valid()) waits_.cancel();
  }

 private:
  void adopt(Future<void> waits) {
    const std::lock_guard lock(mutex_);
    waits_ = std::move(waits);
    if (abandoned_ && !started_) waits_.cancel();
  }
  void end() { static_cast<void>(peer_.call<&Command::remote_signal>(command_.id, 0)); }

  static inline std::atomic<uint64_t> count_{0};
  const ActorHandle<Command> peer_;
  const RemoteCommand command_;
  Future<std::vector<RemoteEvent>> events_;
  std::mutex mutex_;
  Future<void> waits_;  // The call for which start() waits.
  bool started_ = false;
  bool abandoned_ = false;
};

}  // namespace

struct Command::Impl {
  CommandStart start;
  RankSurroundings surroundings;
  RankProcess process{surroundings};  // The setup, then the command.
  RankSurroundings cleaning;          // For the teardown, which also runs when the job is ended.
  RankProcess cleaner{cleaning};
  LogMatches matches;
  std::unique_ptr<OutputTap> tap;             // Null: the job has no log policies.
  std::unique_ptr<SharedStore> environments;  // Null: the job uses the environment of the node.
  PreparedEnvironment prepared;
  std::unique_ptr<SharedStore> data;  // Null: the job has no mounts that are copied.
  std::vector<SharedFolder> copies;
  RemoteCommands remote{surroundings};
  std::unique_ptr<RshServer> rsh;  // For a job on several nodes.
  std::mutex mutex;
  bool is_started = false;                 // The command runs, before the waiter begins.
  bool is_ready = false;                   // The setup has succeeded.
  std::vector<Deferred<void>> wait_ready;  // Until then.
  bool is_kept = false;                    // The command has failed, and users may look at what it left.
  bool is_ended = false;
  std::condition_variable ended;
  fs::path link;  // To the job's folder; empty: not made.
  std::thread waiter;

  void prepare();
  void open_tap();
  // Starts a command that is this program and needs nothing before it, while no other thread of this process works.
  void start_early();
  RankProcess::Streams streams() const { return tap ? tap->streams() : RankProcess::Streams(); }
  // Where the command finds the program of this process, in its sandbox if it has one.
  std::string program_path() const {
    return surroundings.isolated || start.isolated ? kProgramInside : fs::read_symlink("/proc/self/exe").string();
  }
  // In the sandbox, since it may be in a folder that is hidden there.
  void show_program() { surroundings.files[kProgramInside] = fs::read_symlink("/proc/self/exe"); }
  // Lets the command start others on the nodes of the job by ssh; adds to the environment.
  void prepare_remote(const fs::path& made, std::map<std::string, std::string>& env);
  // Makes a path to the working directory that is the same on all nodes, since launchers such as mpirun start processes
  // everywhere in the directory of the first one.
  void share_directory(std::map<std::string, std::string>& env);
  void remove_link() const {
    std::error_code failed;
    if (!link.empty()) fs::remove(link, failed);
  }
  void set_ready();
  void run();
  // Until the rank is ended.
  void keep_for_users(int code);
  void tear_down(std::optional<int> code);
  // Prepares the job's environment for the setup and the command. Returns an exit code; 0: it is ready.
  int use_environment();
  // Copies the mounts that are to be copied. Returns an exit code; 0: it is done.
  int copy_data();
};

void Command::Impl::prepare() {
  const char* archive = std::getenv("VOLADOR_FILES");
  const fs::path folder = self().scratch_directory();
  fs::path directory;
  const fs::path made = folder / "job";
  fs::create_directories(made);
  for (const auto& [name, content] : start.files) write_file(made / name, content);
  directory = folder / "code";
  if (archive != nullptr && *archive != '\0') {
    if (const auto unpacked = unpack_archive(archive, directory, {}, Durability::kProcess); !unpacked) {
      say("volador: the code folder cannot be unpacked: " + unpacked.error().message);
      refuse(unpacked.error().code, "the code folder cannot be unpacked; volador job logs shows why");
    }
  } else if (start.directory.empty()) {
    fs::create_directories(directory);
  }
  if (!start.directory.empty()) {
    directory = fs::path(start.directory).is_absolute() ? fs::path(start.directory) : directory / start.directory;
    if (!fs::is_directory(directory)) {
      refuse(
          ErrorCode::kInvalidArgument,
          fmt::format("directory: the job's folder does not exist on node {}; create it there, or submit the code with "
                      "--code",
                      self().node_name));
    }
  }
  std::map<std::string, std::string> env = start.env;
  if (!start.output.empty()) {
    std::error_code failed;
    fs::create_directories(start.output, failed);
    if (failed) {
      refuse(ErrorCode::kInvalidArgument, fmt::format("output: the job's folder cannot be created on node {}: {}",
                                                      self().node_name, failed.message()));
    }
    env["VOLADOR_OUTPUT_DIR"] = start.output;
  }
  const auto set_directory = [&](std::string& text) {
    if (const size_t at = text.find(kJobDirectory); at != std::string::npos)
      text.replace(at, kJobDirectory.size(), made.string());
  };
  for (auto& [name, value] : env) set_directory(value);
  for (std::string& word : start.command) set_directory(word);
  env["VOLADOR_JOB_ID"] = start.job;
  env["VOLADOR_JOB_DIR"] = made.string();
  env["VOLADOR_JOB_NODE"] = self().node_name;
  env["VOLADOR_EXECUTABLE"] = program_path();
  surroundings = {.job = start.job,
                  .rank = start.rank,
                  .folder = folder,
                  .directory = directory,
                  .environment = {},
                  .isolated = start.isolated,
                  .mounts = start.mounts,
                  .shm_bytes = start.shm_bytes,
                  .output = start.output,
                  .files = {},
                  .stop_signal = start.stop_signal};
  if (start.isolated) show_program();
  if (start.peer_actors.size() > 1) {
    prepare_remote(made, env);
    share_directory(env);
  }
  surroundings.environment = environment_of_rank(env);
  if (!start.environment.empty() && start.environment != "host") {
    environments = open_store("environments", kEnvironmentLimits, "VOLADOR_ENVIRONMENT");
  }
  for (const std::string& text : start.mounts) {
    const auto mount = parse_mount(text);
    if (mount && mount->copied && !data) data = open_store("data", kDataLimits, "VOLADOR_DATA");
  }
}

void Command::Impl::open_tap() {
  if (start.log_rules.empty()) return;
  auto made = OutputTap::create(start.log_rules, matches);
  if (!made) return say("volador: " + made.error().message);
  tap = std::move(*made);
}

void Command::Impl::start_early() {
  const bool waits = environments || data || !start.setup.empty();
  if (!waits && !start.command.empty()) is_started = process.start_own(start.command, streams());
}

int Command::Impl::copy_data() {
  for (std::string& text : surroundings.mounts) {
    const auto mount = parse_mount(text);
    if (!mount || !mount->copied) continue;
    auto copy = DataCopies(*data).prepare(mount->source, surroundings.environment, self().node_name);
    if (!copy) {
      if (copy.error().code != ErrorCode::kCancelled) say("volador: " + copy.error().message);
      return kExitSetupFailed;
    }
    text = fmt::format("{}:{}:ro", copy->path.string(), mount->target);
    copies.push_back(std::move(copy->hold));
  }
  return 0;
}

int Command::Impl::use_environment() {
  if (!environments) return 0;
  auto made = [&]() -> Result<PreparedEnvironment> {
    const auto parsed = parse_environment(start.environment);
    if (!parsed) return make_error(parsed.error());
    const fs::path code = surroundings.folder / "code";
    return EnvironmentStore(*environments)
        .prepare({.environment = *parsed,
                  .base = fs::exists(code) ? code : surroundings.directory,
                  .variables = surroundings.environment,
                  .node = self().node_name});
  }();
  if (!made) {
    if (made.error().code != ErrorCode::kCancelled) say("volador: " + made.error().message);
    return kExitSetupFailed;
  }
  prepared = std::move(*made);
  surroundings.environment_folder = prepared.folder;
  surroundings.root = prepared.root;
  std::map<std::string, std::string>& variables = prepared.change.set;
  if (!prepared.root.empty()) {
    surroundings.isolated = true;
    show_program();
    variables["VOLADOR_EXECUTABLE"] = program_path();
    // The user's may be missing in that root, and is read-only otherwise.
    const fs::path home = surroundings.folder / "home";
    fs::create_directories(home);
    variables["HOME"] = home.string();
  }
  // The job's own variables are stronger than those of the environment.
  for (const auto& [name, value] : start.env) {
    variables.erase(name);
    std::erase(prepared.change.unset, name);
  }
  // The ssh of the job stays first.
  if (const auto path = variables.find("PATH"); rsh && path != variables.end())
    path->second = (surroundings.folder / "job" / "bin").string() + ":" + path->second;
  surroundings.environment = changed(surroundings.environment, prepared.change);
  return 0;
}

void Command::Impl::prepare_remote(const fs::path& made, std::map<std::string, std::string>& env) {
  std::vector<Peer> peers;
  for (size_t i = 0; i < start.peer_actors.size(); ++i)
    peers.push_back({.name = start.peer_names[i], .node = start.peer_nodes[i], .address = start.peer_addresses[i]});
  const std::string program = program_path();
  if (start.isolated) {
    if (fs::exists("/etc/hosts")) {
      write_file(made.parent_path() / "hosts", hosts_file(read_file("/etc/hosts"), peers, start.job));
      surroundings.files["/etc/hosts"] = made.parent_path() / "hosts";
    }
    if (start.files.contains("hostfile")) surroundings.files["/job/hostfile"] = made / "hostfile";
  }
  fs::create_directories(made / "bin");
  for (const char* name : {"ssh", "rsh"}) {
    write_file(made / "bin" / name, fmt::format("#!/bin/sh\nVOLADOR_JOB_DIR={} exec {} job-rsh \"$@\"\n",
                                                shell_quoted(made.string()), shell_quoted(program)));
    fs::permissions(made / "bin" / name, fs::perms::owner_all | fs::perms::group_exec | fs::perms::others_exec,
                    fs::perm_options::add);
  }
  for (const auto& [name, value] : remote_environment((made / "bin").string())) env.emplace(name, value);
  const char* path = std::getenv("PATH");
  std::string& paths = env.emplace("PATH", path == nullptr ? "/usr/bin:/bin" : path).first->second;
  paths = (made / "bin").string() + ":" + paths;
  auto server = RshServer::create(
      made, peers, static_cast<size_t>(start.rank), [this](size_t rank, const std::string& command_line, bool input) {
        return std::make_unique<PeerRun>(start, surroundings.folder, rank, command_line, input);
      });
  if (!server) refuse(server.error().code, "the socket for ssh inside the job: " + server.error().message);
  rsh = std::move(*server);
}

void Command::Impl::share_directory(std::map<std::string, std::string>& env) {
  const fs::path in_folder = surroundings.directory.lexically_relative(surroundings.folder);
  if (*in_folder.begin() == "..") return;  // A folder of the nodes.
  if (start.isolated) {
    surroundings.folder_inside = kFolderInside;
    return;
  }
  const fs::path links = fmt::format("/tmp/volador-{}", ::geteuid());
  struct stat info {};
  if (::mkdir(links.c_str(), S_IRWXU) != 0 && errno != EEXIST) return;
  // A folder of another user could lead elsewhere. Without the link only launchers that change the directory fail.
  if (::lstat(links.c_str(), &info) != 0 || !S_ISDIR(info.st_mode) || info.st_uid != ::geteuid()) return;
  std::error_code failed;
  for (const auto& entry : fs::directory_iterator(links, failed)) {
    std::error_code ignored;
    if (!fs::exists(entry.path(), ignored)) fs::remove(entry.path(), ignored);  // Left by a job that was killed.
  }
  // Only the first rank of a node, because the path has one folder there.
  const auto own = static_cast<size_t>(start.rank);
  if (std::ranges::find(start.peer_nodes, start.peer_nodes[own]) - start.peer_nodes.begin() != start.rank) return;
  const fs::path made = links / start.peer_actors[0];
  fs::create_directory_symlink(surroundings.folder, made, failed);
  if (failed) return;  // Another rank on this machine has made it.
  link = made;
  surroundings.directory = link / in_folder;
  env["PWD"] = surroundings.directory.string();
}

void Command::Impl::set_ready() {
  std::vector<Deferred<void>> waited;
  {
    const std::lock_guard lock(mutex);
    is_ready = true;
    waited.swap(wait_ready);
  }
  for (const Deferred<void>& later : waited) later.set();
}

// `code`: of the command; none: another rank runs it.
void Command::Impl::tear_down(std::optional<int> code) {
  if (start.teardown.empty()) return;
  cleaning = surroundings;
  if (code) cleaning.environment.push_back(fmt::format("VOLADOR_EXIT_CODE={}", *code));
  const int ended = cleaner.run({"bash", "-c", start.teardown}, {});
  if (ended != 0) say(fmt::format("volador: the teardown ended with exit code {}", ended));
}

void Command::Impl::keep_for_users(int code) {
  std::unique_lock lock(mutex);
  if (is_ended || process.ending()) return;
  is_kept = true;
  say(fmt::format("volador: exit code {}; this rank is kept for volador job attach {}, until volador job stop {}", code,
                  start.job, start.job));
  matches.add_failure(code);
  ended.wait(lock, [this] { return is_ended; });
}

void Command::Impl::run() {
  if (tap) tap->start();
  int code = copy_data();
  if (code == 0) code = use_environment();
  if (code == 0 && !start.setup.empty()) {
    code = process.run({"bash", "-c", start.setup}, streams());
    if (code != 0) {
      if (!process.ending())
        say(fmt::format("volador: the setup ended with exit code {}; the command does not run", code));
    }
  }
  if (code == 0) set_ready();
  if (code == 0 && start.command.empty()) return tap.reset();
  if (code == 0) code = is_started ? process.wait(true) : process.run(start.command, streams());
  tap.reset();
  if (code != 0 && start.kept) keep_for_users(code);
  tear_down(code);
  matches.wait_until_taken(kMatchesPatience);
  prepared = {};
  copies.clear();
  std::fflush(stdout);
  std::fflush(stderr);
  remove_link();
  ::_exit(code);
}

Command::Command(CommandStart start) : impl_(std::make_unique<Impl>()) {
  // The worker sends SIGTERM at half of the graceful time; the command has all of it.
  std::signal(SIGTERM, SIG_IGN);
  impl_->start = std::move(start);
  impl_->prepare();
  impl_->open_tap();
  impl_->start_early();
  impl_->waiter = std::thread([impl = impl_.get()] { impl->run(); });
}

Command::~Command() {
  if (impl_->environments) impl_->environments->cancel();
  if (impl_->data) impl_->data->cancel();
  impl_->process.terminate();
  {
    const std::lock_guard lock(impl_->mutex);
    impl_->is_ended = true;
  }
  impl_->ended.notify_all();
  impl_->remote.end();
  impl_->waiter.join();
  impl_->tear_down(std::nullopt);  // For a rank whose command another one runs; the waiter ends the process otherwise.
  impl_->rsh.reset();
  impl_->remove_link();
}

int32_t Command::pid() { return impl_->process.pid(); }

Deferred<void> Command::ready() {
  Deferred<void> later;
  const std::lock_guard lock(impl_->mutex);
  if (impl_->is_ready) {
    later.set();
  } else {
    impl_->wait_ready.push_back(later);
  }
  return later;
}

void Command::start_remote(RemoteCommand command) {
  if (auto started = impl_->remote.start(command); !started) throw Exception(std::move(started).error());
}

Deferred<std::vector<RemoteEvent>> Command::remote_events(const std::string& id) {
  Deferred<std::vector<RemoteEvent>> later;
  impl_->remote.take(id, [later](const std::vector<RemoteEvent>& events) { later.set(events); });
  return later;
}

Deferred<void> Command::remote_input(const std::string& id, Bytes bytes, bool last) {
  Deferred<void> later;
  impl_->remote.input(id, std::move(bytes.data), last, [later] { later.set(); });
  return later;
}

void Command::remote_signal(const std::string& id, int32_t signal) {
  if (signal == 0) return impl_->remote.abandon(id);
  impl_->remote.send(id, signal);
}

Deferred<std::vector<LogMatch>> Command::log_matches(int64_t after) { return impl_->matches.beyond(after); }
CommandAnswer Command::start_command(RemoteCommand command) {
  {
    const std::lock_guard lock(impl_->mutex);
    if (!impl_->is_ready && !impl_->is_kept) {
      return answer_of(make_error(
          ErrorCode::kUnavailable,
          fmt::format("the setup of rank {} still runs; ask again when it has ended, see volador job logs {}",
                      impl_->start.rank, impl_->start.job)));
    }
  }
  command.by_user = true;
  if (command.words.empty() && command.port == 0) command.words = {"sh", "-c", kShell};
  return answer_of(impl_->remote.start(command));
}

Deferred<CommandOutput> Command::read_command(const std::string& id, int64_t wait_ms) {
  Deferred<CommandOutput> later;
  impl_->remote.take(
      id, [later](std::vector<RemoteEvent> events) { later.set(output_of(std::move(events))); },
      std::chrono::milliseconds(wait_ms), [later] { return later.is_cancelled(); });
  return later;
}

CommandAnswer Command::write_command(CommandInput input) { return give_input(impl_->remote, std::move(input)); }

CommandAnswer answer_of(const Result<void>& result) {
  if (result) return {};
  return {.code = static_cast<int32_t>(result.error().code), .message = result.error().message};
}

CommandOutput output_of(std::vector<RemoteEvent> events) {
  CommandOutput told{.known = !events.empty()};
  for (RemoteEvent& event : events) {
    if (event.kind == RemoteEvent::kOutput) told.output.data += event.bytes.data;
    if (event.kind == RemoteEvent::kError) told.error.data += event.bytes.data;
    if (event.kind == RemoteEvent::kEnded) told.exit_code = event.code;
    told.ended |= event.kind == RemoteEvent::kEnded;
  }
  return told;
}

CommandAnswer give_input(RemoteCommands& commands, CommandInput input) {
  if (!input.input.data.empty() || input.end) {
    if (auto given = commands.offer(input.id, std::move(input.input.data), input.end); !given) return answer_of(given);
  }
  if (input.rows > 0 && input.columns > 0) commands.resize(input.id, input.rows, input.columns);
  if (input.signal != 0) commands.send(input.id, input.signal);
  if (input.close) commands.abandon(input.id);
  return {};
}

std::string command_class() { return std::string(type_name<Command>()); }

std::string command_arguments(const CommandStart& start) {
  using Constructor = registration::Constructor<Command, CommandStart>;
  (void)Constructor::enlisted;
  return to_bytes<uint64_t, CommandStart>(Constructor::id(), start);
}

}  // namespace volador::jobs
