#include "volador/roles/head_role.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "dashboard/alert_sender.h"
#include "dashboard/cluster_port.h"
#include "dashboard/dashboard.h"
#include "dashboard/live_model.h"
#include "head/journal/redis_journal.h"
#include "head/shell/head_access.h"
#include "head/shell/log_lines.h"
#include "head/shell/sign_on.h"
#include "head/shell/watch_stream.h"
#include "runtime/log.h"
#include "runtime/machine.h"
#include "runtime/net/loopback.h"
#include "runtime/operations/registry.h"
#include "runtime/protocol/control.pb.h"
#include "runtime/protocol/katib/v1beta1/api.pb.h"
#include "runtime/protocol/volador/v1/cluster.pb.h"
#include "runtime/random.h"
#include "runtime/security/authority.h"
#include "tune/space/given_config.h"
#include "tune/space/space_json.h"
#include "volador/roles/cluster_storage.h"
#include "volador/roles/experiment_jobs.h"
#include "volador/roles/experiment_server.h"
#include "volador/roles/job_server.h"
#include "volador/roles/katib_server.h"
#include "volador/roles/katib_store_server.h"
#include "volador/roles/rank_guard.h"
#include "volador/roles/study_server.h"

namespace volador {
namespace {

// Implements head::Options::check_config.
Result<void> check_config(const std::string& space_json, const std::string& like_json, const std::string& config_json) {
  const auto config = tune::Config::from_json(config_json.empty() ? "{}" : config_json);
  if (!config) return make_error(config.error());
  if (space_json.empty()) return {};
  const auto space = tune::Config::from_json(space_json).and_then(tune::space_from_json);
  if (!space) return {};  // Written by another version; its program checks.
  const auto like = tune::Config::from_json(like_json);
  SeededRandom drawn(1);  // Stands for values drawn by the program; any value does here.
  const auto given = like && like->is_map() ? tune::changed_config("config", *space, *like, *config, drawn)
                                            : tune::given_config("config", *space, *config);
  return given ? Result<void>() : make_error(given.error());
}

// Connects the dashboard to this head.
class HeadPort final : public dashboard::ClusterPort {
 public:
  // `experiments`: null if there are none.
  HeadPort(head::HeadAccess& head, operations::Registry& registry, head::SignOn* sign_on,
           const ExperimentServer* experiments)
      : head_(head), registry_(registry), sign_on_(sign_on), experiments_(experiments) {}
  void attach(dashboard::Dashboard& to) { dashboard_ = &to; }

  operations::Registry& registry() override { return registry_; }

  void logs(const security::Principal& by, const std::string& id, const std::string& node, int tail,
            Done<dashboard::LiveClient::FoundLogs> done) override {
    v1::LogsRequest request;
    request.set_id(id);
    request.set_node(node);
    request.set_tail(tail);
    const auto read = [this, done, by, request](const std::string& actor) {
      head_.logs(request, by, [this, done, by, actor](Result<std::vector<v1::LogLine>> lines) {
        if (!lines) return done(make_error(lines.error()));
        const auto shows = [this, by](std::string_view other) {
          return head_.shows(parse_id<ActorId>(other).value_or(ActorId()), by);
        };
        done(dashboard::LiveClient::FoundLogs{.actor = actor, .lines = std::move(*lines), .shows = shows});
      });
    };
    if (!node.empty()) return read("");
    head_.actor_of(id, by, [done, read](const Result<std::string>& actor) {
      if (!actor) return done(make_error(actor.error()));
      read(*actor);
    });
  }

  security::SignOnService* sign_on() override { return sign_on_; }

  const DurationHistogram* decision_times() const override { return &head_.decision_times(); }

  void follow_logs(bool on) override {
    if (!on) return head_.watch_logs(nullptr);
    head_.watch_logs([to = dashboard_](const protocol::LogLines& lines) {
      std::vector<v1::LogLine> out;
      for (head::KeptLine& line : head::kept_lines(lines)) out.push_back(head::to_api(std::move(line)));
      to->add_log_lines(to_string(id_from_raw<ActorId>(lines.actor_id())), std::move(out));
    });
  }

