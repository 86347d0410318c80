#include "train/core/coordinator.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace volador::train {

using namespace elastic;  // NOLINT: the messages are this file's vocabulary.

namespace {

using Time = Coordinator::Time;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr size_t kFailuresKept = 5;  // Causes in the message about max_failures.
constexpr int kSlowRounds = 20;      // Statuses for one estimate of a slow member.
constexpr double kSlowFactor = 1.5;  // Reported from here on.
constexpr Time kBackoffMax = seconds(5);

double in_seconds(Time time) { return std::chrono::duration<double>(time).count(); }

// None for the first, then 100 ms, doubling, at most 5 s.
Time backoff(int count) {
  if (count < 2) return Time(0);
  return std::min<Time>(kBackoffMax, milliseconds(100) * (1LL << std::min(count - 2, 20)));
}

const char* plural(size_t count) { return count == 1 ? "" : "s"; }

}  // namespace

std::string_view to_string(Coordinator::Phase phase) {
  switch (phase) {
    case Coordinator::Phase::kIdle:
      return "kIdle";
    case Coordinator::Phase::kWaiting:
      return "kWaiting";
    case Coordinator::Phase::kForming:
      return "kForming";
    case Coordinator::Phase::kRunning:
      return "kRunning";
    case Coordinator::Phase::kPausing:
      return "kPausing";
    case Coordinator::Phase::kAborting:
      return "kAborting";
    case Coordinator::Phase::kFailed:
      return "kFailed";
  }
  return "kFailed";
}

Result<Coordinator> Coordinator::create(const ElasticOptions& options) {
  const auto refuse = [](std::string message) { return make_error(ErrorCode::kInvalidArgument, std::move(message)); };
  if (options.min_workers < 1)
    return refuse(fmt::format("min_workers: expected at least 1, got {}", options.min_workers));
  if (options.max_workers < options.min_workers)
    return refuse(
        fmt::format("max_workers: expected at least min_workers = {}, got {}; raise max_workers or lower "
                    "min_workers",
                    options.min_workers, options.max_workers));
  if (options.max_failures < -1)
    return refuse(fmt::format("max_failures: expected a count, or -1 for unlimited, got {}", options.max_failures));
  if (!(options.hang_factor >= 1))
    return refuse(fmt::format("hang_factor: expected at least 1, got {}", options.hang_factor));
  const std::pair<const char*, Time> positive[] = {{"start_timeout", options.start_timeout},
                                                   {"hang_timeout", options.hang_timeout},
                                                   {"status_interval", options.status_interval},
                                                   {"slow_report_interval", options.slow_report_interval}};
  for (const auto& [name, value] : positive)
    if (value <= Time(0)) return refuse(fmt::format("{}: expected more than 0 s, got {} s", name, in_seconds(value)));
  if (options.grow_wait < Time(0))
    return refuse(fmt::format("grow_wait: expected at least 0 s, got {} s", in_seconds(options.grow_wait)));
  return Coordinator(options);
}

Actions Coordinator::begin(Time now) {
  now_ = now;
  return settle();
}

Actions Coordinator::handle(Time now, const Event& event) {
  if (phase_ == Phase::kFailed) return {};
  now_ = std::max(now_, now);
  std::visit([this](const auto& e) { on(e); }, event);
  find_hung();
  return settle();
}

Actions Coordinator::settle() {
  while (phase_ != Phase::kFailed && advance()) {
  }
  spawn_missing();
  ask_status();
  return std::exchange(actions_, {});
}

// ---- Events.

void Coordinator::on(const MemberReady& event) {
  Member* member = find(event.id);
  if (!member || member->part != Part::kStarting) return;
  member->part = Part::kStandby;
  member->node = event.node;
  if (!established_) member->progress = Progress{};
  refused_ = 0;
}

void Coordinator::on(const MemberLost& event) {
  if (!find(event.id)) return;
  if (!event.is_failure) count_early_loss(event.id);  // For the back-off.
  lose(event.id, event.cause.empty() ? "cause unknown" : event.cause, event.is_failure);
}

void Coordinator::on(const NoRoom& event) {
  const Member* member = find(event.id);
  if (!member || member->part != Part::kStarting) return;
  members_.erase(event.id);
  room_ = 0;
  ++refused_;
  room_at_ = now_ + std::max<Time>(backoff(refused_), milliseconds(100));
}

void Coordinator::on(const MemberNotice& event) {
  Member* member = find(event.id);
  if (!member || member->leaving) return;
  member->leaving = true;
  if (room_) ++*room_;
  const bool has_state = established_ && member->progress;
  if (member->rank < 0 && !has_state)
    kill(event.id, KillCause::kLeaving, name(event.id) + " leaves: its node leaves soon, and it holds no state.");
}

