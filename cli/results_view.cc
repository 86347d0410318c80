#include "cli/results_view.h"

#include <fmt/format.h>

#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

#include "dashboard/dashboard.h"
#include "head/kernel/core.h"
#include "runtime/actor/experiment_update.h"
#include "runtime/log.h"
#include "runtime/machine.h"
#include "runtime/operations/registry.h"
#include "runtime/protocol/volador/v1/cluster.pb.h"
#include "runtime/version.h"
#include "tune/results/experiment_directory.h"
#include "tune/results/run_reader.h"

namespace volador::cli {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

constexpr auto kLookEvery = 500ms;
constexpr size_t kRunsMax = 1000;  // Limit per folder.
constexpr size_t kRowsAtOnce = 5000;
constexpr std::string_view kVisitor = "view";
constexpr std::string_view kResultsOnly = "volador view shows results on disk; there is no cluster behind it";

bool is_run(const fs::path& folder) {
  std::error_code ignored;
  return fs::exists(folder / "experiment_state.json", ignored) || fs::exists(tune::journal_path(folder), ignored);
}

// Returns the folder itself, or the runs directly in it, by name. kNotFound.
Result<std::vector<fs::path>> find_runs(const fs::path& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    return make_error(
        ErrorCode::kNotFound,
        fmt::format("{}: no such folder; name the directory of a run, as tune::run prints it, or a folder of such",
                    folder.string()));
  }
  if (is_run(folder)) return std::vector<fs::path>{folder};
  std::vector<fs::path> runs;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    std::error_code ignored;
    if (entry.is_directory(ignored) && is_run(entry.path())) runs.push_back(entry.path());
  }
  if (error)
    return make_error(ErrorCode::kNotFound,
                      fmt::format("{}: {}; let this user read it", folder.string(), error.message()));
  std::sort(runs.begin(), runs.end());
  if (runs.size() > kRunsMax) runs.erase(runs.begin(), runs.end() - static_cast<std::ptrdiff_t>(kRunsMax));
  return runs;
}

head::Options core_options(const std::string& name, Random& random) {
  head::Options options{
      .cluster_id = new_id<ClusterId>(random), .cluster_name = name, .version = std::string(kVersion)};
  options.limits.experiments = kRunsMax;
  options.limits.trials = 200'000;
  return options;
}

Error no_logs() {
  return {ErrorCode::kNotFound, fmt::format("{}. What its trials printed is with the cluster that ran them; what "
                                            "failed stands in error.txt of each trial",
                                            kResultsOnly)};
}

}  // namespace

struct ResultsView::Impl final : dashboard::ClusterPort {
  Impl(fs::path of, const Clock& c, Random& r)
      : folder(std::move(of)), clock(c), random(r), core(core_options(folder.filename().string(), r), r) {
    register_operations();
  }

  // ---- Queries of the dashboard ----

  operations::Registry& registry() override { return operations_registry; }
  void logs(const security::Principal&, const std::string&, const std::string&, int,
            Done<dashboard::LiveClient::FoundLogs> done) override {
    done(make_error(no_logs()));
  }
  void follow_logs(bool) override {}
  void list_run_files(const std::string&, const std::string&, Done<std::vector<RunFiles::Entry>> done) override {
    done(make_error(ErrorCode::kNotFound, std::string(kResultsOnly)));
  }
  void open_run_file(const std::string&, const std::string&, const std::string&, Done<RemoteFile> done) override {
    done(make_error(ErrorCode::kNotFound, std::string(kResultsOnly)));
  }
  Result<dashboard::Visitor> bearer(std::string_view) override {
    return make_error(
        ErrorCode::kUnauthenticated,
        "volador view takes no tokens; open the link that it printed, or press Enter where it runs for a fresh one");
  }
  std::optional<dashboard::Access> access_of(const std::string& token_id) override {
    if (token_id != kVisitor) return std::nullopt;
    return dashboard::Access::kOperator;
  }
  void register_operations();

  // ---- Reading ----

  struct Watched {
    std::unique_ptr<tune::RunReader> reader;
    head::ClientSession session{};
    std::string problem;  // Reported once.
  };
  void watch_forever();
  bool look_once();
  bool look_at(const fs::path& path, Watched& run);
  void connect(Watched& run, const fs::path& path);
  void hand_on();
  void stop();

  operations::Registry operations_registry;
  const fs::path folder;
  const std::string machine = machine_id().value_or("here");
  const Clock& clock;
  Random& random;
  std::mutex mutex;  // Protects the core.
  head::HeadCore core;
  size_t found = 0;
  uint64_t sessions = 0;
  std::map<fs::path, Watched> runs;  // Used on the thread only.
  std::unique_ptr<dashboard::Dashboard> dashboard;
  std::mutex stop_mutex;
  std::condition_variable wake;
  bool stopping = false;
  std::thread thread;
};

