#include "volador/roles/job_server.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "head/kernel/ownership.h"
#include "head/shell/core_runner.h"
#include "head/shell/head_access.h"
#include "head/shell/program_exchange.h"
#include "jobs/job_core.h"
#include "jobs/job_files.h"
#include "jobs/notify/notice_sender.h"
#include "runtime/control/channel.h"
#include "runtime/control/join.h"
#include "runtime/language/health_reason.h"
#include "runtime/log.h"
#include "runtime/operations/registry.h"
#include "runtime/quantities.h"
#include "runtime/random.h"
#include "runtime/security/user.h"
#include "runtime/version.h"
#include "volador/roles/job_commands.h"
#include "volador/roles/log_watch.h"
#include "volador/roles/rank_calls.h"
#include "volador/roles/rank_guard.h"

namespace volador {
namespace {

using namespace std::chrono_literals;

constexpr auto kTick = 1s;
constexpr std::chrono::seconds kCallsKept{60};  // Longer than an operation for commands may take.
constexpr auto kIdleTick = 1min;                // While no job is open.
constexpr auto kEndingTick = 100ms;             // While processes of stopped jobs end.
constexpr auto kStoreJobsAgainAfter = 1s;
constexpr size_t kEventsATurn = 512;

std::string without_port(const std::string& address) { return address.substr(0, address.rfind(':')); }

// On the head's loop.
jobs::ClusterState read_cluster(const head::HeadCore& core, const std::vector<ActorId>& asked) {
  jobs::ClusterState state;
  const head::Tables& tables = core.tables();
  for (const auto& [id, node] : tables.nodes.all()) {
    if (!node.is_member()) continue;
    const head::ResourceLedger::Node* entry = tables.placement.ledger().find(id);
    jobs::PlanNode row;
    row.name = node.name;
    row.labels = node.labels;
    row.total = node.total;
    row.takes_jobs = entry != nullptr && node.why_not_placeable().empty();
    if (entry != nullptr) {
      for (const auto& [name, amount] : entry->total.entries())
        row.free.set(name, std::max<Amount>(0, entry->free.get(name)));
      if (entry->withheld > 0) state.withheld_gpus[node.name] = entry->withheld;
    }
    for (const head::NodeProblem& problem : node.problems) {
      state.problems[node.name].push_back({.of_gpu = problem.found.has_gpu(), .what = health_reason(problem.found)});
    }
    state.addresses[node.name] = without_port(node.data_address);
    state.view.nodes.push_back(std::move(row));
  }
  for (const ActorId id : asked) {
    const head::Actor* actor = tables.actors.find(id);
    if (actor == nullptr || !actor->incarnation) state.gone.push_back(id);
  }
  return state;
}

}  // namespace

struct JobServer::Impl : std::enable_shared_from_this<JobServer::Impl> {
  Impl(std::unique_ptr<head::Journal> store, head::HeadAccess& h, JobServerOptions o, const Clock& c)
      : journal(std::move(store)),
        head(h),
        options(std::move(o)),
        clock(c),
        core({}, random),
        files(options.files),
        sender({.context = {.cluster = options.cluster, .cluster_id = options.cluster_id, .page = {}}}, clock,
               [this](std::vector<int64_t> numbers) {
                 post([this, numbers = std::move(numbers)] { core.on_reported(numbers); });
               }) {}

  template <class T>
  using Done = std::function<void(Result<T>)>;
  using Principal = security::Principal;

  // Receives the messages of the head to the jobs' driver.
  class Outbox final : public head::ClientOutbox {
   public:
    Outbox(std::weak_ptr<Impl> impl, uint64_t number) : impl_(std::move(impl)), number_(number) {}
    void send(protocol::HeadMessage message) override {
      if (auto impl = impl_.lock())
        impl->post(
            [impl = impl.get(), number = number_, message = std::move(message)] { impl->on_message(number, message); });
    }
    void close(const Error&) override {
      if (auto impl = impl_.lock()) impl->post([impl = impl.get(), number = number_] { impl->on_lost(number); });
    }