void Coordinator::on(const RoomAvailable& event) {
  if (room_) room_ = std::max(0, event.workers);
}

void Coordinator::on(const SegmentStart& event) {
  if (segment_active_) return;
  segment_active_ = true;
  ++segment_;
  segment_steps_ = event.steps;
  segment_repeats_ = event.repeats;
  segment_first_step_ = committed_;
  waited_ = Time(0);
  fruitless_ = 0;
}

void Coordinator::on(const StateReplaced& event) {
  if (phase_ != Phase::kIdle) return;
  for (auto& [id, member] : members_) {
    if (member.rank >= 0) {
      member.progress = event.progress;
    } else {
      member.progress.reset();  // The state before.
    }
  }
  established_ = true;
  committed_ = event.progress.step;
}

void Coordinator::on(const Joined& event) {
  Member* member = find_current(event.id, event.generation);
  if (!member || (phase_ != Phase::kForming && phase_ != Phase::kAborting)) return;
  if (member->part == Part::kJoining) {
    member->part = Part::kJoined;
  } else if (member->part != Part::kStopped || !member->receiver || member->progress) {
    return;
  }
  // A Joined that was overtaken by the answer to Abort: the receiver's state is complete after all.
  member->progress = event.progress;
  member->newcomer = false;
}

void Coordinator::on(const JoinFailed& event) {
  Member* member = find_current(event.id, event.generation);
  if (!member || member->part != Part::kJoining) return;
  member->part = Part::kStopped;
  member->why = Stop::kAborted;
  join_failed_ = true;
  last_trouble_ = name(event.id) + " could not join: " + event.error;
}

void Coordinator::on(const Stopped& event) {
  Member* member = find_current(event.id, event.generation);
  if (!member) return;
  if (member->part == Part::kJoining && event.why == Stop::kAborted) {
    member->part = Part::kStopped;
    member->why = Stop::kAborted;
    if (phase_ == Phase::kForming) {
      join_failed_ = true;
      last_trouble_ = name(event.id) + " gave up joining";
    }
    return;
  }
  if (member->part != Part::kRunning) return;
  if (event.why == Stop::kFinished && event.segment != segment_) return;
  member->part = Part::kStopped;
  member->why = event.why;
  member->progress = event.progress;
  note_step(event.progress, now_);
}

void Coordinator::on(const UserError& event) {
  const Member* member = find(event.id);
  if (!member || (member->rank >= 0 && event.generation != generation_)) return;
  fail(ErrorCode::kApplication, fmt::format("User code threw in {}: {}", name(event.id), event.message));
}

void Coordinator::on(const Status& event) {
  Member* member = find_current(event.id, event.generation);
  if (!member || at_rest(*member) || event.round < first_round_ || event.round > round_) return;
  if (member->seen && member->seen->round >= event.round) return;
  member->seen = Seen{event.round, event.progress, event.waiting_for, event.in_step_for};
  member->heard_at = now_;
  if (event.round > member->missed_round) member->missed = 0;
  if (member->part == Part::kRunning) note_step(event.progress, now_ - event.in_step_for);
}

void Coordinator::on(const NoStatus& event) {
  Member* member = find(event.id);
  if (!member || member->rank < 0 || at_rest(*member)) return;
  if (event.round < first_round_ || event.round > round_ || event.round <= member->missed_round) return;
  if (member->seen && member->seen->round >= event.round) return;
  member->missed_round = event.round;
  ++member->missed;
}

// ---- Transitions.

bool Coordinator::advance() {
  switch (phase_) {
    case Phase::kIdle:
      return advance_idle();
    case Phase::kWaiting:
      return advance_waiting();
    case Phase::kForming:
      return advance_forming();
    case Phase::kRunning:
    case Phase::kPausing:
      return advance_active();
    case Phase::kAborting:
      return advance_aborting();
    case Phase::kFailed:
      return false;
  }
  return false;
}

bool Coordinator::advance_idle() {
  if (segment_active_) {
    if (intact_ && wanted() == ranks_ && ranks_.size() >= static_cast<size_t>(options_.min_workers)) {
      run();
    } else {
      enter_waiting();
    }
    return true;
  }
  if (state_is_safe()) {
    retire_leaving();
    return false;
  }
  // Only leaving members have the state: a member that stays takes it over.
  const bool heir = std::any_of(members_.begin(), members_.end(), [](const auto& entry) {
    return !entry.second.leaving && entry.second.part != Part::kStarting;
  });
  if (!heir || now_ < form_at_) return false;
  form();
  return true;
}

