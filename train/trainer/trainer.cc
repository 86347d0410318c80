#include "train/trainer/trainer.h"

#include <fmt/format.h>
#include <torch/torch.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>

#include "runtime/actor/handle.h"
#include "runtime/actor/lending.h"
#include "runtime/actor/ref.h"
#include "runtime/files/durable_file.h"
#include "runtime/job_thread.h"
#include "runtime/log.h"
#include "train/core/coordinator.h"
#include "train/data/file_bytes.h"
#include "train/optim/state_dict.h"
#include "train/report/run_report.h"
#include "train/trainer/rank_actor.h"
#include "tune/execution/trainable_registry.h"
#include "tune/refusal.h"

namespace volador::train {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr auto kStatusTimeout = 2s;    // Limit for a rank to answer what it does.
constexpr auto kTickMin = 1ms;         // Least time before a tick: the coordinator's clock may stand still.
constexpr auto kWriteTimeout = 10min;  // Limit for files of save_async() at the end of the trainer.

// The first line in which two descriptions of parameters differ.
std::string first_difference(const std::string& a, const std::string& b) {
  size_t at = 0;
  while (at < a.size() && at < b.size()) {
    const size_t end_a = a.find('\n', at), end_b = b.find('\n', at);
    const std::string line_a = a.substr(at, end_a - at), line_b = b.substr(at, end_b - at);
    if (line_a != line_b) return fmt::format("{} and {}", line_a, line_b);
    at = end_a + 1;
  }
  return "their numbers of parameters";
}

// Steps and epochs done by a saved run.
struct Place {
  int64_t step = 0, epoch = 0;
};

// Throws kInvalidArgument: not the bytes of a state.
Place place_of(const std::string& bytes) {
  const c10::IValue state = from_bytes(bytes);
  if (state.isGenericDict() && state.toGenericDict().contains("volador")) {
    const c10::IValue value = state.toGenericDict().at("volador");
    if (value.isGenericDict()) {
      const auto place = value.toGenericDict();
      if (place.contains("step") && place.contains("epoch"))
        return {place.at("step").toInt(), place.at("epoch").toInt()};
    }
  }
  tune::throw_refusal(
      "the state is not one of a training run: it has no \"volador\" with step and epoch; is the file a checkpoint of "
      "train::TorchTrainer?");
}

}  // namespace

void check_options(const TrainerOptions& options) {
  const WorkerRange& workers = options.num_workers;
  if (workers.min < 1 || workers.max < workers.min) {
    tune::throw_refusal(
        fmt::format("num_workers is {{{}, {}}}; the least number must be at least 1 and the largest no smaller",
                    workers.min, workers.max));
  }
  if (options.copy_every_steps < 0)
    tune::throw_refusal(fmt::format("copy_every_steps is {}; it must be 0 (only at the end of each train()) or more",
                                    options.copy_every_steps));
  if (options.planned_epochs < 0)
    tune::throw_refusal(fmt::format("planned_epochs is {}; it must be 0 (unknown) or more", options.planned_epochs));
  if (options.max_failures < -1)
    tune::throw_refusal(fmt::format("max_failures is {}; it must be -1 (any number) or more", options.max_failures));
  if (options.start_timeout <= 0ms) tune::throw_refusal("start_timeout must be above 0");
  if (options.hang_timeout <= 0ms) tune::throw_refusal("hang_timeout must be above 0");
  const double gpus = options.resources_per_worker.gpus;
  if (options.backend != "shared" && options.backend != "nccl" && options.backend != "gloo") {
    tune::throw_refusal(fmt::format("backend is \"{}\"; it must be \"shared\", \"nccl\" or \"gloo\"", options.backend));
  }
  if (options.backend == "nccl" && gpus < 1) {
    tune::throw_refusal(
        fmt::format("backend \"nccl\" needs a whole GPU for each worker, resources_per_worker asks for {}", gpus));
  }
  if (options.use_gpu.value_or(false) && gpus <= 0) {
    tune::throw_refusal(
        "use_gpu is set, but resources_per_worker asks for no GPU; set .resources_per_worker = {.cpus = 1, .gpus = 1}");
  }
}

// Carries out the coordinator's actions by calls of the ranks' actors, and feeds it with their outcomes. Everything but
// the inbox belongs to the thread that calls the trainer.
struct Trainer::Impl {
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

  Impl(std::string name, TrainerOptions given)
      : operator_name(std::move(name)), options(std::move(given)), coordinator(make_coordinator(options)) {
    if (options.name.empty()) options.name = tune::trainables::label_of(operator_name);
    use_gpu = options.use_gpu.value_or(options.resources_per_worker.gpus > 0);
    if (options.group) {
      bundle_used.resize(static_cast<size_t>(options.num_workers.min));
    } else if (options.num_workers.min > 1) {
      const std::vector<Resources> bundles(static_cast<size_t>(options.num_workers.min), options.resources_per_worker);
      group = volador::placement_group(bundles, options.strategy, {.priority = options.priority});
      bundle_used.resize(bundles.size());
    }
    carry_out(coordinator.begin(now()));
    is_started = true;
  }

