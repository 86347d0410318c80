// The trainer's side of a run: used by the files of Trainer alone.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runtime/actor/handle.h"
#include "runtime/actor/ref.h"
#include "runtime/job_thread.h"
#include "train/core/coordinator.h"
#include "train/report/run_report.h"
#include "train/trainer/rank_actor.h"
#include "train/trainer/trainer.h"

namespace volador::train {
// Carries out the coordinator's actions by calls of the ranks' actors, and feeds it with their outcomes. Everything but
// the inbox belongs to the thread that calls the trainer.
struct Trainer::Impl {
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kStatusTimeout{2};  // Limit for a rank to answer what it does.

  struct Member {
    ActorHandle<RankActor> actor;
    std::shared_ptr<void> watch;  // Subscription of the actor's state.
    std::optional<RankReady> ready;
    std::optional<RankView> seen;    // The last status.
    int rank = -1;                   // As last reported; -1: it has not been in a group.
    double data_s = 0, samples = 0;  // In this call of train().
    SegmentOffer offer;
    int bundle = -1;  // Bundle of the group; -1: outside.
    bool is_placed = false;
    bool may_differ = false;
    bool has_state =
        false;         // It can give the whole state: as SegmentReply::has_state, or the state it was formed with.
    int64_t step = 0;  // That of its last reply.
    bool is_leaving = false;  // Its node leaves.
  };
  // Messages to the trainer's thread. Callbacks may outlive the trainer.
  struct Inbox {
    std::mutex mutex;
    std::condition_variable arrived;
    std::deque<std::function<void(Impl&)>> messages;
    void post(std::function<void(Impl&)> message) {
      const std::lock_guard<std::mutex> hold(mutex);
      messages.push_back(std::move(message));
      arrived.notify_one();
    }
  };

  Impl(std::string name, TrainerOptions given);

  ~Impl() { end(); }

  static Coordinator make_coordinator(const TrainerOptions& options);

  // Stands still while the head is away: ranks are parked then and answer nothing.
  static Coordinator::Time now() { return Clock::now().time_since_epoch() - Session::current()->time_without_head(); }

  // ---- Events.

  void handle(const elastic::Event& event) { carry_out(coordinator.handle(now(), event)); }

  // A call of a member failed, which is a loss or an error of user code.
  void on_failure(MemberId id, uint64_t generation, const Error& error);
  void lose(MemberId id, const std::string& cause);
  void drop(MemberId id);

  // ---- Actions.

  void carry_out(const elastic::Actions& actions);
  void perform(const elastic::Spawn& action);
  std::optional<int> free_bundle() const;

  // Workers that wait for room move into bundles that have become free, whose resources are reserved.
  void fill_bundles();
  void spawn(MemberId id);

  // Whether the actor is still the member's: one that waited for room may have been made again.
  bool is_of(MemberId id, const ActorId& actor) const;
  void on_ready(MemberId id, const Result<RankReady>& ready);

  // The node of a member leaves the cluster.
  void on_notice(MemberId id, const std::string& node);
  void perform(const elastic::Kill& action);

  // "rank 1 (pid 4711 on node a)"; no value: not in the group.
  std::optional<std::string> describe(MemberId id) const;

  // What each rank is in and waits for, with stacks; empty while all steps are of usual length.
  std::string describe_waiting() const;

  template <auto M, class... A>
  void tell(const std::vector<MemberId>& ids, const A&... arguments) {
    for (const MemberId id : ids) {
      const auto found = members.find(id);
      if (found != members.end()) found->second.actor.call<M>(arguments...);
    }
  }
  void perform(const elastic::Abort& action);
  void perform(const elastic::Pause& action) { tell<&RankActor::pause>(action.members, action.generation); }

  void perform(const elastic::Form& action);
  void form(const std::vector<std::pair<MemberId, Formation>>& told, const volador::Ref<StateBytes>& state);
  void on_formed(MemberId id, uint64_t generation, const Result<FormReply>& reply);
  void perform(const elastic::Run& action);
  void on_stopped(MemberId id, uint64_t generation, uint64_t segment, const Result<SegmentReply>& reply);
  void perform(const elastic::AskStatus& action);
  void perform(const elastic::ReportSlow& action);
  void perform(const elastic::Finish&);
  void perform(const elastic::Fail& action);

  // ---- The calling thread.

  void end();
  void check_active() const;