bool Coordinator::advance_waiting() {
  const std::vector<MemberId> group = wanted();
  const auto least = static_cast<size_t>(options_.min_workers);
  const auto survivors = static_cast<size_t>(
      std::count_if(group.begin(), group.end(), [this](MemberId id) { return members_.at(id).rank >= 0; }));
  const Time deadline = waiting_since_ + options_.start_timeout - waited_;
  const bool more_to_come = survivors < least && staying(true) > 0 &&
                            now_ < std::min(deadline, waiting_since_ + options_.grow_wait) &&
                            group.size() < static_cast<size_t>(options_.max_workers);
  if (group.size() >= least && !more_to_come && now_ >= form_at_) {
    form();
    return true;
  }
  if (now_ >= deadline) fail_waiting(group.size());
  return false;
}

bool Coordinator::advance_forming() {
  if (lost_ || join_failed_) {
    abort(lost_ ? loss_why_ : last_trouble_);
    return true;
  }
  if (!unfinished().empty()) return false;
  const Progress progress = *members_.at(ranks_.front()).progress;
  for (const MemberId id : ranks_)
    if (*members_.at(id).progress != progress) {
      last_trouble_ = fmt::format("{} joined at step {}, {} at step {}", name(ranks_.front()), progress.step, name(id),
                                  members_.at(id).progress->step);
      abort(last_trouble_);
      return true;
    }
  committed_ = generation_step_ = progress.step;
  intact_ = !handover_;
  if (!segment_active_) {
    phase_ = Phase::kIdle;
  } else if (intact_ && ranks_.size() >= static_cast<size_t>(options_.min_workers)) {
    run();
  } else {
    enter_waiting();  // A handover, or a group formed between segments for one.
  }
  return true;
}

bool Coordinator::advance_active() {
  size_t stopped = 0;
  bool finished = true;
  bool paused = false;
  bool aborted = false;
  for (const MemberId id : ranks_) {
    const Member& member = members_.at(id);
    if (member.part != Part::kStopped) continue;
    ++stopped;
    finished = finished && member.why == Stop::kFinished && member.progress == members_.at(ranks_.front()).progress;
    paused = paused || member.why == Stop::kPaused;
    aborted = aborted || member.why == Stop::kAborted;
  }
  if (lost_ || aborted) {
    if (!lost_) last_trouble_ = "a collective failed although no member was lost";
    abort(lost_ ? loss_why_ : last_trouble_);
    return true;
  }
  if (stopped == ranks_.size()) {
    if (finished) {
      finish();
    } else {
      if (phase_ == Phase::kRunning) add_trouble("the members stopped at different steps");
      enter_waiting();
    }
    return true;
  }
  if (phase_ == Phase::kRunning && (paused || (stopped == 0 && change_is_due()))) {
    pause();
    return true;
  }
  return false;
}

bool Coordinator::advance_aborting() {
  if (!unfinished().empty()) return false;
  const bool finished = segment_active_ && !(segment_repeats_ && lost_) && !ranks_.empty() &&
                        std::all_of(ranks_.begin(), ranks_.end(), [this](MemberId id) {
                          const Member& member = members_.at(id);
                          return member.part == Part::kStopped && member.why == Stop::kFinished &&
                                 member.progress == members_.at(ranks_.front()).progress;
                        });
  if (finished) {
    finish();
    return true;
  }
  if (!lost_) add_trouble(last_trouble_);
  if (segment_active_) {
    enter_waiting();
  } else {
    phase_ = Phase::kIdle;
  }
  return true;
}

void Coordinator::enter_waiting() {
  phase_ = Phase::kWaiting;
  intact_ = false;
  change_since_.reset();
  waiting_since_ = now_;
}

void Coordinator::form() {
  if (phase_ == Phase::kWaiting) waited_ += now_ - waiting_since_;
  if (const MemberId lost = std::exchange(pending_loss_, 0)) count_early_loss(lost);

  Form form{.generation = ++generation_, .members = wanted(), .source = {}, .receivers = {}};
  handover_ = false;
  const std::optional<Progress> most = highest();
  const auto holds = [&](MemberId id) { return members_.at(id).progress == most; };
  if (most && std::none_of(form.members.begin(), form.members.end(), holds)) {
    auto holder = std::find_if(ranks_.begin(), ranks_.end(), holds);
    MemberId id = 0;
    if (holder != ranks_.end()) {
      id = *holder;
    } else {
      id = std::find_if(members_.begin(), members_.end(), [&](const auto& entry) {
             return entry.second.progress == most;
           })->first;
    }
    form.members.insert(form.members.begin(), id);
    handover_ = true;
  }
  if (most) form.source = *std::find_if(form.members.begin(), form.members.end(), holds);

  for (const MemberId id : ranks_) {
    members_.at(id).rank = -1;
    members_.at(id).part = Part::kStandby;
  }
  int rank = 0;
  for (const MemberId id : form.members) {
    Member& member = members_.at(id);
    member.rank = rank++;
    member.part = Part::kJoining;
    member.receiver = id != form.source && (!most || member.newcomer || member.progress != most);
    if (member.receiver) {
      form.receivers.push_back(id);
      member.progress.reset();
    }
    member.seen.reset();
    member.missed = 0;
    member.heard_at = now_;
    member.slow_rounds = member.slow_waits = 0;
  }
  ranks_ = form.members;
  world_ = ranks_.size();
  intact_ = lost_ = join_failed_ = false;
  change_since_.reset();
  formed_at_ = now_;
  phase_ = Phase::kForming;
  first_round_ = round_ + 1;
  status_at_ = now_ + options_.status_interval;
  actions_.emplace_back(std::move(form));
}