  void list_run_files(const std::string& experiment, const std::string& trial,
                      Done<std::vector<RunFiles::Entry>> done) override {
    head_.list_run_files(experiment, trial, std::move(done));
  }
  void open_run_file(const std::string& experiment, const std::string& trial, const std::string& name,
                     Done<RemoteFile> done) override {
    head_.open_run_file(experiment, trial, name, std::move(done));
  }
  Result<dashboard::Visitor> bearer(std::string_view token) override {
    auto found = head_.bearer(token);
    if (!found) return make_error(found.error());
    const dashboard::Access access = access_of(found->role);
    const bool is_of_trials = experiments_ != nullptr && experiments_->is_of_trials(found->token_id);
    const bool is_program = access == dashboard::Access::kUser && found->user.empty() && !is_of_trials;
    if (access != dashboard::Access::kOpen && !is_program)
      return dashboard::Visitor{.token_id = found->token_id, .access = access, .user = found->user};
    return make_error(
        ErrorCode::kPermissionDenied,
        fmt::format("token {} has role {}, which does not open the dashboard. Create one with `volador token create "
                    "--role=viewer` (or operator) on the head's machine.",
                    found->token_id, to_string(found->role)));
  }
  std::optional<dashboard::Access> access_of(const std::string& token_id) override {
    const auto account = head_.account(token_id);
    if (!account) return std::nullopt;
    return access_of(account->role);
  }

 private:
  static dashboard::Access access_of(security::TokenRole role) {
    switch (role) {
      case security::TokenRole::kOperator:
        return dashboard::Access::kOperator;
      case security::TokenRole::kDriver:
        return dashboard::Access::kUser;
      case security::TokenRole::kViewer:
        return dashboard::Access::kViewer;
      case security::TokenRole::kJoin:
        break;
    }
    return dashboard::Access::kOpen;
  }

  head::HeadAccess& head_;
  operations::Registry& registry_;
  head::SignOn* const sign_on_;  // May be null, likewise below.
  const ExperimentServer* const experiments_;
  dashboard::Dashboard* dashboard_ = nullptr;
};

// Forwards the messages of a WebSocket client to a gRPC call.
class StreamFeed final : public dashboard::Dashboard::Feed {
 public:
  explicit StreamFeed(std::shared_ptr<head::WatchStream> stream) : stream_(std::move(stream)) {}

  bool busy() const override { return stream_->busy(); }
  void send(std::string text, uint64_t seq, const std::string& instance, bool resumable) override {
    if (text.starts_with("{\"type\":\"hello\"")) return;
    if (text.starts_with("{\"type\":\"error\"")) {
      const auto error = nlohmann::json::parse(text);
      return stream_->finish(
          make_error(error_code_from(std::string_view(error.value("code", ""))), error.value("detail", "")));
    }
    v1::WatchReply reply;
    reply.set_json(std::move(text));
    reply.set_seq(seq);
    reply.set_instance(instance);
    reply.set_resumable(resumable);
    stream_->send(std::move(reply));
  }
  void close(std::string) override {
    stream_->finish(make_error(ErrorCode::kUnauthenticated, "the token behind this watch does not count any more"));
  }