   private:
    const std::weak_ptr<Impl> impl_;
    const uint64_t number_;
  };

  int64_t now_ms() const { return unix_ms(clock.wall()); }
  // Who asks, with the groups that the user is in now.
  jobs::Requester asker(const Principal& by) const {
    return requester_of(by, [this](const std::string& user) { return head.groups_of(user); });
  }
  // kNotFound: a project names a group that does not exist.
  Result<void> check_groups(const v1::QueueSettings& settings) const;
  bool post(std::function<void()> function, bool may_refuse = false);
  template <class Request, class Reply>
  using Handler = std::function<Result<Reply>(const Principal& by, const Request& request)>;
  // Handles a request on the thread. `needs_look`: with a fresh view of the cluster.
  template <class Request, class Reply>
  void handle(const Principal& by, const Request& request, Handler<Request, Reply> handler, bool needs_look,
              Done<Reply> done);
  template <class Request, class Reply>
  void serve(operations::Registry& registry, std::string_view name, Handler<Request, Reply> handler,
             bool needs_look = false);
  Result<v1::SubmitJobReply> submit(const Principal& by, const v1::SubmitJobRequest& request);
  bool needs_files(const std::string& sha256) const {
    return core.needs_files(sha256) || (hooks.needs_files && hooks.needs_files(sha256));
  }
  void run();
  void open();
  void settle();
  Result<RankCalls*> calls();
  LogWatch::Parts log_watch_parts();
  JobCommands::Parts commands_parts();
  bool calls_actors() const { return calls_until && clock.now() < *calls_until; }
  // The running actor in whose debugger the principal may work, which is its owner or an operator.
  void find_debugged(const std::string& id, const Principal& by, std::function<void(Result<ActorId>)> done);
  bool store();
  std::optional<std::filesystem::path> file_for(const std::string& sha256);
  void connect();
  void look();
  void on_message(uint64_t number, const protocol::HeadMessage& message);
  void on_lost(uint64_t number);

  const std::unique_ptr<head::Journal> journal;
  head::HeadAccess& head;
  const JobServerOptions options;
  const Clock& clock;

  std::mutex mutex;
  std::condition_variable wake;
  std::deque<std::function<void()>> queue;
  bool stopped = false;
  std::string program_sha256;  // Once the program is known.

  // Confined to the thread.
  SystemRandom random;
  jobs::JobCore core;
  jobs::JobFiles files;
  std::unique_ptr<RankCalls> rank_calls;  // Null: no rank was called since a job is open.
  JobCommands commands{commands_parts()};
  LogWatch log_watch{log_watch_parts()};
  std::vector<head::Mutation> batch;  // Possibly not stored.
  std::vector<protocol::ClientMessage> messages;
  std::vector<protocol::JobNotice> notices;
  std::vector<v1::Job> trials;  // Changed jobs for `hooks`.
  TrialHooks hooks;
  std::vector<std::function<void(const std::optional<Error>&)>> answers;  // Replies that wait for the store.
  std::optional<Error> refusal;                                           // While set, requests are refused.
  bool readable = true;
  std::optional<protocol::Program> program;
  uint64_t connection = 0;  // Number of the newest connection to the head.
  std::optional<head::ClientSession> session;
  bool welcome = false;
  std::optional<BootTime> connect_after;
  std::optional<BootTime> calls_until;  // Users debug actors: calls go on whether or not a job is open.
  bool looking = false;                 // An answer of the head is awaited.
  bool wants_look = false;
  std::deque<std::function<void()>> after_look;  // Requests that need a fresh view.
  std::thread thread;