void Coordinator::run() {
  phase_ = Phase::kRunning;
  // Members that have not joined held the initial state until now.
  if (!std::exchange(established_, true))
    for (auto& [id, member] : members_)
      if (member.rank < 0) member.progress.reset();
  for (const MemberId id : ranks_) {
    Member& member = members_.at(id);
    member.part = Part::kRunning;
    member.seen.reset();
    member.missed = 0;
    member.heard_at = now_;
    member.slow_rounds = member.slow_waits = 0;
  }
  first_round_ = round_ + 1;
  status_at_ = now_ + options_.status_interval;
  sample_step_ = committed_;
  sample_at_ = now_;
  change_since_.reset();
  actions_.emplace_back(Run{.generation = generation_, .segment = segment_, .members = ranks_});
  retire_leaving();
}

void Coordinator::pause() {
  phase_ = Phase::kPausing;
  intact_ = false;
  change_since_.reset();
  actions_.emplace_back(Pause{.generation = generation_, .members = unfinished()});
}

void Coordinator::abort(std::string why) {
  phase_ = Phase::kAborting;
  intact_ = false;
  change_since_.reset();
  aborted_at_ = now_;
  abort_why_ = std::move(why);
  if (auto members = unfinished(); !members.empty())
    actions_.emplace_back(Abort{.generation = generation_, .members = std::move(members)});
}

void Coordinator::finish() {
  intact_ = phase_ == Phase::kRunning;
  phase_ = Phase::kIdle;
  segment_active_ = false;
  change_since_.reset();
  waited_ = Time(0);
  fruitless_ = 0;
  Finish finish;
  for (const MemberId id : ranks_) finish.members.push_back({id, *members_.at(id).progress});
  actions_.emplace_back(std::move(finish));
}

void Coordinator::fail(ErrorCode code, std::string message) {
  if (phase_ == Phase::kFailed) return;
  phase_ = Phase::kFailed;
  segment_active_ = false;
  last_trouble_ = message;
  actions_.emplace_back(Fail{Error{code, std::move(message)}});
}

void Coordinator::fail_waiting(size_t ready) {
  if (ready >= static_cast<size_t>(options_.min_workers)) {
    fail(ErrorCode::kUnavailable,
         fmt::format("The {} workers could not form a group: {} generations in a row ended without a step and without "
                     "a lost worker; the last one because {}. Look at the network between their nodes and their logs",
                     ready, fruitless_, last_trouble_));
    return;
  }
  std::string lost;
  if (!last_failures_.empty())
    lost = fmt::format(" {} worker{} failed, the last one: {}.", failures_, plural(static_cast<size_t>(failures_)),
                       last_failures_.back());
  if (room_) lost += " The cluster has no room for more.";
  fail(
      ErrorCode::kUnavailable,
      fmt::format("The run has {} of the {} workers it needs (min_workers) after it waited {:.1f} s in total without a "
                  "step (start_timeout); {} {} still starting.{} Add resources or nodes, lower min_workers, or raise "
                  "start_timeout",
                  ready, options_.min_workers, in_seconds(options_.start_timeout), staying(true),
                  staying(true) == 1 ? "is" : "are", lost));
}

// ---- Members.

Coordinator::Member* Coordinator::find(MemberId id) {
  const auto found = members_.find(id);
  return found == members_.end() ? nullptr : &found->second;
}

Coordinator::Member* Coordinator::find_current(MemberId id, uint64_t generation) {
  Member* member = generation == generation_ ? find(id) : nullptr;
  return member && member->rank >= 0 ? member : nullptr;
}

std::vector<MemberId> Coordinator::wanted() const {
  // Leaving members help out where fewer than min_workers would be left.
  int helpers = options_.min_workers;
  for (const auto& [id, member] : members_) helpers -= !member.leaving && member.part != Part::kStarting;
  std::vector<MemberId> group;
  for (const MemberId id : ranks_)
    if (!members_.at(id).leaving || helpers-- > 0) group.push_back(id);
  for (const bool leaving : {true, false})
    for (const auto& [id, member] : members_) {
      if (member.rank >= 0 || member.part == Part::kStarting || member.leaving != leaving) continue;
      if (!leaving || helpers-- > 0) group.push_back(id);
    }
  return group;
}

