#include "python-bindings/core/train.h"

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "python-bindings/core/convert.h"
#include "python-bindings/core/gil.h"
#include "python-bindings/core/tune.h"
#include "runtime/actor/session.h"
#include "train/core/coordinator.h"
#include "train/report/run_report.h"
#include "train/report/stored_checkpoint.h"

namespace volador::python {
namespace {

using train::Coordinator;
using train::MemberId;
using train::RunReport;
namespace elastic = train::elastic;

// ---- Actions as tuples whose first element is their name.

nb::object tuple_of(const elastic::Spawn& action) { return nb::make_tuple("spawn", action.members); }
nb::object tuple_of(const elastic::Kill& action) {
  return nb::make_tuple("kill", action.id, action.cause != elastic::KillCause::kLeaving, action.reason);
}
nb::object tuple_of(const elastic::Abort& action) { return nb::make_tuple("abort", action.generation, action.members); }
nb::object tuple_of(const elastic::Pause& action) { return nb::make_tuple("pause", action.generation, action.members); }
nb::object tuple_of(const elastic::Form& action) { return nb::make_tuple("form", action.generation, action.members); }
nb::object tuple_of(const elastic::Run& action) {
  return nb::make_tuple("run", action.generation, action.segment, action.members);
}
nb::object tuple_of(const elastic::AskStatus& action) {
  return nb::make_tuple("ask_status", action.round, action.members);
}
nb::object tuple_of(const elastic::ReportSlow&) { return nb::make_tuple("none"); }  // Ranks name nobody they wait for.
nb::object tuple_of(const elastic::Finish&) { return nb::make_tuple("finish"); }
nb::object tuple_of(const elastic::Fail& action) {
  return nb::make_tuple("fail", std::string(to_string(action.error.code)), action.error.message);
}

// The coordinator with a clock that stands still while the head is away. Each event returns the actions to carry out.
class ElasticPolicy {
 public:
  using Actions = nb::typed<nb::list, nb::object>;  // Tuples.

  ElasticPolicy(int min_workers, int max_workers, int max_failures, double start_timeout_s, double hang_timeout_s)
      : coordinator_(value_or_raise(Coordinator::create({.min_workers = min_workers,
                                                         .max_workers = max_workers,
                                                         .max_failures = max_failures,
                                                         .start_timeout = to_duration(start_timeout_s),
                                                         .hang_timeout = to_duration(hang_timeout_s)}))) {}

  Actions begin() { return list_of(coordinator_.begin(now())); }
  Actions handle(const elastic::Event& event) { return list_of(coordinator_.handle(now(), event)); }
  const Coordinator& coordinator() const { return coordinator_; }
  // Seconds until tick() is due.
  std::optional<double> next_tick() const {
    const auto at = coordinator_.next_wakeup();
    if (!at) return std::nullopt;
    return std::max(0.0, std::chrono::duration<double>(*at - now()).count());
  }

 private:
  static Coordinator::Time now() {
    return std::chrono::steady_clock::now().time_since_epoch() - Session::current()->time_without_head();
  }
  static Actions list_of(const elastic::Actions& actions) {
    Actions list;
    for (const elastic::Action& action : actions)
      list.append(std::visit([](const auto& one) { return tuple_of(one); }, action));
    return list;
  }

  Coordinator coordinator_;
};

// Changes of actors' states, for one thread that waits for them.
class StatusWatch {
 public:
  using Change = std::tuple<uint64_t, std::string, std::string, bool, std::string>;