void ResultsView::Impl::register_operations() {
  operations_registry.set_absent("Cluster", std::string(kResultsOnly));
  operations_registry.set_absent("Studies",
                                 "there are no studies here: a head that `volador start --head` started keeps them");
  operations_registry.serve<v1::ExplainRequest, v1::ExplainReply>(
      "Cluster/Explain",
      [this](const security::Principal&, const v1::ExplainRequest& request, const Done<v1::ExplainReply>& done) {
        const std::lock_guard lock(mutex);
        done(core.explainer().explain(clock.now(), request.id()));
      });
  operations_registry.serve<v1::ReadLogRequest, v1::ReadLogReply>(
      "Cluster/ReadLog", [](const security::Principal&, const v1::ReadLogRequest&, const Done<v1::ReadLogReply>& done) {
        done(make_error(no_logs()));
      });
  // Lists that are empty here, so that the page shows them as such.
  operations_registry.serve<v1::ListRequest, v1::NodeProcesses>(
      "Cluster/ListProcesses", [](const security::Principal&, const v1::ListRequest&,
                                  const Done<v1::NodeProcesses>& done) { done(v1::NodeProcesses()); });
  operations_registry.serve<v1::ListRequest, v1::ListObjectsReply>(
      "Cluster/ListObjects", [](const security::Principal&, const v1::ListRequest&,
                                const Done<v1::ListObjectsReply>& done) { done(v1::ListObjectsReply()); });
}

// Connects as a new driver, which discards the data of an earlier one about the run.
void ResultsView::Impl::connect(Watched& run, const fs::path& path) {
  run.session = head::ClientSession{++sessions};
  protocol::ClientMessage message;
  protocol::Hello& hello = *message.mutable_hello();
  hello.set_protocol_version(1);
  hello.set_driver_id(raw(new_id<DriverId>(random)));
  hello.set_name(path.filename().string());
  hello.set_machine_id(machine);
  hello.mutable_program()->set_sha256(std::string(32, '\0'));
  const std::lock_guard lock(mutex);
  core.on_client_message(clock.now(), run.session, message);
}

// Returns whether there is more to read at once.
bool ResultsView::Impl::look_at(const fs::path& path, Watched& run) {
  if (!run.reader) {
    run.reader = std::make_unique<tune::RunReader>(path, clock);
    connect(run, path);
  }
  auto news = run.reader->look();
  if (!news) {
    if (news.error().message != run.problem)
      log::warn("view", "a run cannot be read", {{"run", path.string()}, {"why", news.error().message}});
    run.problem = news.error().message;
    return false;
  }
  run.problem.clear();
  if (!*news) return false;
  if ((*news)->afresh) {
    {
      const std::lock_guard lock(mutex);
      core.on_client_lost(clock.now(), run.session);
    }
    connect(run, path);
  }
  protocol::ClientMessage message;
  *message.mutable_experiment() = to_update((*news)->report);
  {
    const std::lock_guard lock(mutex);
    core.on_client_message(clock.now(), run.session, message);
  }
  dashboard->set_times((*news)->report.experiment, (*news)->started, (*news)->written);
  hand_on();
  return (*news)->more;
}

void ResultsView::Impl::hand_on() {
  const std::lock_guard lock(mutex);
  const BootTime now = clock.now();
  while (core.change_feed().any(now)) {
    dashboard->apply(core.change_feed().take(now, kRowsAtOnce));
  }
}

bool ResultsView::Impl::look_once() {
  if (const auto paths = find_runs(folder)) {
    for (const fs::path& path : *paths) runs[path];
  }
  bool more = false;
  for (auto& [path, run] : runs) more = look_at(path, run) || more;
  return more;
}

void ResultsView::Impl::watch_forever() {
  while (true) {
    const bool more = look_once();
    std::unique_lock lock(stop_mutex);
    if (wake.wait_for(lock, more ? 0ms : std::chrono::milliseconds(kLookEvery), [this] { return stopping; })) return;
  }
}

void ResultsView::Impl::stop() {
  {
    const std::lock_guard lock(stop_mutex);
    stopping = true;
  }
  wake.notify_all();
  if (thread.joinable()) thread.join();
  if (dashboard) dashboard->stop();
}

ResultsView::ResultsView(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ResultsView::~ResultsView() { stop(); }

Result<std::unique_ptr<ResultsView>> ResultsView::start(const fs::path& folder, uint16_t port, const Clock& clock,
                                                        Random& random) {
  std::error_code unknown;
  fs::path whole = fs::weakly_canonical(folder, unknown);
  if (unknown) whole = fs::absolute(folder);
  const auto runs = find_runs(whole);
  if (!runs) return make_error(runs.error());
  if (runs->empty()) {
    return make_error(ErrorCode::kNotFound,
                      fmt::format("{}: neither it nor a folder right below it is a run (no experiment_state.json, no "
                                  "journal.vlj); name the directory that "
                                  "tune::run prints; volador tune list shows those of {}",
                                  whole.string(), tune::display_path(tune::default_storage_path())));
  }
  auto impl = std::make_unique<Impl>(whole, clock, random);
  impl->found = runs->size();
  {
    const std::lock_guard lock(impl->mutex);
    impl->core.start(clock.now());
    impl->core.change_feed().watch();
  }
  auto served = dashboard::Dashboard::start({.bind = "127.0.0.1",
                                             .port = port,
                                             .cluster = whole.filename().string(),
                                             .cluster_address = "",
                                             .view_of = whole.string(),
                                             .machine_id = impl->machine},
                                            *impl, clock);
  if (!served) return make_error(served.error());
  impl->dashboard = std::move(*served);
  impl->thread = std::thread([view = impl.get()] { view->watch_forever(); });
  return std::unique_ptr<ResultsView>(new ResultsView(std::move(impl)));
}

size_t ResultsView::runs() const { return impl_->found; }
std::string ResultsView::url() const { return impl_->dashboard->url(); }
std::string ResultsView::login_link() {
  return impl_->dashboard->login_link({.token_id = std::string(kVisitor), .access = dashboard::Access::kViewer});
}
void ResultsView::stop() { impl_->stop(); }

}  // namespace volador::cli