std::optional<Progress> Coordinator::highest() const {
  std::optional<Progress> most;
  for (const auto& [id, member] : members_) most = std::max(most, member.progress);
  return most;
}

bool Coordinator::state_is_safe() const {
  const std::optional<Progress> most = highest();
  return !established_ || !most || std::any_of(members_.begin(), members_.end(), [&](const auto& entry) {
    return !entry.second.leaving && entry.second.progress == most;
  });
}

bool Coordinator::change_is_due() {
  if (wanted() == ranks_) {
    change_since_.reset();
    return false;
  }
  if (!change_since_) change_since_ = now_;
  return staying(true) == 0 || now_ >= *change_since_ + options_.grow_wait;
}

int Coordinator::staying(bool starting_only) const {
  return static_cast<int>(std::count_if(members_.begin(), members_.end(), [&](const auto& entry) {
    return !entry.second.leaving && (!starting_only || entry.second.part == Part::kStarting);
  }));
}

std::vector<MemberId> Coordinator::standby() const {
  std::vector<MemberId> ids;
  for (const auto& [id, member] : members_)
    if (member.part == Part::kStandby && !member.leaving) ids.push_back(id);
  return ids;
}

std::vector<MemberId> Coordinator::unfinished() const {
  std::vector<MemberId> ids;
  for (const MemberId id : ranks_)
    if (!at_rest(members_.at(id))) ids.push_back(id);
  return ids;
}

bool Coordinator::at_rest(const Member& member) const {
  return member.part != Part::kJoining && member.part != Part::kRunning;
}

bool Coordinator::busy() const {
  return phase_ == Phase::kForming || phase_ == Phase::kRunning || phase_ == Phase::kPausing ||
         phase_ == Phase::kAborting;
}

void Coordinator::lose(MemberId id, const std::string& cause, bool failure) {
  const Member& member = members_.at(id);
  failure = failure && !member.leaving;
  if (failure) {
    ++failures_;
    last_failures_.push_back(fmt::format("{}: {}", name(id), cause));
    if (last_failures_.size() > kFailuresKept) last_failures_.pop_front();
    if (room_) ++*room_;
    if (!member.contributed && member.rank >= 0) {
      pending_loss_ = std::max(pending_loss_, id);  // Unless it turns out that a step was committed.
    } else if (!member.contributed) {
      count_early_loss(id);
    }
  }
  if (member.rank >= 0) {
    loss_why_ = fmt::format("{} was lost ({})", name(id), cause);
    std::erase(ranks_, id);
    lost_ = true;
    intact_ = false;
  }
  members_.erase(id);
  if (options_.max_failures < 0 || failures_ <= options_.max_failures || !failure) return;
  std::string causes;
  for (const std::string& last : last_failures_) causes += (causes.empty() ? "" : "; ") + last;
  fail(ErrorCode::kActorDied,
       fmt::format("{} worker{} failed, max_failures is {}. Last causes: {}. Remove the cause, "
                   "or raise max_failures",
                   failures_, plural(static_cast<size_t>(failures_)), options_.max_failures, causes));
}

void Coordinator::count_early_loss(MemberId id) {
  if (id < early_loss_mark_) return;  // Started before the last one was counted: one incident, such as a lost node.
  early_loss_mark_ = next_id_;
  spawn_at_ = std::max(spawn_at_, now_ + backoff(++early_losses_));
}

void Coordinator::kill(MemberId id, KillCause cause, const std::string& reason) {
  actions_.emplace_back(Kill{.id = id, .cause = cause, .reason = reason});
  lose(id, reason, cause != KillCause::kLeaving);
}

void Coordinator::retire_leaving() {
  const std::vector<MemberId> kept = wanted();  // Leaving members help until their replacements are ready.
  std::vector<MemberId> gone;
  for (const auto& [id, member] : members_) {
    if (!member.leaving || std::find(kept.begin(), kept.end(), id) != kept.end()) continue;
    if (member.rank < 0 || phase_ == Phase::kIdle) gone.push_back(id);
  }
  for (const MemberId id : gone)
    kill(id, KillCause::kLeaving, name(id) + " leaves: its node leaves soon, and other members hold its state.");
}

void Coordinator::spawn_missing() {
  if (phase_ == Phase::kFailed || now_ < spawn_at_) return;
  const int living = staying(false);
  const int missing = options_.max_workers - living;
  int count = missing;
  if (room_) {
    count = std::min(missing, *room_);
    // The workers without which the run cannot go on are asked for again.
    if (now_ >= room_at_) count = std::max(count, options_.min_workers - living);
  }
  if (count <= 0) return;
  if (room_) room_ = std::max(0, *room_ - count);
  Spawn spawn;
  for (int i = 0; i < count; ++i) {
    spawn.members.push_back(next_id_);
    members_.emplace(next_id_++, Member{});
  }
  actions_.emplace_back(std::move(spawn));
}