  // Token, state, name of the node, whether the node leaves, why the actor died.
  void add(const Handle& actor, uint64_t token) {
    const WithoutGil released;
    auto subscription = Session::current()->on_status(actor.id(), [state = state_, token](const ActorStatus& status) {
      const std::lock_guard hold(state->mutex);
      state->changes.emplace_back(token, std::string(to_string(status.state)), status.node_name, status.node_leaves,
                                  status.death.message);
      state->changed.notify_one();
    });
    const std::lock_guard hold(subscriptions_mutex_);
    subscriptions_[token] = std::move(subscription);
  }
  void remove(uint64_t token) {
    const WithoutGil released;
    std::shared_ptr<void> ended;  // Destroyed without the mutex.
    const std::lock_guard hold(subscriptions_mutex_);
    if (const auto found = subscriptions_.find(token); found != subscriptions_.end()) {
      ended = std::move(found->second);
      subscriptions_.erase(found);
    }
  }
  // Waits for changes; no value after close().
  std::optional<std::vector<Change>> next() {
    const WithoutGil released;
    std::unique_lock hold(state_->mutex);
    state_->changed.wait(hold, [this] { return state_->is_closed || !state_->changes.empty(); });
    if (state_->is_closed) return std::nullopt;
    return std::exchange(state_->changes, {});
  }
  void close() {
    const WithoutGil released;
    const std::lock_guard hold(state_->mutex);
    state_->is_closed = true;
    state_->changed.notify_all();
  }

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    std::vector<Change> changes;
    bool is_closed = false;
  };
  const std::shared_ptr<State> state_ = std::make_shared<State>();
  std::mutex subscriptions_mutex_;
  std::map<uint64_t, std::shared_ptr<void>> subscriptions_;
};

void start_report(RunReport* report, const std::string& name, const std::string& config, const std::string& metric,
                  const std::string& mode, const std::string& resources, const std::string& directory) {
  train::RunReportOptions options{.name = name,
                                  .config = value_or_raise(tune::Config::from_json(config)),
                                  .metric = metric,
                                  .mode = mode_of(mode, "mode"),
                                  .resources = resources,
                                  .directory = directory};
  const WithoutGil released;
  new (report) RunReport(Session::current(), std::move(options));
}

// Ctrl-C ends the wait for a storage.
void end_report(RunReport& report, const std::string& outcome, const std::string& message) {
  train::RunOutcome how = train::RunOutcome::kFailed;
  if (outcome == "finished") how = train::RunOutcome::kFinished;
  if (outcome == "stopped") how = train::RunOutcome::kStopped;
  bool is_interrupted = false;
  {
    const WithoutGil released;
    report.end(how, message, [&] {
      const WithGil held;
      return is_interrupted = is_interrupted || PyErr_CheckSignals() != 0;
    });
  }
  if (is_interrupted) throw nb::python_error();
}

}  // namespace

