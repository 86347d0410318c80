#include "train/trainer/trainer_impl.h"

#include <algorithm>

#include "runtime/actor/lending.h"
#include "runtime/log.h"
#include "tune/execution/trainable_registry.h"
#include "tune/refusal.h"

namespace volador::train {
namespace {

using namespace std::chrono_literals;

constexpr auto kTickMin = 1ms;         // Least time before a tick: the coordinator's clock may stand still.
constexpr auto kWriteTimeout = 10min;  // Limit for files of save_async() at the end of the trainer.

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

Trainer::Impl::Impl(std::string name, TrainerOptions given)
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

Coordinator Trainer::Impl::make_coordinator(const TrainerOptions& options) {
  check_options(options);
  return tune::unwrap(Coordinator::create({.min_workers = options.num_workers.min,
                                           .max_workers = options.num_workers.max,
                                           .max_failures = options.max_failures,
                                           .start_timeout = options.start_timeout,
                                           .hang_timeout = options.hang_timeout}));
}

void Trainer::Impl::end() {
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

void Trainer::Impl::check_active() const {
  if (error) throw Exception(Error{error->code, error->message});
  if (is_shut_down) {
    throw Exception(Error{
        ErrorCode::kUnavailable,
        fmt::format("training {}: shutdown() was called; make a new trainer and load() its checkpoint", options.name)});
  }
}

void Trainer::Impl::handle_until(const std::function<bool()>& done) {
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

void Trainer::Impl::segment(const SegmentRequest& asked, int64_t first_counted) {
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

void Trainer::Impl::ensure_formed() {
  if (coordinator.generation() > 0 && !coordinator.members().empty()) return;
  segment({.is_training = true, .epoch = epoch, .until_step = step});
}

void Trainer::Impl::start_report() {
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

void Trainer::Impl::report_ranks(double seconds) {
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

void Trainer::Impl::add_times(const StepTimes& more) {
  times.data += more.data;
  times.forward += more.forward;
  times.backward += more.backward;
  times.communication += more.communication;
  times.optimizer += more.optimizer;
  times.total += more.total;
}

void Trainer::Impl::add_profile(Metrics& metrics, const StepTimes& sums, int64_t batches) {
  const double count = static_cast<double>(std::max<int64_t>(1, batches));
  metrics.set("mean_data_s", sums.data / count);
  metrics.set("mean_forward_s", sums.forward / count);
  metrics.set("mean_backward_s", sums.backward / count);
  metrics.set("mean_communication_s", sums.communication / count);
  metrics.set("mean_optimizer_s", sums.optimizer / count);
  metrics.set("mean_step_s", sums.total / count);
}

void Trainer::Impl::send_report() {
  if (report != nullptr && waiting_report) report->metrics(++reported_iterations, *waiting_report);
  waiting_report.reset();
}

Metrics Trainer::Impl::train(const TrainOptions& asked) {
  if (asked.num_steps == 0 || asked.num_steps < -1)
    tune::throw_refusal(fmt::format("train(): num_steps is {}; it must be at least 1, or -1 for the rest of the epoch",
                                    asked.num_steps));
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
    goes_on =
        !is_stopped && (went_back_to || copies || epoch > before) && (until < 0 ? epoch <= first_epoch : step < until);
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

Metrics Trainer::Impl::validate(const ValidateOptions& asked) {
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
  const std::string bytes = Impl::read_state(file);
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