void Coordinator::note_step(const Progress& progress, Time at) {
  if (progress.step <= committed_) return;
  committed_ = progress.step;
  waited_ = Time(0);
  fruitless_ = 0;
  if (phase_ != Phase::kAborting && at > sample_at_) {
    step_times_[step_times_count_++ % step_times_.size()] = (at - sample_at_) / (committed_ - sample_step_);
    sample_step_ = committed_;
    sample_at_ = at;
  }
  // A step needs all members of its generation, those lost since included.
  bool first = std::exchange(pending_loss_, 0) > 0;
  for (const MemberId id : ranks_) first = !std::exchange(members_.at(id).contributed, true) || first;
  if (!first) return;
  early_losses_ = 0;
  spawn_at_ = now_;
}

void Coordinator::add_trouble(const std::string& why) {
  last_trouble_ = why;
  form_at_ = now_ + backoff(++fruitless_);
}

// ---- Statuses.

std::optional<Time> Coordinator::median_step_time() const {
  const size_t count = std::min(step_times_count_, step_times_.size());
  if (count == 0) return std::nullopt;
  std::array<Time, 32> times = step_times_;
  const auto middle = times.begin() + static_cast<std::ptrdiff_t>(count / 2);
  std::nth_element(times.begin(), middle, times.begin() + static_cast<std::ptrdiff_t>(count));
  return *middle;
}

Time Coordinator::limit(const Member& member) const {
  const auto median = member.contributed ? median_step_time() : std::nullopt;
  if (!median) return std::max(options_.hang_timeout, options_.start_timeout);
  const double factor = options_.hang_factor * static_cast<double>(median->count());
  return std::max(options_.hang_timeout, Time(static_cast<int64_t>(std::min(factor, 9e18))));
}

bool Coordinator::fresh(const Member& member) const { return member.seen && member.seen->round + 1 >= round_; }

bool Coordinator::is_waited_for(MemberId id) const {
  const Member& member = members_.at(id);
  return std::any_of(ranks_.begin(), ranks_.end(), [&](MemberId other) {
    if (other == id) return false;
    const Member& one = members_.at(other);
    if (at_rest(one)) return true;
    if (!fresh(one) || (member.seen && one.seen->progress < member.seen->progress)) return false;
    const auto& waits = one.seen->waiting_for;
    return std::find(waits.begin(), waits.end(), id) != waits.end();
  });
}

void Coordinator::find_hung() {
  if (!busy()) return;
  const bool running = phase_ == Phase::kRunning || phase_ == Phase::kPausing;
  const bool join_is_over = phase_ == Phase::kForming && now_ >= formed_at_ + options_.start_timeout;
  struct Found {
    MemberId id;
    KillCause cause;
    std::string reason;
  };
  std::vector<Found> found;
  bool all_wait = true;
  for (const MemberId id : unfinished()) {
    const Member& member = members_.at(id);
    const Time most = limit(member);
    const bool waits = fresh(member) && !member.seen->waiting_for.empty();
    all_wait = all_wait && waits && member.seen->in_step_for >= most;
    const bool suspect = member.missed >= 2 || (running && fresh(member) && !waits && member.seen->in_step_for >= most);
    const bool waited_for = suspect && is_waited_for(id);
    if (member.missed >= 2 && (waited_for || now_ - member.heard_at >= most)) {
      found.push_back({id, KillCause::kFrozen,
                       fmt::format("{} is frozen: it answered none of the last {} status requests, {:.1f} s after its "
                                   "last sign of life{}.",
                                   name(id), member.missed, in_seconds(now_ - member.heard_at),
                                   waited_for ? ", and others wait for it" : "")});
    } else if (member.missed < 2 && waited_for) {
      found.push_back(
          {id, KillCause::kHung,
           fmt::format("{} hangs: it has been in its own code in step {} for {:.1f} s while others wait for "
                       "it; the limit is {:.1f} s.",
                       name(id), member.seen->progress.step + 1, in_seconds(member.seen->in_step_for),
                       in_seconds(most))});
    } else if (phase_ == Phase::kAborting && now_ >= aborted_at_ + most) {
      found.push_back({id, KillCause::kHung,
                       fmt::format("{} hangs: it has not stopped within {:.1f} s after generation {} was aborted.",
                                   name(id), in_seconds(most), generation_)});
    } else if (join_is_over && !waits) {
      found.push_back({id, KillCause::kHung,
                       fmt::format("{} hangs: it has not joined generation {} within {:.1f} s (start_timeout).",
                                   name(id), generation_, in_seconds(options_.start_timeout))});
    }
  }
  for (const Found& one : found) {
    if (phase_ == Phase::kFailed) return;
    kill(one.id, one.cause, one.reason);
  }
  if (!found.empty()) return;
  if (join_is_over && !unfinished().empty() && !join_failed_) {
    join_failed_ = true;
    last_trouble_ = "all members waited for each other in a join";
  }
  if (running && all_wait && !unfinished().empty()) {
    last_trouble_ = "all members waited for each other in a collective";
    abort(last_trouble_);
  }
}