  ~Impl() { end(); }

  static Coordinator make_coordinator(const TrainerOptions& options) {
    check_options(options);
    return tune::unwrap(Coordinator::create({.min_workers = options.num_workers.min,
                                             .max_workers = options.num_workers.max,
                                             .max_failures = options.max_failures,
                                             .start_timeout = options.start_timeout,
                                             .hang_timeout = options.hang_timeout}));
  }

  // Stands still while the head is away: ranks are parked then and answer nothing.
  static Coordinator::Time now() { return Clock::now().time_since_epoch() - Session::current()->time_without_head(); }

  // ---- Events.

  void handle(const elastic::Event& event) { carry_out(coordinator.handle(now(), event)); }

  // A call of a member failed, which is a loss or an error of user code.
  void on_failure(MemberId id, uint64_t generation, const Error& error) {
    if (!members.contains(id)) return;
    if (error.code == ErrorCode::kApplication || error.code == ErrorCode::kInvalidArgument) {
      handle(elastic::UserError{id, generation, error.message});
    } else {
      lose(id, error.message);
    }
  }

  void lose(MemberId id, const std::string& cause) {
    const auto found = members.find(id);
    if (found == members.end()) return;
    if (report != nullptr) report->fault(found->second.rank, cause);
    drop(id);
    handle(elastic::MemberLost{id, cause});
  }

  void drop(MemberId id) {
    const auto found = members.find(id);
    if (found == members.end()) return;
    if (found->second.bundle >= 0) bundle_used[static_cast<size_t>(found->second.bundle)] = false;
    // Without waiting: the head may be away. It ends the actor with this program at the latest.
    if (const auto session = Session::current_or_none())
      session->kill_later(found->second.actor.id(), true, 0ms, [](const Result<void>&) {});
    members.erase(found);
  }

  // ---- Actions.

  void carry_out(const elastic::Actions& actions) {
    for (const elastic::Action& action : actions) {
      std::visit([this](const auto& one) { perform(one); }, action);
    }
    fill_bundles();
    if (report != nullptr) report->activity(coordinator.explain());
    const std::string picture = describe_waiting();
    const std::lock_guard<std::mutex> hold(shown_mutex);
    shown = picture.empty() ? coordinator.explain() : fmt::format("{}\n{}", coordinator.explain(), picture);
    shown_pids.clear();
    for (const MemberId id : coordinator.members()) {
      const auto found = members.find(id);
      if (found != members.end() && found->second.ready) shown_pids.push_back(found->second.ready->pid);
    }
  }

  void perform(const elastic::Spawn& action) {
    for (const MemberId id : action.members) {
      try {
        spawn(id);
      } catch (const Exception& exception) {
        if (!is_started) throw;
        // The head is away, for instance: the coordinator asks again later.
        inbox->post([id, cause = exception.error().message](Impl& impl) {
          impl.handle(elastic::MemberLost{id, cause, false});
        });
      }
    }
  }

  std::optional<int> free_bundle() const {
    const auto free = std::find(bundle_used.begin(), bundle_used.end(), false);
    return free == bundle_used.end() ? std::nullopt : std::optional(static_cast<int>(free - bundle_used.begin()));
  }

  // Workers that wait for room move into bundles that have become free, whose resources are reserved.
  void fill_bundles() {
    std::vector<MemberId> waiting;
    for (const auto& [id, member] : members) {
      if (member.bundle < 0 && !member.is_placed) waiting.push_back(id);
    }
    for (const MemberId id : waiting) {
      if (!free_bundle()) return;
      drop(id);
      perform(elastic::Spawn{{id}});
    }
  }

