// The thread of the experiments and what it keeps: shared by the files that serve its operations.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "experiments/core/experiment_core.h"
#include "experiments/metrics/metric_store.h"
#include "experiments/models/model_registry.h"
#include "head/shell/core_runner.h"
#include "head/shell/head_access.h"
#include "runtime/operations/registry.h"
#include "runtime/protocol/control.pb.h"
#include "runtime/protocol/volador/v1/experiments.pb.h"
#include "runtime/random.h"
#include "volador/roles/experiment_audit.h"
#include "volador/roles/experiment_jobs.h"
#include "volador/roles/experiment_rows.h"
#include "volador/roles/experiment_server.h"
#include "volador/roles/long_polls.h"
#include "volador/roles/tensorboard_jobs.h"

namespace volador {

using experiments::ExperimentActions;
using experiments::ExperimentRequester;

inline constexpr int64_t kExperimentWaitMaxMs = 60'000;

inline ExperimentRequester requester_from(const security::Principal& by) {
  return {.token_id = by.token_id, .user = by.user, .operates = by.role == security::Role::kOperator};
}

inline ExperimentRequester head_itself() { return requester_from(principal_of_cluster()); }

// Nodes of the cluster.
struct ClusterSlots {
  experiments::SlotsView view;
  size_t machines = 0;
};

struct ExperimentServer::Impl : std::enable_shared_from_this<ExperimentServer::Impl> {
  Impl(std::unique_ptr<head::Journal> store, head::HeadAccess& h, operations::Registry& r, ExperimentServerOptions o,
       const Clock& c)
      : journal(std::move(store)),
        head(h),
        registry(r),
        options(std::move(o)),
        clock(c),
        core({}, random, {.name = "the cluster's defaults", .text = options.defaults}) {}

  template <class T>
  using Done = std::function<void(Result<T>)>;
  using Principal = security::Principal;
  using Token = std::pair<std::string, std::string>;  // Id and text.

  // Receives the messages of the head to the program that shows the experiments.
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
  bool post(std::function<void()> function, bool may_refuse = false);
  void later(std::chrono::milliseconds delay, std::function<void()> function) {
    timers.emplace(clock.now() + delay, std::move(function));
  }
  ExperimentJobs::Parts job_parts();
  TensorBoardJobs::Parts board_parts();  // experiment_boards.cc
  // Variables that all jobs get.
  std::vector<std::pair<std::string, std::string>> job_env() const;

  // Answers a request on the thread. Its reply is sent when the changes are stored.
  template <class Request, class Reply>
  void serve(std::string_view name, std::function<Result<Reply>(const Principal& by, const Request& request)> handler);
  // Likewise for a request that waits for a change of `key_of` if the handler has no reply yet; after its time the reply
  // is empty.
  template <class Request, class Reply>
  void serve_wait(
      std::string_view name, std::function<LongPolls::Key(const Request& request)> key_of,
      std::function<Result<std::optional<Reply>>(const ExperimentRequester& by, const Request& request)> ask);
  template <class Reply>
  bool queue(const Done<Reply>& done, std::function<void()> function);
  template <class Reply>
  void answer(Done<Reply> done, Result<Reply> reply, std::optional<head::AuditRequest> asked = std::nullopt);
  void serve_users();
  void serve_trials();
  void serve_models();  // experiment_models.cc
  void serve_boards();  // experiment_boards.cc
  void create(const Principal& by, const v1::CreateExperimentRequest& request, const std::string& katib,
              Done<v1::CreateExperimentReply> done);
  void create_with(const Principal& by, const v1::CreateExperimentRequest& request, const std::string& katib,
                   const ClusterSlots& slots, Done<v1::CreateExperimentReply> done);
  // Runs the function and answers when its changes are stored.
  void do_and_answer(Done<void> done, std::function<Result<void>()> function);
  void tell_resources(const std::set<int64_t>& of, const std::set<int64_t>& trials,
                      const std::vector<int64_t>& deleted);
  void tell_all_resources();
  // For programs of the cluster that have no user.
  void make_token(const std::string& note, Done<Token> done);
  // For programs that act as the user.
  void make_token(const Principal& by, const std::string& note, Done<Token> done);
  Result<v1::GetExperimentFilesReply> get_files(const v1::GetExperimentFilesRequest& request,
                                                const ExperimentRequester& by) const;
  Result<v1::GetMetricsReply> get_metrics(const v1::GetMetricsRequest& request, const ExperimentRequester& by) const;
  v1::ExperimentInfo named(v1::ExperimentInfo experiment) const {
    experiment.set_run(run_name_of(experiment));
    return experiment;
  }

  void run();
  void open();
  void collect();
  void note_row(std::string_view table, std::string_view key, const std::optional<std::string>& value);
  Result<void> keep();
  bool store();
  void act();
  void settle();
  std::chrono::milliseconds patience() const;

  // ---- rows in the head's list of experiments ----
  void connect();
  void on_message(uint64_t number, const protocol::HeadMessage& message);
  void on_lost(uint64_t number);
  void on_request(const protocol::ExperimentRequest& request);
  void show_all();
  void show_changes();
  void show(int64_t experiment, const std::set<int64_t>* trials);
  const experiments::SearchOutlook& outlook_of(const v1::ExperimentInfo& experiment);
  void send(protocol::ExperimentUpdate update);
  void seen(const v1::Job& job);