void Coordinator::ask_status() {
  if (!busy() || now_ < status_at_) return;
  count_slow();
  actions_.emplace_back(AskStatus{.round = ++round_, .members = unfinished()});
  status_at_ = now_ + options_.status_interval;
}

void Coordinator::count_slow() {
  if (phase_ != Phase::kRunning || round_ < first_round_) return;
  const auto answered = [this](const Member& member) { return member.seen && member.seen->round == round_; };
  for (const MemberId id : ranks_) {
    Member& member = members_.at(id);
    if (!answered(member)) continue;
    size_t others = 0;
    size_t waiting = 0;
    for (const MemberId other : ranks_) {
      const Member& one = members_.at(other);
      if (other == id || !answered(one)) continue;
      const auto& waits = one.seen->waiting_for;
      ++others;
      waiting += std::find(waits.begin(), waits.end(), id) != waits.end();
    }
    if (others == 0) continue;
    if (member.slow_rounds++ == 0) member.slow_step = member.seen->progress.step;
    if (member.seen->waiting_for.empty() && 2 * waiting >= others) ++member.slow_waits;
    if (member.slow_rounds < kSlowRounds) continue;
    // The others wait for a fraction f of the time, so their own part of a step is 1 - f of this member's.
    const double factor = static_cast<double>(member.slow_rounds) / std::max(1, member.slow_rounds - member.slow_waits);
    const bool goes_on = member.seen->progress.step > member.slow_step;
    member.slow_rounds = member.slow_waits = 0;
    if (factor < kSlowFactor || !goes_on) continue;
    if (member.slow_reported_at && now_ < *member.slow_reported_at + options_.slow_report_interval) continue;
    member.slow_reported_at = now_;
    actions_.emplace_back(ReportSlow{.id = id, .factor = factor});
  }
}

// ---- Queries.

std::optional<Time> Coordinator::next_wakeup() const {
  if (phase_ == Phase::kFailed) return std::nullopt;
  std::optional<Time> next;
  const auto add = [&](Time time) {
    if (time > now_ && (!next || time < *next)) next = time;
  };
  if (busy()) add(status_at_);
  if (phase_ == Phase::kForming) add(formed_at_ + options_.start_timeout);
  if (phase_ == Phase::kAborting)
    for (const MemberId id : unfinished()) add(aborted_at_ + limit(members_.at(id)));
  if (phase_ == Phase::kWaiting) {
    add(waiting_since_ + options_.start_timeout - waited_);
    add(waiting_since_ + options_.grow_wait);
  }
  if (phase_ == Phase::kWaiting || phase_ == Phase::kIdle) add(form_at_);
  if (change_since_) add(*change_since_ + options_.grow_wait);
  if (staying(false) < options_.max_workers) {
    add(spawn_at_);
    if (room_ && staying(false) < options_.min_workers) add(room_at_);
  }
  return next;
}

std::string Coordinator::name(MemberId id) const {
  const auto found = members_.find(id);
  const std::string node =
      found == members_.end() || found->second.node.empty() ? "" : fmt::format(" on node {}", found->second.node);
  if (found == members_.end() || found->second.rank < 0) return fmt::format("member {}{}", id, node);
  return fmt::format("rank {} (member {}{})", found->second.rank, id, node);
}

std::string Coordinator::names(const std::vector<MemberId>& ids) const {
  constexpr size_t kMost = 3;
  std::string text;
  for (size_t i = 0; i < std::min(ids.size(), kMost); ++i) text += (i == 0 ? "" : ", ") + name(ids[i]);
  if (ids.size() > kMost) text += fmt::format(" and {} more", ids.size() - kMost);
  return text.empty() ? "nobody" : text;
}