  void spawn(MemberId id) {
    Member member;
    auto builder = volador::actor<RankActor>(
                       RankSpec{operator_name, options.config, options.seed, use_gpu, options.backend,
                                std::min(2.0, std::chrono::duration<double>(options.hang_timeout).count() / 2)})
                       .priority(options.priority)
                       .concurrency_group<&RankActor::pause, &RankActor::abort, &RankActor::status>("control", 1)
                       .concurrency_group<&RankActor::stored_copy>("copies", 2);
    for (const auto& [key, value] : options.env) std::move(builder).env(key, value);
    if (const auto bundle = free_bundle()) {
      member.bundle = *bundle;
      std::move(builder)
          .in(options.group ? *options.group : *group, options.first_bundle + member.bundle)
          .resources(options.resources_per_worker);
    } else {
      std::move(builder).resources(options.resources_per_worker);
      if (static_cast<int>(id) > options.num_workers.min) std::move(builder).wait_if_infeasible();
    }
    member.actor = std::move(builder).spawn();
    if (member.bundle >= 0) bundle_used[static_cast<size_t>(member.bundle)] = true;
    const auto box = inbox;
    const ActorId actor = member.actor.id();
    member.watch = Session::current()->on_status(actor, [box, id, actor](const ActorStatus& status) {
      if (status.state == ActorState::kDead) {
        box->post([id, actor, cause = status.death.message](Impl& impl) {
          if (impl.is_of(id, actor)) impl.lose(id, cause);
        });
      } else if (status.state != ActorState::kPending) {
        box->post([id, actor](Impl& impl) {
          if (impl.is_of(id, actor)) impl.members.at(id).is_placed = true;
        });
      }
      if (status.node_leaves) box->post([id, node = status.node_name](Impl& impl) { impl.on_notice(id, node); });
    });
    member.actor.call<&RankActor::prepare>().then([box, id, actor](Result<RankReady> ready) {
      box->post([id, actor, ready = std::move(ready)](Impl& impl) {
        if (impl.is_of(id, actor)) impl.on_ready(id, ready);
      });
    });
    members.insert_or_assign(id, std::move(member));
  }

  // Whether the actor is still the member's: one that waited for room may have been made again.
  bool is_of(MemberId id, const ActorId& actor) const {
    const auto found = members.find(id);
    return found != members.end() && found->second.actor.id() == actor;
  }

  void on_ready(MemberId id, const Result<RankReady>& ready) {
    const auto found = members.find(id);
    if (found == members.end()) return;
    if (!ready) return on_failure(id, 0, ready.error());
    if (!first_ready) {
      first_ready = *ready;
    } else if (first_ready->layout != ready->layout) {
      return handle(elastic::UserError{
          id, 0,
          fmt::format("setup() registered different parameters or compression on two ranks: {}; all ranks must "
                      "register equal models and compress alike",
                      first_difference(first_ready->parameters, ready->parameters))});
    }
    if (ready->is_sharded && !options.copy_state) {
      return handle(elastic::UserError{
          id, 0,
          "an optimizer is registered with .shard = true, so that a lost worker takes its share of the state away: the "
          "trainer must have .copy_state = true to go on after a loss"});
    }
    found->second.ready = *ready;
    found->second.has_state = coordinator.generation() == 0;
    found->second.offer = ready->segment;
    handle(elastic::MemberReady{id, ready->node});
  }

  // The node of a member leaves the cluster.
  void on_notice(MemberId id, const std::string& node) {
    const auto found = members.find(id);
    if (found == members.end() || std::exchange(found->second.is_leaving, true)) return;
    const std::string sentence =
        fmt::format("Node {} leaves: {} moves to another place.", node, describe(id).value_or("a starting worker"));
    log::info("train", sentence, {{"run", options.name}});
    if (report != nullptr) report->event(sentence);
    handle(elastic::MemberNotice{id});
  }

  void perform(const elastic::Kill& action) {
    if (action.cause != elastic::KillCause::kLeaving) {
      const std::string picture = describe_waiting();
      const std::string reason = picture.empty() ? action.reason : fmt::format("{}\n{}", action.reason, picture);
      log::warn("train", reason, {{"run", options.name}});
      if (report != nullptr) {
        const auto found = members.find(action.id);
        report->fault(found == members.end() ? -1 : found->second.rank, reason);
      }
      last_hang = reason;
    }
    drop(action.id);
  }

  // "rank 1 (pid 4711 on node a)"; no value: not in the group.
  std::optional<std::string> describe(MemberId id) const {
    const auto rank = std::find(asked_ranks.begin(), asked_ranks.end(), id);
    const auto found = members.find(id);
    if (rank == asked_ranks.end() || found == members.end() || !found->second.ready) return std::nullopt;
    return fmt::format("rank {} (pid {} on node {})", rank - asked_ranks.begin(), found->second.ready->pid,
                       found->second.ready->node);
  }

  // What each rank is in and waits for, with stacks; empty while all steps are of usual length.
  std::string describe_waiting() const {
    std::string text;
    bool is_long = false;
    for (const MemberId id : asked_ranks) {
      const auto found = members.find(id);
      const auto name = describe(id);
      if (found == members.end() || !name) continue;
      const auto& seen = found->second.seen;
      if (!seen) {
        text += fmt::format("{}: has not answered a status request.\n", *name);
        continue;
      }
      const RankStatus& loop = seen->loop;
      is_long = is_long || !seen->stack.empty();
      text += fmt::format("{}: {} in step {} for {:.1f} s", *name, loop.activity.empty() ? "idle" : loop.activity,
                          loop.step + 1, loop.in_step_s);
      if (!loop.waiting_for.empty()) text += fmt::format(", waits for rank {}", fmt::join(loop.waiting_for, ", "));
      text += ".\n";
      for (size_t at = 0; at < seen->stack.size();) {
        const size_t end = seen->stack.find('\n', at);
        text += fmt::format("    {}\n", seen->stack.substr(at, end - at));
        at = end + 1;
      }
    }
    if (!is_long) return {};
    text.pop_back();
    return text;
  }