void bind_train(nb::module_& module) {
  nb::class_<ElasticPolicy>(module, "ElasticPolicy")
      .def(nb::init<int, int, int, double, double>(), nb::arg("min_workers"), nb::arg("max_workers"),
           nb::arg("max_failures"), nb::arg("start_timeout_s"), nb::arg("hang_timeout_s"))
      .def("begin", &ElasticPolicy::begin)
      .def("start", [](ElasticPolicy& policy) { return policy.handle(elastic::SegmentStart{.repeats = true}); })
      .def("member_ready",
           [](ElasticPolicy& policy, MemberId id, const std::string& node) {
             return policy.handle(elastic::MemberReady{id, node});
           })
      .def("member_lost",
           [](ElasticPolicy& policy, MemberId id, const std::string& cause, bool is_failure) {
             return policy.handle(elastic::MemberLost{id, cause, is_failure});
           })
      .def("member_notice", [](ElasticPolicy& policy, MemberId id) { return policy.handle(elastic::MemberNotice{id}); })
      .def("joined",
           [](ElasticPolicy& policy, MemberId id, uint64_t generation, int64_t step) {
             return policy.handle(elastic::Joined{id, generation, {step}});
           })
      .def("join_failed",
           [](ElasticPolicy& policy, MemberId id, uint64_t generation, const std::string& error) {
             return policy.handle(elastic::JoinFailed{id, generation, error});
           })
      .def("stopped",
           [](ElasticPolicy& policy, MemberId id, uint64_t generation, uint64_t segment, int64_t step,
              const std::string& why) {
             const train::Stop stop = why == "finished" ? train::Stop::kFinished
                                      : why == "paused" ? train::Stop::kPaused
                                                        : train::Stop::kAborted;
             return policy.handle(elastic::Stopped{id, generation, segment, {step}, stop});
           })
      .def("user_error",
           [](ElasticPolicy& policy, MemberId id, uint64_t generation, const std::string& message) {
             return policy.handle(elastic::UserError{id, generation, message});
           })
      .def("status",
           [](ElasticPolicy& policy, MemberId id, uint64_t generation, uint64_t round, int64_t step, double in_step_s) {
             return policy.handle(elastic::Status{.id = id,
                                                  .generation = generation,
                                                  .round = round,
                                                  .progress = {step},
                                                  .in_step_for = to_duration(in_step_s)});
           })
      .def("no_status",
           [](ElasticPolicy& policy, MemberId id, uint64_t round) {
             return policy.handle(elastic::NoStatus{id, round});
           })
      .def("tick", [](ElasticPolicy& policy) { return policy.handle(elastic::Tick{}); })
      .def_prop_ro("next_tick", &ElasticPolicy::next_tick)
      .def_prop_ro("generation", [](const ElasticPolicy& policy) { return policy.coordinator().generation(); })
      .def_prop_ro("members", [](const ElasticPolicy& policy) { return policy.coordinator().members(); })
      .def_prop_ro("failures", [](const ElasticPolicy& policy) { return policy.coordinator().failures(); })
      .def("explain", [](const ElasticPolicy& policy) { return policy.coordinator().explain(); });
  nb::class_<StatusWatch>(module, "StatusWatch")
      .def(nb::init<>())
      .def("add", &StatusWatch::add)
      .def("remove", &StatusWatch::remove)
      .def("next", &StatusWatch::next)
      .def("close", &StatusWatch::close);
  nb::class_<RunReport>(module, "RunReport")
      .def("__init__", &start_report, nb::arg("name"), nb::arg("config"), nb::arg("metric"), nb::arg("mode"),
           nb::arg("resources"), nb::arg("directory"))
      .def("metrics", [](RunReport& report, int64_t iteration,
                         const MetricMap& values) { report.metrics(iteration, to_metrics(values)); })
      .def("event", &RunReport::event)
      .def("fault", &RunReport::fault)
      .def("activity", &RunReport::activity)
      .def(
          "ranks",
          [](RunReport& report, const std::vector<std::tuple<Handle, std::string, int, std::string>>& ranks,
             int64_t step) {
            std::vector<train::RankReport> all;
            for (const auto& [actor, node, pid, device] : ranks) {
              all.push_back({.rank = static_cast<int>(all.size()),
                             .actor = actor.id(),
                             .node = node,
                             .pid = pid,
                             .device = device});
            }
            report.ranks(std::move(all), step);
          },
          nb::arg("ranks"), nb::arg("step"))
      .def("stop_requested", &RunReport::stop_requested)
      .def("note_checkpoint", &RunReport::note_checkpoint, nb::call_guard<WithoutGil>())
      .def("end", &end_report)
      .def_prop_ro("experiment", &RunReport::experiment)
      .def_prop_ro("directory", [](const RunReport& report) { return report.directory().string(); });
  module.def("fetch_checkpoint", [](const std::string& address, const std::string& folder) {
    return without_gil([&] { return train::fetch_checkpoint(address, folder); });
  });
  module.def("write_checkpoint_mark", [](const std::string& folder, int64_t step) {
    without_gil([&] { return train::write_checkpoint_mark(folder, step); });
  });
  module.def("step_of_checkpoint", [](const std::string& folder) { return train::step_of_checkpoint(folder); });
}

}  // namespace volador::python