std::string Coordinator::explain() const {
  const size_t starting = static_cast<size_t>(staying(true));
  const std::string coming = starting == 0 ? ""
                                           : fmt::format(" {} more worker{} {} starting.", starting, plural(starting),
                                                         starting == 1 ? "is" : "are");
  const std::string group =
      fmt::format("generation {} ({} worker{})", generation_, ranks_.size(), plural(ranks_.size()));
  switch (phase_) {
    case Phase::kIdle:
      if (intact_) return fmt::format("No segment runs; {} stays formed.{}", group, coming);
      return fmt::format("No segment runs; the next one forms a new group.{}", coming);
    case Phase::kWaiting: {
      const size_t ready = wanted().size();
      const double left = in_seconds(std::max(Time(0), waiting_since_ + options_.start_timeout - waited_ - now_));
      if (ready >= static_cast<size_t>(options_.min_workers) && now_ < form_at_)
        return fmt::format("The run forms a group again in {:.1f} s; the last attempt ended because {}.",
                           in_seconds(form_at_ - now_), last_trouble_);
      return fmt::format("The run waits for workers: {} ready, {} starting, at least {} needed. It fails in {:.1f} s.",
                         ready, starting, options_.min_workers, left);
    }
    case Phase::kForming:
      return fmt::format("The run forms {}{} and waits for {} to join.", group,
                         handover_ ? ", which hands the state of leaving workers over," : "", names(unfinished()));
    case Phase::kRunning: {
      const std::string of =
          segment_steps_ ? fmt::format(" of {}", segment_first_step_ + *segment_steps_) : std::string();
      std::string slow;
      for (const MemberId id : ranks_) {
        const Member& member = members_.at(id);
        if (member.seen && member.seen->waiting_for.empty() && member.seen->in_step_for >= options_.hang_timeout)
          slow = fmt::format(" {} has been in step {} for {:.1f} s.", name(id), member.seen->progress.step + 1,
                             in_seconds(member.seen->in_step_for));
      }
      return fmt::format("The run trains in {}, {} steps{} committed.{}{}", group, committed_, of, coming, slow);
    }
    case Phase::kPausing:
      return fmt::format("The run pauses {} at a step boundary to change its members and waits for {}.", group,
                         names(unfinished()));
    case Phase::kAborting:
      return fmt::format("The run ends generation {} because {}, and waits for {} to stop.", generation_, abort_why_,
                         names(unfinished()));
    case Phase::kFailed:
      return "The run has failed: " + last_trouble_ + ".";
  }
  return "The run has failed.";
}

void Coordinator::check_invariants() const {
  const std::string at = fmt::format("generation {} {}", generation_, to_string(phase_));
  for (size_t i = 0; i < ranks_.size(); ++i) {
    const auto found = members_.find(ranks_[i]);
    VOLADOR_CHECK(found != members_.end(), at);
    VOLADOR_CHECK(found->second.rank >= static_cast<int>(i), at);
    VOLADOR_CHECK(i == 0 || found->second.rank > members_.at(ranks_[i - 1]).rank, at);
    VOLADOR_CHECK(!intact_ || found->second.rank == static_cast<int>(i), at);
  }
  size_t ranked = 0;
  for (const auto& [id, member] : members_) {
    const std::string what = fmt::format("{} member {}", at, id);
    VOLADOR_CHECK(id >= 1 && id < next_id_, what);
    ranked += member.rank >= 0;
    const bool in_group = member.part != Part::kStarting && member.part != Part::kStandby;
    VOLADOR_CHECK(in_group == (member.rank >= 0), what);
    VOLADOR_CHECK(member.part != Part::kStarting || (!member.progress && member.newcomer && !member.leaving), what);
    VOLADOR_CHECK(member.part != Part::kJoining || phase_ == Phase::kForming || phase_ == Phase::kAborting ||
                      phase_ == Phase::kFailed,
                  what);
    VOLADOR_CHECK(member.part != Part::kRunning || phase_ == Phase::kRunning || phase_ == Phase::kPausing ||
                      phase_ == Phase::kAborting || phase_ == Phase::kFailed,
                  what);
    VOLADOR_CHECK(member.part != Part::kJoined || member.progress, what);
  }
  VOLADOR_CHECK(ranked == ranks_.size(), at);
  VOLADOR_CHECK(staying(false) <= options_.max_workers, at);
  VOLADOR_CHECK(!intact_ || (!lost_ && ranks_.size() == world_), at);
  VOLADOR_CHECK(!busy() || phase_ == Phase::kForming || !intact_ || phase_ == Phase::kRunning, at);
  VOLADOR_CHECK(phase_ != Phase::kIdle || !segment_active_, at);
  VOLADOR_CHECK(phase_ == Phase::kIdle || phase_ == Phase::kFailed || phase_ == Phase::kForming ||
                    phase_ == Phase::kAborting || segment_active_,
                at);
  const bool running = phase_ == Phase::kRunning || phase_ == Phase::kPausing;
  VOLADOR_CHECK(!running || (world_ <= static_cast<size_t>(options_.max_workers) && !handover_ && established_), at);
  VOLADOR_CHECK(!running || unfinished().size() > 0, at);
  VOLADOR_CHECK(phase_ == Phase::kFailed || waited_ >= Time(0), at);
  VOLADOR_CHECK(options_.max_failures < 0 || phase_ == Phase::kFailed || failures_ <= options_.max_failures, at);
}

}  // namespace volador::train