  template <auto M, class... A>
  void tell(const std::vector<MemberId>& ids, const A&... arguments) {
    for (const MemberId id : ids) {
      const auto found = members.find(id);
      if (found != members.end()) found->second.actor.call<M>(arguments...);
    }
  }
  void perform(const elastic::Abort& action) {
    tell<&RankActor::abort>(action.members, action.generation,
                            std::string("a rank was lost; the group is formed anew"));
  }
  void perform(const elastic::Pause& action) { tell<&RankActor::pause>(action.members, action.generation); }

  void perform(const elastic::Form& action) {
    std::optional<MemberId> source = action.source;
    bool differ = false;
    if (source && first_ready->is_sharded) {
      // A rank alone has a share of the optimizers' state only: all take a whole state of this step, or the kept one.
      const int64_t at = members.at(*source).step;
      const auto whole = std::find_if(members.begin(), members.end(), [&](const auto& entry) {
        return entry.second.has_state && entry.second.step == at;
      });
      source = whole == members.end() ? std::nullopt : std::optional(whole->first);
      differ = true;
    }
    if (!source) {  // What was done since the kept state is done again.
      went_back_to = kept.is_valid() ? kept_step : 0;
      total = part = {};
      // Steps of earlier calls of train() are a segment of their own, whose metrics are not counted again.
      if (*went_back_to < counted_from)
        request.until_step = request.until_step < 0 ? counted_from : std::min(request.until_step, counted_from);
    }
    auto receivers = action.receivers;
    for (const MemberId id : action.members) differ = differ || members.at(id).may_differ;
    if (!source && !kept.is_valid()) source = action.members.front();
    if (differ || !action.source) receivers = action.members;
    if (source) std::erase(receivers, *source);
    for (const MemberId id : action.members) members.at(id).may_differ = false;

    std::vector<std::string> nodes;
    std::vector<SegmentOffer> offers;  // One for each node.
    Formation formation{
        .generation = action.generation, .rank = 0, .node_of_rank = {}, .segment = {}, .has_state = false};
    for (const MemberId id : action.members) {
      const Member& member = members.at(id);
      const auto known = std::find(nodes.begin(), nodes.end(), member.ready->node);
      formation.node_of_rank.push_back(static_cast<int>(known - nodes.begin()));
      if (known != nodes.end()) continue;
      nodes.push_back(member.ready->node);
      offers.push_back(member.offer);
    }
    // A table of its own for each generation: no rank of an older one can be mistaken for one of this.
    if (nodes.size() > 1 || (use_gpu && action.members.size() > 1)) {
      try {
        formation.rendezvous = volador::actor<RendezvousActor>().isolation(Isolation::kShared).spawn();
      } catch (const Exception& exception) {
        inbox->post([action, cause = exception.error().message](Impl& impl) {
          for (const MemberId id : action.members) impl.handle(elastic::JoinFailed{id, action.generation, cause});
        });
        return;
      }
    }
    std::vector<std::pair<MemberId, Formation>> told;
    for (size_t rank = 0; rank < action.members.size(); ++rank) {
      formation.rank = static_cast<int>(rank);
      formation.segment = offers[static_cast<size_t>(formation.node_of_rank[rank])];
      formation.has_state = std::find(receivers.begin(), receivers.end(), action.members[rank]) != receivers.end();
      told.emplace_back(action.members[rank], formation);
    }
    if (receivers.empty()) return form(told, {});
    if (!source) return form(told, kept);
    const auto box = inbox;
    members.at(*source).actor.call<&RankActor::stored_state>().then(
        [box, told, id = *source](Result<volador::Ref<StateBytes>> state) {
          box->post([told, id, state = std::move(state)](Impl& impl) {
            if (state) return impl.form(told, *state);
            for (const auto& [member, one] : told) {
              if (member != id)
                impl.handle(elastic::JoinFailed{member, one.generation, "the state of another rank did not arrive"});
            }
            impl.on_failure(id, told.front().second.generation, state.error());
          });
        });
  }

  void form(const std::vector<std::pair<MemberId, Formation>>& told, const volador::Ref<StateBytes>& state) {
    const auto box = inbox;
    for (const auto& [id, formation] : told) {
      const auto found = members.find(id);
      if (found == members.end()) continue;
      const auto on_reply = [box, id = id, generation = formation.generation](Result<FormReply> reply) {
        box->post([id, generation, reply = std::move(reply)](Impl& impl) { impl.on_formed(id, generation, reply); });
      };
      if (formation.has_state) {
        found->second.actor.call<&RankActor::form>(formation, state).then(on_reply);
      } else {
        found->second.actor.call<&RankActor::form>(formation, StateBytes{}).then(on_reply);
      }
    }
  }