 private:
  const std::shared_ptr<head::WatchStream> stream_;
};

dashboard::Visitor visitor_of(const security::Principal& by) {
  const dashboard::Access access = by.role == security::Role::kOperator ? dashboard::Access::kOperator
                                   : by.role == security::Role::kDriver ? dashboard::Access::kUser
                                                                        : dashboard::Access::kViewer;
  return {.token_id = by.token_id, .access = access, .user = by.user};
}

void open_watch(dashboard::Dashboard& dashboard, const v1::WatchRequest& request, const security::Principal& by,
                const std::shared_ptr<head::WatchStream>& stream) {
  nlohmann::json filter = nlohmann::json::object();
  for (const auto& [name, value] : request.filter()) filter[name] = value;
  const nlohmann::json first{{"op", "sub"},
                             {"id", 1},
                             {"topic", request.topic()},
                             {"filter", filter},
                             {"resume", {{"instance", request.instance()}, {"seq", request.seq()}}}};
  const auto follower = dashboard.follow(visitor_of(by), std::make_shared<StreamFeed>(stream),
                                         first.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  stream->follow({.on_written = follower.on_written, .on_end = follower.on_closed});
}

void list_rows(dashboard::Dashboard& dashboard, const security::Principal& by, const v1::ListRowsRequest& request,
               std::function<void(Result<std::string>)> done) {
  std::map<std::string, std::string> query{{"filter", request.filter()}, {"order", request.order()}};
  if (!request.page_token().empty()) query["page_token"] = request.page_token();
  if (request.page_size() != 0) query["page_size"] = std::to_string(request.page_size());
  for (const std::string& field : request.fields()) query["fields"] += field + ",";
  dashboard.list(by, request.topic(), request.of(), std::move(query), std::move(done));
}

std::string host_part(const std::string& address) { return address.substr(0, address.rfind(':')); }

// The server accepts the certificate's names, and uses the first one in links if the certificate does not cover the
// address.
Result<void> use_own_certificate(const security::OwnCertificateFiles& files, WallTime now,
                                 dashboard::DashboardOptions& serve) {
  auto own = security::load_own_certificate(files, now);
  if (!own) return make_error(own.error());
  serve.certificate_pem = own->certificate_pem;
  serve.key_pem = own->key_pem;
  serve.own_certificate = files;
  std::string link_name;
  for (const std::string& name : own->names) {
    if (name.find('*') != std::string::npos) continue;
    serve.names.push_back(name);
    const bool leads_here = !net::is_loopback(serve.bind) || net::is_loopback(name);
    if (link_name.empty() && leads_here) link_name = name;
  }
  if (!own->is_for(serve.host) && !link_name.empty()) serve.host = link_name;
  return {};
}

}  // namespace

// In construction order; stop() ends them in reverse, except that the head ends before its port, which its loop may
// still call.
struct HeadRole::Impl {
  std::unique_ptr<head::HeadProcess> head;
  std::unique_ptr<StudyServer> studies;
  // Without the server of jobs it shows ranks of an earlier head to operators only.
  const std::shared_ptr<RankGuard> guard = std::make_shared<RankGuard>();
  std::unique_ptr<JobServer> jobs;  // Null: this head takes no jobs, likewise below.
  std::unique_ptr<ExperimentServer> experiments;
  std::unique_ptr<KatibServer> katib;
  std::unique_ptr<KatibStoreServer> katib_store;  // Null: no early stopping service is registered.
  std::unique_ptr<HeadPort> port;
  std::unique_ptr<dashboard::Dashboard> dashboard;
  std::unique_ptr<dashboard::AlertSender> alerts;  // Null: no webhook.
  std::string token_id;                            // Token behind the links printed here.
  bool stopped = false;