  jobs::NoticeSender sender;  // Thread safe.
};

Result<void> JobServer::Impl::check_groups(const v1::QueueSettings& settings) const {
  for (const v1::Project& project : settings.projects()) {
    for (const std::string& member : project.members()) {
      const auto group = security::group_in(member);
      if (!group || !security::check_group_name("", *group)) continue;
      if (const auto known = head.check_group(*group); !known)
        return make_error(known.error().code,
                          fmt::format("projects: {}: members: {}", project.name(), known.error().message));
    }
  }
  return {};
}

bool JobServer::Impl::post(std::function<void()> function, bool may_refuse) {
  {
    const std::lock_guard lock(mutex);
    if (stopped || (may_refuse && queue.size() >= options.requests)) return false;
    queue.push_back(std::move(function));
  }
  wake.notify_one();
  return true;
}

// The action and the object of a request in the audit log; none: it changes nothing, or it is recorded as the job itself.
template <class Request>
std::optional<head::AuditRequest> audited(const Request&) {
  return std::nullopt;
}
std::optional<head::AuditRequest> audited(const v1::StopJobRequest& request) {
  return head::AuditRequest{.by = {}, .action = request.now() ? "kill_job" : "stop_job", .object = request.job()};
}
std::optional<head::AuditRequest> audited(const v1::DeleteJobRequest& request) {
  return head::AuditRequest{.by = {}, .action = "delete_job", .object = request.job()};
}
std::optional<head::AuditRequest> audited(const v1::SetJobPriorityRequest& request) {
  return head::AuditRequest{.by = {}, .action = "set_job_priority", .object = request.job()};
}
std::optional<head::AuditRequest> audited(const v1::ExtendJobRequest& request) {
  return head::AuditRequest{.by = {}, .action = "extend_job", .object = request.job()};
}
std::optional<head::AuditRequest> audited(const v1::SetQueueRequest&) {
  return head::AuditRequest{.by = {}, .action = "set_queue", .object = {}};
}

template <class Request, class Reply>
void JobServer::Impl::handle(const Principal& by, const Request& request, Handler<Request, Reply> handler,
                             bool needs_look, Done<Reply> done) {
  auto answer = [this, handler = std::move(handler), by, request, done]() {
    auto reply = refusal ? Result<Reply>(make_error(*refusal)) : handler(by, request);
    auto asked = audited(request);
    if (asked) asked->by = by.token_id;
    answers.push_back([this, done, reply = std::move(reply), asked](const std::optional<Error>& unstored) {
      const Result<Reply> outcome = unstored && reply ? Result<Reply>(make_error(*unstored)) : reply;
      if (asked) head.record(*asked, outcome ? Result<void>() : make_error(outcome.error()));
      done(outcome);
    });
  };
  const bool queued = post(
      [this, answer = std::move(answer), needs_look] {
        if (!needs_look) return answer();
        after_look.push_back(answer);
        wants_look = true;
      },
      true);
  if (!queued) {
    done(make_error(ErrorCode::kUnavailable,
                    "the head stops or has too many requests for jobs; ask again, with the same request_id"));
  }
}

template <class Request, class Reply>
void JobServer::Impl::serve(operations::Registry& registry, std::string_view name, Handler<Request, Reply> handler,
                            bool needs_look) {
  registry.serve<Request, Reply>(name, [this, handler = std::move(handler), needs_look](
                                           const Principal& by, const Request& request, Done<Reply> done) {
    handle<Request, Reply>(by, request, handler, needs_look, std::move(done));
  });
}

Result<v1::SubmitJobReply> JobServer::Impl::submit(const Principal& by, const v1::SubmitJobRequest& request) {
  int64_t bytes = 0;
  if (const std::string& hash = request.spec().files_sha256(); !hash.empty()) {
    const auto stored = files.bytes_of(hash);
    if (!stored) {
      return make_error(ErrorCode::kNotFound,
                        fmt::format("files_sha256: the head has no archive {}; send it with PutJobFiles first", hash));
    }
    bytes = *stored;
  }
  return core.submit(request, asker(by), bytes, now_ms());
}

void JobServer::Impl::open() {
  const Result<void> loaded =
      journal->load([this](std::string_view table, std::string_view key, std::string_view value) {
        if (!core.load(table, key, value))
          log::warn("jobs", "skipped an unreadable row", {{"table", std::string(table)}});
      });
  if (!loaded) {
    readable = false;
    refusal = loaded.error();
    log::error("jobs", "what is stored cannot be read; no jobs are taken", {{"why", loaded.error().message}});
    return;
  }
  core.start(now_ms());
}

// Returns whether everything is stored.
bool JobServer::Impl::store() {
  if (batch.empty()) return true;
  const Result<void> stored = journal->commit(batch);
  if (stored) {
    batch.clear();
    if (refusal) log::info("jobs", "the store takes changes again", {});
    refusal.reset();
    return true;
  }
  if (!refusal)
    log::warn("jobs", "changes are not stored, no job starts",
              {{"store", journal->description()}, {"why", stored.error().message}});
  refusal = Error{ErrorCode::kUnavailable, fmt::format("jobs cannot be stored now ({}); ask again, with the same "
                                                       "request_id",
                                                       stored.error().message)};
  return false;
}

// On a thread of the head. The program is this process's own, also after its file was replaced.
std::optional<std::filesystem::path> JobServer::Impl::file_for(const std::string& sha256) {
  {
    const std::lock_guard lock(mutex);
    if (!program_sha256.empty() && sha256 == program_sha256) return "/proc/self/exe";
  }
  return files.path_of(sha256);
}

// Opens a connection to the head as the jobs' driver.
void JobServer::Impl::connect() {
  if (session || (connect_after && clock.now() < *connect_after)) return;
  connect_after = clock.now() + kTick;
  if (!program) {
    auto described = options.program();
    if (!described) {
      log::error("jobs", "jobs cannot start", {{"why", described.error().message}});
      return;
    }
    program = std::move(*described);
    core.use_program(program->sha256());
    const std::lock_guard lock(mutex);
    program_sha256 = program->sha256();
  }
  session = head.runner().open_client(std::make_shared<Outbox>(weak_from_this(), ++connection),
                                      {.role = security::Role::kOperator,
                                       .role_name = to_string(security::Role::kOperator),
                                       .name = "jobs",
                                       .token_id = std::string(kJobsToken)});
  protocol::ClientMessage message;
  protocol::Hello& hello = *message.mutable_hello();
  hello.set_protocol_version(control::kProtocolVersion);
  hello.set_version(std::string(kVersion));
  hello.set_driver_id(raw(core.driver()));
  hello.set_name("jobs");
  hello.set_pid(::getpid());
  hello.set_machine_id(program->machine_id());
  *hello.mutable_program() = *program;
  head.runner().on_client_message(*session, std::move(message), [] {});
}

void JobServer::Impl::on_lost(uint64_t number) {
  if (number != connection) return;
  session.reset();
  welcome = false;
}

void JobServer::Impl::on_message(uint64_t number, const protocol::HeadMessage& message) {
  if (number != connection || !session) return;
  if (message.has_refused()) {
    log::error("jobs", "the head refuses the jobs' driver", {{"why", message.refused().message()}});
    return on_lost(number);
  }
  if (message.has_welcome()) {
    welcome = true;
    core.on_connected(now_ms());
    if (rank_calls) rank_calls->on_connected();
  }
  core.on_message(message, now_ms());
  if (rank_calls) rank_calls->on_message(message);
}

Result<RankCalls*> JobServer::Impl::calls() {
  if (!rank_calls) {
    auto credentials = head.issue_program_certificate("jobs");
    if (!credentials) return make_error(credentials.error());
    auto made = RankCalls::create({.send =
                                       [this](protocol::ClientMessage message) {
                                         post([this, message = std::move(message)] { messages.push_back(message); });
                                       },
                                   .clock = clock,
                                   .driver = core.driver(),
                                   .machine_id = program ? program->machine_id() : std::string(),
                                   .credentials = std::move(*credentials)});
    if (!made) return make_error(made.error());
    rank_calls = std::move(*made);
    rank_calls->on_connected();
  }
  return rank_calls.get();
}

LogWatch::Parts JobServer::Impl::log_watch_parts() {
  return {.post = [this](std::function<void()> function) { return post(std::move(function)); },
          .calls = [this] { return calls(); },
          .on_matches =
              [this](ActorId rank, int64_t known, const std::vector<jobs::LogMatch>& matches) {
                core.on_log_matches(rank, known, matches, now_ms());
              },
          .clock = clock};
}

void JobServer::Impl::find_debugged(const std::string& id, const Principal& by,
                                    std::function<void(Result<ActorId>)> done) {
  calls_until = clock.now() + kCallsKept;
  head.runner().ask(
      [self = weak_from_this(), id, by, done = std::move(done)](const head::HeadCore& head_core, BootTime) {
        const auto impl = self.lock();
        if (!impl) return;
        const auto running = head_core.lookups().find_running(id, by);
        if (!running) return done(make_error(running.error()));
        const head::Actor& actor = *head_core.tables().actors.find(running->actor);
        if (auto may = head::check_owner(head::owner_of(by), actor.spec.owner(), "debug", "actor " + running->display);
            !may)
          return done(make_error(may.error()));
        done(running->actor);
      });
}

JobCommands::Parts JobServer::Impl::commands_parts() {
  return {
      .post = [this](std::function<void()> function) { return post(std::move(function), true); },
      .rank = [this](const std::string& job, int rank,
                     const Principal& by) { return core.rank_for_commands(job, rank, asker(by)); },
      .actor = [this](const std::string& actor, const Principal& by,
                      std::function<void(Result<ActorId>)> done) { find_debugged(actor, by, std::move(done)); },
      .calls = [this] { return calls(); },
      .record = [this](const head::AuditRequest& asked, const Result<void>& outcome) { head.record(asked, outcome); }};
}

// Asks the head for the capacity of the cluster; one question at a time.
void JobServer::Impl::look() {
  if (looking || !wants_look) return;
  looking = true;
  wants_look = false;
  auto waiting = std::exchange(after_look, {});
  head.runner().ask([self = weak_from_this(), asked = core.ending(), waiting = std::move(waiting)](
                        const head::HeadCore& head_core, BootTime) {
    auto impl = self.lock();
    if (!impl) return;
    auto state = std::make_shared<jobs::ClusterState>(read_cluster(head_core, asked));
    impl->post([impl = impl.get(), state, waiting] {
      impl->looking = false;
      impl->core.on_cluster(std::move(*state), impl->now_ms());
      for (const auto& request : waiting) request();
    });
  });
}

// Stores the changes, then sends messages and replies.
void JobServer::Impl::settle() {
  jobs::JobActions actions = core.take();
  for (jobs::JobRow& row : actions.rows)
    batch.push_back({.table = std::move(row.table), .key = std::move(row.key), .value = std::move(row.value)});
  for (protocol::ClientMessage& message : actions.messages) messages.push_back(std::move(message));
  if (!actions.events.empty()) {
    head.runner().tell([events = std::move(actions.events)](head::HeadCore& head_core) {
      for (const jobs::JobEvent& event : events)
        head_core.context().event(log::Level::kInfo, event.text, event.fields, event.why);
    });
  }
  for (protocol::JobNotice& notice : actions.notices) notices.push_back(std::move(notice));
  for (v1::Job& job : actions.trials) trials.push_back(std::move(job));
  if (options.guard) {
    if (actions.settings) options.guard->set_settings(*actions.settings);
    for (const jobs::JobActors& job : actions.actors) options.guard->set_actors(job);
    if (readable) options.guard->set_loaded(core.driver());
  }
  if (actions.settings) sender.set_settings(std::move(*actions.settings));
  wants_look |= actions.look;
  const std::optional<Error> unstored = readable && !store() ? refusal : std::nullopt;
  if (!unstored && readable) {
    if (!notices.empty()) sender.take(std::exchange(notices, {}));
    for (const v1::Job& job : std::exchange(trials, {})) {
      if (hooks.on_job) hooks.on_job(job);
    }
    if (core.any_open() || calls_actors()) connect();
    if (!welcome) {
      messages.clear();  // Sent again by on_connected().
    } else if (!messages.empty()) {
      protocol::ClientMessage together;
      for (const protocol::ClientMessage& one : messages) together.add_batch(one.SerializeAsString());
      messages.clear();
      head.runner().on_client_message(*session, std::move(together), [] {});
    }
    look();
    if (welcome) log_watch.update(core.watched_ranks());
  }
  for (const auto& answer : std::exchange(answers, {})) answer(unstored);
  if (!core.any_open() && !calls_actors()) rank_calls.reset();
}

void JobServer::Impl::run() {
  open();
  settle();
  BootTime next_tick = clock.now() + kTick;
  while (true) {
    std::deque<std::function<void()>> events;
    {
      std::unique_lock lock(mutex);
      std::chrono::milliseconds patience = kIdleTick;
      if (readable && core.any_open()) {
        patience = std::max(0ms, std::chrono::ceil<std::chrono::milliseconds>(next_tick - clock.now()));
        if (const auto deadline = core.deadline_ms())
          patience = std::min(patience, std::chrono::milliseconds(std::max<int64_t>(*deadline - now_ms(), 0)));
        if (!core.ending().empty()) patience = std::min<std::chrono::milliseconds>(patience, kEndingTick);
      }
      if (!batch.empty()) patience = std::min<std::chrono::milliseconds>(patience, kStoreJobsAgainAfter);
      wake.wait_for(lock, patience, [this] { return stopped || !queue.empty(); });
      if (stopped) return;
      while (!queue.empty() && events.size() < kEventsATurn) {
        events.push_back(std::move(queue.front()));
        queue.pop_front();
      }
    }
    for (const auto& event : events) event();
    if (readable && (events.empty() || clock.now() >= next_tick)) {
      core.on_tick(now_ms());
      next_tick = clock.now() + kTick;
    }
    settle();
  }
}

JobServer::JobServer(std::unique_ptr<head::Journal> journal, head::HeadAccess& head, JobServerOptions options,
                     const Clock& clock)
    : impl_(std::make_shared<Impl>(std::move(journal), head, std::move(options), clock)) {
  impl_->thread = std::thread([impl = impl_.get()] { impl->run(); });
  head.files().set_other_files([impl = impl_.get()](const std::string& sha256) { return impl->file_for(sha256); });
}

JobServer::~JobServer() { stop(); }

void JobServer::stop() {
  std::deque<std::function<void()>> dropped;
  {
    const std::lock_guard lock(impl_->mutex);
    if (impl_->stopped) return;
    impl_->stopped = true;
    dropped.swap(impl_->queue);
  }
  impl_->head.files().set_other_files(nullptr);
  impl_->wake.notify_one();
  if (impl_->thread.joinable()) impl_->thread.join();
  impl_->sender.stop();
  impl_->rank_calls.reset();
}

void JobServer::set_page(std::string url) { impl_->sender.set_page(std::move(url)); }

void JobServer::set_trial_hooks(TrialHooks hooks) {
  impl_->post([impl = impl_.get(), hooks = std::move(hooks)] { impl->hooks = hooks; });
}

void JobServer::submit_trial(const security::Principal& by, v1::SubmitJobRequest request,
                             std::function<void(Result<v1::SubmitJobReply>)> done) {
  Impl* impl = impl_.get();
  impl->handle<v1::SubmitJobRequest, v1::SubmitJobReply>(
      by, request, [impl](const auto& owner, const auto& asked) { return impl->submit(owner, asked); }, true,
      std::move(done));
}

void JobServer::serve_on(operations::Registry& registry) {
  Impl* impl = impl_.get();
  impl->commands.serve_on(registry);
  using security::Principal;
  const auto in_job = [](Result<v1::Job> job, auto reply) -> Result<decltype(reply)> {
    if (!job) return make_error(job.error());
    *reply.mutable_job() = std::move(*job);
    return reply;
  };
  impl->serve<v1::SubmitJobRequest, v1::SubmitJobReply>(
      registry, "Jobs/SubmitJob",
      [impl](const Principal& by, const v1::SubmitJobRequest& request) -> Result<v1::SubmitJobReply> {
        if (!request.spec().trial().empty()) {
          return make_error(ErrorCode::kInvalidArgument,
                            "trial: only the head's experiments set it; submit the job without it");
        }
        return impl->submit(by, request);
      },
      true);
  impl->serve<v1::GetJobRequest, v1::Job>(registry, "Jobs/GetJob",
                                          [impl](const Principal& by, const v1::GetJobRequest& request) {
                                            return impl->core.get(request.job(), impl->asker(by), impl->now_ms());
                                          });
  impl->serve<v1::ListJobsRequest, v1::ListJobsReply>(
      registry, "Jobs/ListJobs", [impl](const Principal& by, const v1::ListJobsRequest& request) {
        return Result<v1::ListJobsReply>(impl->core.list(request, impl->asker(by), impl->now_ms()));
      });
  impl->serve<v1::StopJobRequest, v1::StopJobReply>(
      registry, "Jobs/StopJob", [impl, in_job](const Principal& by, const v1::StopJobRequest& request) {
        return in_job(impl->core.stop(request, impl->asker(by), impl->now_ms()), v1::StopJobReply());
      });
  impl->serve<v1::DeleteJobRequest, v1::DeleteJobReply>(
      registry, "Jobs/DeleteJob",
      [impl](const Principal& by, const v1::DeleteJobRequest& request) -> Result<v1::DeleteJobReply> {
        if (auto removed = impl->core.remove(request, impl->asker(by), impl->now_ms()); !removed)
          return make_error(removed.error());
        return v1::DeleteJobReply();
      });
  impl->serve<v1::SetJobPriorityRequest, v1::SetJobPriorityReply>(
      registry, "Jobs/SetJobPriority", [impl, in_job](const Principal& by, const v1::SetJobPriorityRequest& request) {
        return in_job(impl->core.set_priority(request, impl->asker(by), impl->now_ms()), v1::SetJobPriorityReply());
      });
  impl->serve<v1::ExtendJobRequest, v1::ExtendJobReply>(
      registry, "Jobs/ExtendJob", [impl, in_job](const Principal& by, const v1::ExtendJobRequest& request) {
        return in_job(impl->core.extend(request, impl->asker(by), impl->now_ms()), v1::ExtendJobReply());
      });
  impl->serve<v1::GetQueueRequest, v1::GetQueueReply>(
      registry, "Jobs/GetQueue",
      [impl](const Principal&, const v1::GetQueueRequest&) { return Result<v1::GetQueueReply>(impl->core.queue()); },
      true);
  impl->serve<v1::GetUsageRequest, v1::GetUsageReply>(registry, "Jobs/GetUsage",
                                                      [impl](const Principal&, const v1::GetUsageRequest& request) {
                                                        return impl->core.usage(request, impl->now_ms());
                                                      });
  impl->serve<v1::SetQueueRequest, v1::SetQueueReply>(
      registry, "Jobs/SetQueue",
      [impl](const Principal&, const v1::SetQueueRequest& request) -> Result<v1::SetQueueReply> {
        VOLADOR_TRY(impl->check_groups(request.settings()));
        auto settings = impl->core.set_queue(request.settings());
        if (!settings) return make_error(settings.error());
        v1::SetQueueReply reply;
        *reply.mutable_settings() = std::move(*settings);
        return reply;
      });
  impl->serve<v1::PutJobFilesRequest, v1::PutJobFilesReply>(
      registry, "Jobs/PutJobFiles", [impl](const Principal&, const v1::PutJobFilesRequest& part) {
        return impl->files.put(part, [impl](const std::string& sha256) { return impl->needs_files(sha256); });
      });
}

}  // namespace volador