  // Handles messages until `done` is true.
  void handle_until(const std::function<bool()>& done);
  void segment(const SegmentRequest& asked, int64_t first_counted = 0);

  // Waits until a group is formed.
  void ensure_formed();

  // Waits for the reply of an idle rank, to which the coordinator pays no attention. A rank that meanwhile answers none
  // of two requests for its status is lost.
  template <class T>
  auto answer_of(MemberId id, const Future<T>& reply) {
    for (int missed = 0; missed < 2 && !reply.wait_for(missed == 0 ? kStatusTimeout : std::chrono::seconds(0));) {
      const auto found = members.find(id);
      if (found == members.end()) break;
      missed = found->second.actor.call_for<&RankActor::status>(kStatusTimeout).result() ? 0 : missed + 1;
    }
    auto result = reply.result(std::chrono::nanoseconds(0));
    if (!result && result.error().code == ErrorCode::kTimeout)
      lose(id, fmt::format("it is frozen: it did not answer the last status requests within {} s each",
                           kStatusTimeout.count()));
    return result;
  }

  // Calls a function of rank 0 while the group is idle; forms the group anew if the rank is lost meanwhile.
  template <class Call>
  auto of_rank_0(Call call) {
    for (int attempt = 0;; ++attempt) {
      ensure_formed();
      const auto ranks = coordinator.members();
      const auto found = ranks.empty() ? members.end() : members.find(ranks.front());
      if (found != members.end()) {
        auto result = answer_of(ranks.front(), call(found->second.actor));
        if (result) return std::move(*result);
        const ErrorCode code = result.error().code;
        if (code == ErrorCode::kApplication || code == ErrorCode::kInvalidArgument || attempt == 3)
          throw Exception(std::move(result).error());
      }
      segment({.is_training = true, .epoch = epoch, .until_step = step});
    }
  }

  volador::Ref<StateBytes> state();
  // `file`: a path, or the address of an object in a storage.
  static std::string read_state(const std::filesystem::path& file);
  static void write_state(const std::filesystem::path& file, const volador::Ref<StateBytes>& state);
  void keep_state();
  std::future<void> save_async(const std::filesystem::path& file);
  void load_state(const std::string& bytes);
  void start_report();

  // `seconds`: length of the call of train() that has ended; 0: none has.
  void report_ranks(double seconds = 0);
  void add_times(const StepTimes& more);
  void add_profile(Metrics& metrics, const StepTimes& sums, int64_t batches);

  // The metrics of a train() are reported with those of the validate() that follows, or when none followed.
  void send_report();
  Metrics train(const TrainOptions& asked);
  Metrics validate(const ValidateOptions& asked);

  std::string operator_name;
  TrainerOptions options;
  Coordinator coordinator;
  const std::shared_ptr<Inbox> inbox = std::make_shared<Inbox>();
  bool use_gpu = false;
  std::optional<PlacementGroup> group;
  std::vector<bool> bundle_used;
  std::map<MemberId, Member> members;
  std::vector<MemberId> asked_ranks;  // The group when it was last asked for its status, by rank.
  std::optional<RankReady> first_ready;
  std::optional<Error> error;  // The run has failed.
  bool is_shut_down = false;
  bool is_started = false;  // The constructor has ended: what fails from now on is tried again.

  SegmentRequest request;
  bool is_finished = false;
  bool is_stopped = false;  // By request_stop() or a loss that is no number.
  // All workers were lost: the segment went on from the kept state, which had this step.
  std::optional<int64_t> went_back_to;
  int64_t counted_from = 0;  // The first step whose metrics the segment counts.
  MetricSums total, part;    // Sums of the segment and of its present generation.
  StepTimes times;           // Those of rank 0 in this call of train().
  int64_t step = 0, epoch = 0;
  volador::Ref<StateBytes> kept;  // State to go on from when all ranks are lost.
  int64_t kept_step = 0;
  int loads = 0;  // Calls of load_state(): a copy that was asked for before one is not kept.

  JobThread writer{"checkpoints"};  // Writes files of save_async().
  std::string last_hang;            // Why a member was last ended, with what each rank did.

  std::unique_ptr<RunReport> report;
  bool is_reported = false;
  uint64_t reported_generation = 0;
  int64_t reported_iterations = 0;
  std::optional<Metrics> waiting_report;  // Metrics of the last train().

  mutable std::mutex shown_mutex;  // Guards the next two.
  std::string shown;
  std::vector<int> shown_pids;
};

}  // namespace volador::train