  Result<std::unique_ptr<head::Journal>> open_part(const head::HeadOptions& options, const std::string& part);
  Result<void> open_studies(const head::HeadOptions& options, const Clock& clock);
  Result<void> open_jobs(const head::HeadOptions& options, JobProgram program, const Clock& clock);
  Result<void> open_experiments(const head::HeadOptions& options, const ExperimentPlace& place, bool has_page,
                                const Clock& clock);
  Result<void> open_katib(const head::HeadOptions& options, const ExperimentPlace& place, const Clock& clock);
  Result<void> open_dashboard(const head::HeadOptions& options, const DashboardPlace& place, const Clock& clock);
};

// A store of its own next to the head's, whose folder is locked by the head.
Result<std::unique_ptr<head::Journal>> HeadRole::Impl::open_part(const head::HeadOptions& options,
                                                                 const std::string& part) {
  const head::HeadReady& ready = head->ready();
  if (options.store.empty()) {
    const auto folder = options.paths.cluster(ready.cluster).head().directory;
    return head::open_sqlite_journal({.file = folder / (part + ".db"), .durability = options.durability});
  }
  auto address = head::parse_redis_url(options.store);
  if (!address) return make_error(address.error());
  return head::open_redis_journal({.address = *address,
                                   .cluster = ready.cluster_id,
                                   .part = part,
                                   .durability = options.durability,
                                   .force = options.force_store});
}

Result<void> HeadRole::Impl::open_studies(const head::HeadOptions& options, const Clock& clock) {
  auto journal = open_part(options, "studies");
  if (!journal) return make_error(journal.error());
  studies = std::make_unique<StudyServer>(std::move(*journal), clock);
  studies->serve_on(head->registry());
  return {};
}

Result<void> HeadRole::Impl::open_jobs(const head::HeadOptions& options, JobProgram program, const Clock& clock) {
  auto journal = open_part(options, "jobs");
  if (!journal) return make_error(journal.error());
  const auto folder = options.paths.cluster(head->ready().cluster).head().directory;
  guard->set_groups([&access = head->access()](const std::string& user) { return access.groups_of(user); });
  jobs = std::make_unique<JobServer>(std::move(*journal), head->access(),
                                     JobServerOptions{.cluster = head->ready().cluster,
                                                      .cluster_id = to_string(head->ready().cluster_id),
                                                      .guard = guard,
                                                      .files = folder / "job_files",
                                                      .program = std::move(program)},
                                     clock);
  jobs->serve_on(head->registry());
  return {};
}

Result<void> HeadRole::Impl::open_experiments(const head::HeadOptions& options, const ExperimentPlace& place,
                                              bool has_page, const Clock& clock) {
  auto journal = open_part(options, "experiments");
  if (!journal) return make_error(journal.error());
  const ClusterPaths cluster = options.paths.cluster(head->ready().cluster);
  std::string storage = place.checkpoint_storage, local_storage;
  if (storage.empty()) {
    storage = local_storage = (cluster.directory / "checkpoints").native();
    VOLADOR_TRY(make_private_directory(storage));
  }
  auto defaults = experiment_defaults(storage);
  if (!defaults) return make_error(defaults.error());
  experiments = std::make_unique<ExperimentServer>(
      std::move(*journal), head->access(), head->registry(),
      ExperimentServerOptions{.cluster_id = to_string(head->ready().cluster_id),
                              .address = head->ready().address,
                              .defaults = std::move(*defaults),
                              .local_storage = std::move(local_storage),
                              .files = cluster.head().directory / "job_files",
                              .metrics = cluster.head().directory / "metrics",
                              .survive_power_cut = options.durability == head::Durability::kPower,
                              .has_page = has_page,
                              .submit =
                                  [jobs = jobs.get()](const security::Principal& by, v1::SubmitJobRequest request,
                                                      std::function<void(Result<v1::SubmitJobReply>)> done) {
                                    jobs->submit_trial(by, std::move(request), std::move(done));
                                  }},
      clock);
  // Until the resources are known too, all archives of code folders stay.
  jobs->set_trial_hooks({.on_job = [to = experiments.get()](const v1::Job& job) { to->on_job(job); },
                         .needs_files = [](const std::string&) { return true; }});
  experiments->serve();
  experiments->wait_until_read();
  return {};
}

// After the experiments.
Result<void> HeadRole::Impl::open_katib(const head::HeadOptions& options, const ExperimentPlace& place,
                                        const Clock& clock) {
  const auto entries_of = [](const std::string& setting) -> Result<KatibServiceEntries> {
    if (setting.empty()) return KatibServiceEntries();
    return katib_service_entries(setting);
  };
  auto suggestions = entries_of(place.katib_suggestions);
  if (!suggestions) return make_error(suggestions.error());
  auto early_stopping = entries_of(place.katib_early_stopping);
  if (!early_stopping) return make_error(early_stopping.error());
  auto journal = open_part(options, "katib");
  if (!journal) return make_error(journal.error());
  if (!early_stopping->empty()) {
    using Reply = api::v1::beta1::GetObservationLogReply;
    auto store = KatibStoreServer::start([&registry = head->registry()](const auto& request, auto done) {
      registry.call<Reply>("DBManager/GetObservationLog", principal_of_cluster(), request,
                           operations::Registry::Done<Reply>(std::move(done)));
    });
    if (!store) return make_error(store.error());
    katib_store = std::move(*store);
  }
  const auto folder = options.paths.cluster(head->ready().cluster).head().directory;
  katib = std::make_unique<KatibServer>(
      std::move(*journal), head->access(), head->registry(), *experiments,
      KatibServerOptions{.files = folder / "job_files",
                         .services = {.suggestions = std::move(*suggestions),
                                      .early_stopping = std::move(*early_stopping),
                                      .db_manager_address = katib_store ? katib_store->address() : std::string(),
                                      .owner = to_string(head->ready().cluster_id),
                                      .logs = folder / "katib_services"},
                         .submit =
                             [jobs = jobs.get()](const security::Principal& by, v1::SubmitJobRequest request,
                                                 std::function<void(Result<v1::SubmitJobReply>)> done) {
                               jobs->submit_trial(by, std::move(request), std::move(done));
                             }},
      clock);
  jobs->set_trial_hooks({.on_job =
                             [to = experiments.get(), resources = katib.get()](const v1::Job& job) {
                               to->on_job(job);
                               resources->on_job(job);
                             },
                         .needs_files =
                             [to = experiments.get(), resources = katib.get()](const std::string& sha256) {
                               return to->needs_files(sha256) || resources->needs_files(sha256);
                             }});
  katib->serve();
  return {};
}

Result<void> HeadRole::Impl::open_dashboard(const head::HeadOptions& options, const DashboardPlace& place,
                                            const Clock& clock) {
  const head::HeadReady& ready = head->ready();
  head::HeadAccess& access = head->access();
  auto own = access.bearer(ready.operator_token);
  if (!own) return make_error(own.error());
  token_id = own->token_id;
  const std::string host = host_part(ready.address);
  dashboard::DashboardOptions serve{
      .bind = ready.this_machine_only ? host : options.bind,
      .port = static_cast<uint16_t>(place.port),
      .host = host,
      .public_url = place.public_url,
      .cluster = ready.cluster,
      .cluster_address = ready.address,
      .machine_id = machine_id().value_or(""),
      .state_file = options.paths.cluster(ready.cluster).head().directory / "dashboard.json"};
  if (serve.bind.empty() || serve.bind == "localhost") serve.bind = host == "localhost" ? "127.0.0.1" : host;
  std::string authority_pem;
  if (place.certificate) {
    VOLADOR_TRY(use_own_certificate(*place.certificate, clock.wall(), serve));
  } else if (!net::is_loopback(serve.bind)) {
    auto certificate = access.issue_certificate({host, "localhost"});
    if (!certificate) return make_error(certificate.error());
    serve.certificate_pem = certificate->certificate_pem;
    serve.key_pem = certificate->key_pem;
    authority_pem = certificate->authority_pem;
  }
  port = std::make_unique<HeadPort>(access, head->registry(), head->sign_on(), experiments.get());
  auto started = dashboard::Dashboard::start(serve, *port, clock);
  if (!started) return make_error(started.error());
  dashboard = std::move(*started);
  port->attach(*dashboard);
  if (jobs) jobs->set_page(dashboard->url());
  if (experiments) experiments->set_page(dashboard->url(), authority_pem);
  if (head->sign_on() != nullptr) head->sign_on()->set_page(dashboard->url());
  head->restore_experiments([to = dashboard.get()](const head::PastExperiment& piece, std::function<void()> done) {
    dashboard::PastRun past{
        .name = piece.name, .rows = *piece.rows, .started_ms = piece.started_ms, .updated_ms = piece.updated_ms};
    to->restore(std::move(past), std::move(done));
  });
  if (place.alerts) {
    alerts = std::make_unique<dashboard::AlertSender>(dashboard::AlertOptions{
        .to = *place.alerts,
        .secret = place.alert_secret,
        .context = {.cluster = ready.cluster, .cluster_id = to_string(ready.cluster_id), .page = dashboard->url()}});
  }
  // Runs on the head's loop; both only queue the data.
  access.watch([to = dashboard.get(), alert = alerts.get()](v1::Changes changes) {
    if (alert != nullptr) {
      for (const v1::Event& event : changes.events()) alert->take(event);
    }
    to->apply(std::move(changes));
  });
  head->set_login_link([this]() -> Result<std::string> {
    return dashboard->login_link({.token_id = token_id, .access = dashboard::Access::kOperator});
  });
  head->set_watch([to = dashboard.get()](const v1::WatchRequest& request, const security::Principal& by,
                                         const std::shared_ptr<head::WatchStream>& stream) {
    open_watch(*to, request, by, stream);
  });
  head->registry().serve<v1::ListRowsRequest, v1::ListRowsReply>(
      "Live/List", [to = dashboard.get()](const security::Principal& by, const v1::ListRowsRequest& request,
                                          const std::function<void(Result<v1::ListRowsReply>)>& done) {
        list_rows(*to, by, request, [done](Result<std::string> page) {
          if (!page) return done(make_error(page.error()));
          v1::ListRowsReply reply;
          reply.set_json(std::move(*page));
          done(std::move(reply));
        });
      });
  log::info("dashboard", "serves", {{"url", dashboard->url()}});
  return {};
}

HeadRole::HeadRole(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
HeadRole::~HeadRole() { stop(); }

Result<std::unique_ptr<HeadRole>> HeadRole::start(head::HeadOptions options,
                                                  const std::optional<DashboardPlace>& dashboard, const Clock& clock,
                                                  Random& random, JobProgram job_program,
                                                  const ExperimentPlace& experiments) {
  std::unique_ptr<HeadRole> role(new HeadRole(std::make_unique<Impl>()));
  options.check_config = check_config;
  options.guard = role->impl_->guard;
  options.services_beside = {"Studies"};
  if (job_program)
    options.services_beside.insert(options.services_beside.end(),
                                   {"Jobs", "Experiments", "Models", "TensorBoards", "Katib", "DBManager"});
  auto head = head::HeadProcess::start(options, clock, random);
  if (!head) return make_error(head.error());
  role->impl_->head = std::move(*head);
  VOLADOR_TRY(role->impl_->open_studies(options, clock));
  if (job_program) {
    VOLADOR_TRY(role->impl_->open_jobs(options, std::move(job_program), clock));
    VOLADOR_TRY(role->impl_->open_experiments(options, experiments, dashboard.has_value(), clock));
    VOLADOR_TRY(role->impl_->open_katib(options, experiments, clock));
  } else {
    role->impl_->guard->set_loaded();
  }
  if (dashboard) {
    VOLADOR_TRY(role->impl_->open_dashboard(options, *dashboard, clock));
  } else {
    role->impl_->head->restore_experiments(nullptr);
  }
  return role;
}

head::HeadProcess& HeadRole::head() { return *impl_->head; }
std::string HeadRole::dashboard_url() const { return impl_->dashboard ? impl_->dashboard->url() : ""; }
Result<std::string> HeadRole::login_link() {
  if (!impl_->dashboard)
    return make_error(ErrorCode::kNotFound, "this head serves no dashboard; start it without --no-dashboard");
  return impl_->dashboard->login_link({.token_id = impl_->token_id, .access = dashboard::Access::kOperator});
}

void HeadRole::stop() {
  // A second call must not reach parts that the head destroyed when it stopped.
  if (!impl_->head || std::exchange(impl_->stopped, true)) return;
  impl_->head->set_login_link(nullptr);
  impl_->head->set_watch(nullptr);
  impl_->head->registry().withdraw("Live");
  impl_->head->registry().withdraw("Studies");
  impl_->head->registry().withdraw("Katib");
  impl_->head->registry().withdraw("DBManager");
  if (impl_->katib) impl_->katib->stop();  // Before what runs its resources.
  impl_->head->registry().withdraw("Experiments");
  impl_->head->registry().withdraw("Models");
  impl_->head->registry().withdraw("TensorBoards");
  if (impl_->experiments) impl_->experiments->stop();  // Before the jobs, whose refusals would end trials.
  impl_->katib_store.reset();                          // What its calls waited for is dropped.
  impl_->head->registry().withdraw("Jobs");
  if (impl_->studies) impl_->studies->stop();
  if (impl_->jobs) impl_->jobs->stop();
  // Stop the connections first, since their requests go to the head; later messages to the closed dashboard are
  // dropped.
  if (impl_->dashboard) impl_->dashboard->stop();
  if (impl_->alerts) impl_->alerts->stop();
  impl_->head->stop();
}

}  // namespace volador