  void on_formed(MemberId id, uint64_t generation, const Result<FormReply>& reply) {
    const auto found = members.find(id);
    if (found == members.end()) return;
    if (!reply) {
      // A state that could not be fetched is no fault of the rank.
      const ErrorCode code = reply.error().code;
      if (code == ErrorCode::kObjectLost || code == ErrorCode::kStoreFull)
        return handle(elastic::JoinFailed{id, generation, reply.error().message});
      return on_failure(id, generation, reply.error());
    }
    found->second.offer = reply->segment;
    if (!reply->error.empty()) return handle(elastic::UserError{id, generation, reply->error});
    if (!reply->not_joined.empty()) return handle(elastic::JoinFailed{id, generation, reply->not_joined});
    found->second.has_state = true;
    found->second.step = reply->step;
    handle(elastic::Joined{id, generation, {reply->step}});
  }

  void perform(const elastic::Run& action) {
    if (request.is_training) {
      total.add_part(part);
    } else {
      total = {};
    }
    part = {};
    if (report != nullptr && action.generation != reported_generation) {
      reported_generation = action.generation;
      report_ranks();
    }
    if (first_ready->is_sharded && !kept.is_valid()) keep_state();  // A loss in the first segment goes back to here.
    const auto box = inbox;
    for (const MemberId id : action.members) {
      const auto found = members.find(id);
      if (found == members.end()) continue;
      found->second.has_state = false;
      found->second.seen.reset();  // What it did in the generation before.
      found->second.actor.call<&RankActor::run>(action.generation, request)
          .then([box, id, generation = action.generation, segment = action.segment](Result<SegmentReply> reply) {
            box->post([id, generation, segment, reply = std::move(reply)](Impl& impl) {
              impl.on_stopped(id, generation, segment, reply);
            });
          });
    }
  }

  void on_stopped(MemberId id, uint64_t generation, uint64_t segment, const Result<SegmentReply>& reply) {
    const auto found = members.find(id);
    if (found == members.end()) return;
    if (!reply) return on_failure(id, generation, reply.error());
    if (generation == coordinator.generation() && segment == coordinator.segment()) {
      part.add_rank(reply->metrics);
      found->second.data_s += reply->times.data;
      found->second.samples += reply->metrics.samples;
      if (!coordinator.members().empty() && coordinator.members().front() == id) add_times(reply->times);
      step = std::max(step, reply->step);
      if (reply->end == SegmentEnd::kFinished) {
        step = reply->step;
        epoch = reply->epoch;
        is_stopped = is_stopped || reply->is_stopped;
      }
    }
    found->second.may_differ = reply->may_differ;
    found->second.has_state = reply->has_state;
    found->second.step = reply->step;
    const Stop why = reply->end == SegmentEnd::kFinished ? Stop::kFinished
                     : reply->end == SegmentEnd::kPaused ? Stop::kPaused
                                                         : Stop::kAborted;
    handle(elastic::Stopped{id, generation, segment, {reply->step}, why});
  }