  const std::unique_ptr<head::Journal> journal;
  head::HeadAccess& head;
  operations::Registry& registry;
  const ExperimentServerOptions options;
  const Clock& clock;

  mutable std::mutex mutex;
  std::condition_variable wake;
  std::deque<std::function<void()>> requests;
  bool stopped = false;
  std::string page, page_authority;
  // What other threads ask for; from the rows of experiments.
  struct Kept {
    std::string files, token_id;
  };
  bool loaded = false, was_read = false;  // `was_read`: also if it could not be read.
  std::map<int64_t, Kept> kept;
  std::map<std::string, int64_t, std::less<>> tokens;  // Experiments by the id of their trials' token.

  // Confined to the thread.
  SystemRandom random;
  experiments::ExperimentCore core;
  experiments::ModelRegistry models{{}, core};
  ExperimentJobs jobs{job_parts()};
  TensorBoardJobs boards{board_parts()};
  std::optional<experiments::MetricStore> metrics;
  ExperimentActions actions;          // Taken from the core; `rows` are in `batch`, the metrics in `reports`.
  std::vector<head::Mutation> batch;  // Possibly not stored.
  std::deque<std::variant<experiments::MetricReport, experiments::MetricRewind>> reports;  // Likewise, in order.
  std::vector<std::function<void(const std::optional<Error>&)>> answers;                   // Wait for the store.
  std::optional<Error> refusal;  // While set, requests are refused.
  bool readable = true;
  LongPolls polls;
  std::multimap<BootTime, std::function<void()>> timers;

  DriverId driver;
  uint64_t connection = 0;  // Number of the newest connection to the head.
  std::optional<head::ClientSession> session;
  bool welcome = false;
  std::optional<BootTime> connect_after;
  bool any_shown = false;                               // Whether there is an experiment to show.
  std::map<int64_t, std::set<int64_t>> changed;         // Trials by experiment, whose rows are to be sent.
  std::map<int64_t, TrialPlace> places;                 // By trial.
  std::map<int64_t, TrialPoints> points;                // By trial.
  std::map<int64_t, int64_t> planned;                   // Trials that the search creates, by experiment.
  std::map<int64_t, std::pair<int64_t, double>> bests;  // Best trial and metric that were sent, by experiment.
  std::map<int64_t, std::pair<experiments::SearchOutlook, BootTime>> outlooks;  // And when they are made again.
  BootTime rows_after{};
  ResourceHooks hooks;
  std::map<int64_t, int64_t>
      observed;  // Number of reports of group "observation" by trial, where one came from outside.
  std::thread thread;
};

template <class Reply>
bool ExperimentServer::Impl::queue(const Done<Reply>& done, std::function<void()> function) {
  if (post(std::move(function), true)) return true;
  done(make_error(ErrorCode::kUnavailable,
                  "the head stops or has too many requests for experiments; ask again, with the same request_id"));
  return false;
}

template <class Reply>
void ExperimentServer::Impl::answer(Done<Reply> done, Result<Reply> reply, std::optional<head::AuditRequest> asked) {
  answers.push_back([this, done = std::move(done), reply = std::move(reply),
                     asked = std::move(asked)](const std::optional<Error>& unstored) {
    const Result<Reply> outcome = unstored && reply ? Result<Reply>(make_error(*unstored)) : reply;
    if (asked) head.record(*asked, outcome ? Result<void>() : make_error(outcome.error()));
    done(outcome);
  });
}

template <class Request, class Reply>
void ExperimentServer::Impl::serve(std::string_view name,
                                   std::function<Result<Reply>(const Principal& by, const Request& request)> handler) {
  registry.serve<Request, Reply>(
      name, [this, handler = std::move(handler)](const Principal& by, const Request& request, Done<Reply> done) {
        queue<Reply>(done, [this, handler, by, request, done] {
          auto asked = audit_of(request);
          if (asked) asked->by = by.token_id;
          answer<Reply>(done, refusal ? Result<Reply>(make_error(*refusal)) : handler(by, request), std::move(asked));
        });
      });
}

template <class Request, class Reply>
void ExperimentServer::Impl::serve_wait(
    std::string_view name, std::function<LongPolls::Key(const Request& request)> key_of,
    std::function<Result<std::optional<Reply>>(const ExperimentRequester& by, const Request& request)> ask) {
  registry.serve<Request, Reply>(name, [this, key_of = std::move(key_of), ask = std::move(ask)](
                                           const Principal& by, const Request& request, Done<Reply> done) {
    queue<Reply>(done, [this, key_of, ask, by = requester_from(by), request, done] {
      if (refusal) return answer<Reply>(done, make_error(*refusal));
      auto reply = ask(by, request);
      if (!reply) return answer<Reply>(done, make_error(reply.error()));
      if (*reply || request.wait_ms() <= 0) return answer<Reply>(done, reply->value_or(Reply()));
      if (polls.size() >= options.waits)
        return answer<Reply>(done, make_error(ErrorCode::kUnavailable, "too many requests wait; ask again later"));
      const std::chrono::milliseconds wait(std::min(request.wait_ms(), kExperimentWaitMaxMs));
      polls.add(key_of(request), clock.now() + wait, [ask, by, request, done](bool last) {
        auto found = ask(by, request);
        if (!found) {
          done(make_error(found.error()));
          return true;
        }
        if (!*found && !last) return false;
        done(found->value_or(Reply()));
        return true;
      });
    });
  });
}

}  // namespace volador