  void perform(const elastic::AskStatus& action) {
    asked_ranks = coordinator.members();
    const uint64_t generation = coordinator.generation();
    const auto box = inbox;
    for (const MemberId id : action.members) {
      const auto found = members.find(id);
      if (found == members.end()) continue;
      found->second.actor.call_for<&RankActor::status>(kStatusTimeout)
          .then([box, id, ranks = asked_ranks, generation, round = action.round](Result<RankView> view) {
            box->post([id, ranks, generation, round, view = std::move(view)](Impl& impl) {
              if (!view) return impl.handle(elastic::NoStatus{id, round});
              if (const auto member = impl.members.find(id); member != impl.members.end()) member->second.seen = *view;
              const RankStatus& status = view->loop;
              if (const auto member = impl.members.find(id); impl.report != nullptr && member != impl.members.end()) {
                impl.report->rank_activity({.rank = member->second.rank,
                                            .step = status.step,
                                            .in_step_s = status.in_step_s,
                                            .activity = status.activity,
                                            .waiting_for = status.waiting_for});
              }
              elastic::Status event{.id = id, .generation = generation, .round = round, .progress = {status.step}};
              event.in_step_for =
                  std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>(status.in_step_s));
              for (const int rank : status.waiting_for) {
                if (static_cast<size_t>(rank) < ranks.size())
                  event.waiting_for.push_back(ranks[static_cast<size_t>(rank)]);
              }
              impl.handle(event);
            });
          });
    }
  }

  void perform(const elastic::ReportSlow& action) {
    const auto ranks = coordinator.members();
    const auto rank = std::find(ranks.begin(), ranks.end(), action.id) - ranks.begin();
    const std::string sentence = fmt::format(
        "Rank {} is slow: its steps take {:.1f} times those of the others, which wait for it.", rank, action.factor);
    log::warn("train", sentence, {{"run", options.name}});
    if (report != nullptr) report->event(sentence);
  }
  void perform(const elastic::Finish&) {
    is_finished = true;
    for (auto& [id, member] : members) member.seen.reset();
  }
  void perform(const elastic::Fail& action) {
    error = action.error;
    if (!last_hang.empty() && error->code != ErrorCode::kApplication)
      error->message += fmt::format("\nThe last worker that was ended: {}", last_hang);
    send_report();
    if (report != nullptr) report->end(RunOutcome::kFailed, error->message);
    report.reset();
    end();
  }

  // ---- The calling thread.

  void end() {
    {
      const std::lock_guard<std::mutex> hold(inbox->mutex);
      inbox->messages.clear();
    }
    while (!members.empty()) drop(members.begin()->first);
    if (group) {
      try {
        group->remove();
      } catch (const Exception&) {  // The head removes it with this program.
      }
      group.reset();
    }
    const std::lock_guard<std::mutex> hold(shown_mutex);
    shown = "The run was shut down; its workers were ended.";
    shown_pids.clear();
  }

  void check_active() const {
    if (error) throw Exception(Error{error->code, error->message});
    if (is_shut_down) {
      throw Exception(
          Error{ErrorCode::kUnavailable,
                fmt::format("training {}: shutdown() was called; make a new trainer and load() its checkpoint",
                            options.name)});
    }
  }

  // Handles messages until `done` is true.
  template <class Done>
  void handle_until(Done done) {
    while (!done()) {
      check_active();
      std::deque<std::function<void(Impl&)>> messages;
      {
        std::unique_lock<std::mutex> hold(inbox->mutex);
        const auto wakeup = coordinator.next_wakeup();
        std::optional<Clock::time_point> deadline;
        if (wakeup) deadline = Clock::now() + std::max<Coordinator::Time>(*wakeup - now(), kTickMin);
        internal::wait_lending(inbox->arrived, hold, deadline, [&] { return !inbox->messages.empty(); });
        messages.swap(inbox->messages);
      }
      if (messages.empty()) handle(elastic::Tick{});
      for (const auto& message : messages) {
        if (error) break;
        message(*this);
      }
    }
    if (error) check_active();
  }

  void segment(const SegmentRequest& asked, int64_t first_counted = 0) {
    check_active();
    request = asked;
    counted_from = first_counted;
    total = part = {};
    is_finished = is_stopped = false;
    went_back_to.reset();
    handle(elastic::SegmentStart{.steps = {}, .repeats = !asked.is_training});
    handle_until([&] { return is_finished || error.has_value(); });
    total.add_part(part);
  }

  // Waits until a group is formed.
  void ensure_formed() {
    if (coordinator.generation() > 0 && !coordinator.members().empty()) return;
    segment({.is_training = true, .epoch = epoch, .until_step = step});
  }

  // Waits for the reply of an idle rank, to which the coordinator pays no attention. A rank that meanwhile answers none
  // of two requests for its status is lost.
  template <class T>
  auto answer_of(MemberId id, const Future<T>& reply) {
    for (int missed = 0; missed < 2 && !reply.wait_for(missed == 0 ? kStatusTimeout : 0s);) {
      const auto found = members.find(id);
      if (found == members.end()) break;
      missed = found->second.actor.call_for<&RankActor::status>(kStatusTimeout).result() ? 0 : missed + 1;
    }
    auto result = reply.result(0ns);
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

  volador::Ref<StateBytes> state() {
    check_active();
    return of_rank_0([](const ActorHandle<RankActor>& actor) { return actor.call<&RankActor::stored_state>(); });
  }

  static void write_state(const std::filesystem::path& file, const volador::Ref<StateBytes>& state) {
    const StateBytes bytes = state.get();
    tune::unwrap(write_file_atomically(file, {bytes.data(), bytes.size()}));
  }

  void keep_state() {
    const auto ranks = coordinator.members();
    const auto found = ranks.empty() ? members.end() : members.find(ranks.front());
    if (!options.copy_state || found == members.end()) return;
    const auto box = inbox;
    const auto actor = found->second.actor;
    actor.call<&RankActor::copy_state>().then([box, actor, loads = loads, step = step](const Result<uint64_t>& number) {
      if (!number) return;
      actor.call<&RankActor::stored_copy>(*number).then([box, loads, step](Result<volador::Ref<StateBytes>> state) {
        if (!state && state.error().code == ErrorCode::kApplication) log::warn("train", state.error().message);
        if (!state) return;
        // This program's node gets a copy of its own, which outlives the rank's node.
        state->any().when_ready([] {});
        box->post([loads, step, state = *state](Impl& impl) {
          if (loads != impl.loads) return;
          impl.kept = state;
          impl.kept_step = step;
        });
      });
    });
  }

  std::future<void> save_async(const std::filesystem::path& file) {
    check_active();
    auto written = std::make_shared<std::promise<void>>();
    auto stored = of_rank_0([](const ActorHandle<RankActor>& actor) { return actor.call<&RankActor::copy_state>(); });
    const auto found = members.find(coordinator.members().front());
    writer.post([file, written, state = found->second.actor.call<&RankActor::stored_copy>(stored)]() mutable {
      try {
        write_state(file, state.get());
        written->set_value();
      } catch (...) {
        written->set_exception(std::current_exception());
      }
      return JobThread::Then();
    });
    return written->get_future();
  }

  void load_state(const std::string& bytes) {
    check_active();
    const Place place = place_of(bytes);
    const auto state = volador::put(StateBytes(std::span<const char>(bytes), nullptr));
    for (size_t loaded = 0; loaded == 0;) {
      ensure_formed();
      std::vector<std::pair<MemberId, Future<void>>> replies;
      for (const MemberId id : coordinator.members()) {
        const auto found = members.find(id);
        if (found != members.end()) replies.emplace_back(id, found->second.actor.call<&RankActor::load>(state));
      }
      for (const auto& [id, reply] : replies) {
        auto result = answer_of(id, reply);
        if (result) {
          ++loaded;
          members.at(id).has_state = true;
          members.at(id).step = place.step;
        } else if (result.error().code == ErrorCode::kApplication ||
                   result.error().code == ErrorCode::kInvalidArgument) {
          throw Exception(std::move(result).error());
        } else {
          lose(id, result.error().message);
        }
      }
      check_active();
    }
    handle(elastic::StateReplaced{{place.step}});
    ++loads;
    kept = state;
    kept_step = place.step;
    step = place.step;
    epoch = place.epoch;
  }

  void start_report() {
    if (!options.report || report != nullptr || is_reported) return;
    is_reported = true;
    report = std::make_unique<RunReport>(
        Session::current(),
        RunReportOptions{
            .name = options.name,
            .config = options.config,
            .metric = "train_loss",
            .mode = tune::Mode::kMin,
            .planned = options.planned_epochs,
            .resources = fmt::format("{} workers with {} each",
                                     options.num_workers.min == options.num_workers.max
                                         ? std::to_string(options.num_workers.min)
                                         : fmt::format("{} to {}", options.num_workers.min, options.num_workers.max),
                                     to_string(tune::unwrap(ResourceSet::from(options.resources_per_worker)))),
            .directory = options.storage});
  }

  // `seconds`: length of the call of train() that has ended; 0: none has.
  void report_ranks(double seconds = 0) {
    for (auto& [id, member] : members) member.rank = -1;
    std::vector<RankReport> ranks;
    for (const MemberId id : coordinator.members()) {
      const auto found = members.find(id);
      if (found == members.end() || !found->second.ready) continue;
      found->second.rank = static_cast<int>(ranks.size());
      RankReport& rank = ranks.emplace_back(RankReport{.rank = found->second.rank,
                                                       .actor = found->second.actor.id(),
                                                       .node = found->second.ready->node,
                                                       .pid = found->second.ready->pid,
                                                       .device = use_gpu ? "cuda" : "cpu"});
      if (seconds <= 0) continue;
      rank.metrics.set("samples_per_s", found->second.samples / seconds);
      rank.metrics.set("data_wait_s", found->second.data_s);
    }
    report->ranks(std::move(ranks), step);
  }

  void add_times(const StepTimes& more) {
    times.data += more.data;
    times.forward += more.forward;
    times.backward += more.backward;
    times.communication += more.communication;
    times.optimizer += more.optimizer;
    times.total += more.total;
  }

  void add_profile(Metrics& metrics, const StepTimes& sums, int64_t batches) {
    const double count = static_cast<double>(std::max<int64_t>(1, batches));
    metrics.set("mean_data_s", sums.data / count);
    metrics.set("mean_forward_s", sums.forward / count);
    metrics.set("mean_backward_s", sums.backward / count);
    metrics.set("mean_communication_s", sums.communication / count);
    metrics.set("mean_optimizer_s", sums.optimizer / count);
    metrics.set("mean_step_s", sums.total / count);
  }

  // The metrics of a train() are reported with those of the validate() that follows, or when none followed.
  void send_report() {
    if (report != nullptr && waiting_report) report->metrics(++reported_iterations, *waiting_report);
    waiting_report.reset();
  }

  Metrics train(const TrainOptions& asked) {
    if (asked.num_steps == 0 || asked.num_steps < -1)
      tune::throw_refusal(fmt::format(
          "train(): num_steps is {}; it must be at least 1, or -1 for the rest of the epoch", asked.num_steps));
    check_active();
    start_report();
    send_report();
    if (report != nullptr && report->stop_requested()) {
      report->end(RunOutcome::kStopped, "A user asked the run to stop.");
      report.reset();
      throw Exception(
          Error{ErrorCode::kCancelled, fmt::format("training {}: a user asked the run to stop", options.name)});
    }
    const auto begin = Clock::now();
    MetricSums sums;
    std::map<int64_t, MetricSums> sums_at;  // At the steps of the copies of this call.
    times = {};
    for (auto& [id, member] : members) member.data_s = member.samples = 0;
    const int64_t first_step = step, first_epoch = epoch;
    const int64_t until = asked.num_steps < 0 ? -1 : step + asked.num_steps;
    bool goes_on = true;
    while (goes_on) {
      const int64_t before = epoch, every = options.copy_every_steps;
      const int64_t copy_at = every > 0 ? (step / every + 1) * every : -1;
      const bool ends_with_copy = copy_at >= 0 && (until < 0 || copy_at < until);
      segment({.is_training = true, .epoch = epoch, .until_step = ends_with_copy ? copy_at : until}, first_step);
      // After the loss of all workers the segment ends with the epoch of the kept state, which may be an earlier one.
      if (went_back_to) sums = sums_at[*went_back_to];
      sums.add_part(total);
      if (step <= first_step) sums = {};
      const bool copies = ends_with_copy && step == copy_at && !is_stopped;
      goes_on = !is_stopped && (went_back_to || copies || epoch > before) &&
                (until < 0 ? epoch <= first_epoch : step < until);
      if (!copies || !goes_on) continue;
      keep_state();
      sums_at.insert_or_assign(step, sums);
    }
    keep_state();
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    Metrics metrics = sums.means(true);
    metrics.set("epoch", static_cast<double>(epoch));
    metrics.set("step", static_cast<double>(step));
    metrics.set("workers", static_cast<double>(coordinator.world()));
    metrics.set("samples_per_s", sums.samples / seconds);
    if (asked.profile) add_profile(metrics, times, step - first_step);
    if (report != nullptr) {
      waiting_report = metrics;
      add_profile(*waiting_report, times, step - first_step);
      if (coordinator.members().size() == coordinator.world()) report_ranks(seconds);
    }
    return metrics;
  }

  Metrics validate(const ValidateOptions& asked) {
    if (asked.num_steps == 0 || asked.num_steps < -1)
      tune::throw_refusal(
          fmt::format("validate(): num_steps is {}; it must be at least 1, or -1 for all batches", asked.num_steps));
    check_active();
    segment({.is_training = false, .epoch = epoch, .until_step = -1, .steps_max = asked.num_steps});
    Metrics metrics = total.means(false);
    if (waiting_report) {
      for (const auto& [name, value] : metrics) {
        if (!waiting_report->contains(name)) waiting_report->set(name, value);
      }
      send_report();
    }
    return metrics;
  }

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

Trainer::Trainer(std::string operator_name, TrainerOptions options)
    : impl_(std::make_unique<Impl>(std::move(operator_name), std::move(options))) {}
Trainer::~Trainer() { shutdown(); }

Metrics Trainer::train(const TrainOptions& options) { return impl_->train(options); }
Metrics Trainer::validate(const ValidateOptions& options) { return impl_->validate(options); }

std::string Trainer::state() {
  const StateBytes bytes = impl_->state().get();
  return {bytes.begin(), bytes.end()};
}

void Trainer::load_state(const std::string& bytes) { impl_->load_state(bytes); }

void Trainer::save(const std::filesystem::path& file) { Impl::write_state(file, impl_->state()); }
std::future<void> Trainer::save_async(const std::filesystem::path& file) { return impl_->save_async(file); }

void Trainer::load(const std::filesystem::path& file) {
  impl_->check_active();
  const std::string bytes = read_file(file);
  try {
    load_state(bytes);
  } catch (const Exception& exception) {
    throw Exception(Error{exception.error().code, fmt::format("{}: {}", file.string(), exception.error().message)});
  }
}

bool Trainer::has_validation() const { return impl_->first_ready && impl_->first_ready->has_validation; }
int64_t Trainer::epoch() const { return impl_->epoch; }
int64_t Trainer::step() const { return impl_->step; }
int Trainer::world() const { return static_cast<int>(impl_->coordinator.world()); }
int Trainer::failures() const { return impl_->coordinator.failures(); }
std::string Trainer::explain() const {
  const std::lock_guard<std::mutex> hold(impl_->shown_mutex);
  return impl_->shown;
}
std::vector<int> Trainer::worker_pids() const {
  const std::lock_guard<std::mutex> hold(impl_->shown_mutex);
  return impl_->shown_pids;
}

void Trainer::shutdown() {
  if (impl_->is_shut_down) return;
  impl_->is_shut_down = true;
  impl_->send_report();
  if (impl_->report != nullptr) {
    // In an exception's way the report ends as failed by its destructor.
    if (std::uncaught_exceptions() == 0) impl_->report->end(RunOutcome::kFinished);
    impl_->report.reset();
  }
  if (!impl_->writer.wait_until_idle(kWriteTimeout))
    log::warn("train", "checkpoints of save_async() are not complete and are given up");
  impl_->end();
}

}  // namespace volador::train
