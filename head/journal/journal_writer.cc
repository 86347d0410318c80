#include "head/journal/journal_writer.h"

#include <fmt/format.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "runtime/log.h"
#include "runtime/quantities.h"

namespace volador::head {
namespace {

struct Step {
  std::vector<Mutation> mutations;
  size_t bytes = 0;
  JournalWriter::OnDurable on_durable;
  JournalWriter::OnRefused on_refused;
  std::optional<Error> refused;  // The reason why its mutations are not stored; the list is then empty.
};

size_t bytes_of(const std::vector<Mutation>& mutations) {
  size_t bytes = 0;
  for (const Mutation& mutation : mutations)
    bytes += sizeof(Mutation) + mutation.key.size() + (mutation.value ? mutation.value->size() : 0);
  return bytes;
}

}  // namespace

struct JournalWriter::Impl {
  Impl(Journal& j, const JournalWriterOptions& o, OnLost lost) : journal(j), options(o), on_lost(std::move(lost)) {}

  void run();
  // Returns the next steps that fit into a batch, with their mutations in one list.
  std::pair<std::vector<Step>, std::vector<Mutation>> take_batch();
  // Returns false if it gave up (store lost, or stopping while the store fails).
  bool commit_until_stored(const std::vector<Mutation>& batch);
  static void tell(const Step& step);
  std::optional<Error> full() const;  // Requires the mutex.

  Journal& journal;
  const JournalWriterOptions options;
  const OnLost on_lost;

  mutable std::mutex mutex;
  std::condition_variable changed;
  std::deque<Step> steps;        // Not yet durable, without the batch being written.
  size_t waiting_mutations = 0;  // Total of all steps that are not durable.
  size_t waiting_bytes = 0;
  size_t waiting_steps = 0;
  std::optional<Error> failure;
  bool stopping = false;
  std::thread thread;
};

std::pair<std::vector<Step>, std::vector<Mutation>> JournalWriter::Impl::take_batch() {
  std::vector<Step> taken;
  std::vector<Mutation> batch;
  size_t bytes = 0;
  while (!steps.empty()) {
    Step& step = steps.front();
    const bool full = batch.size() + step.mutations.size() > options.batch_mutations_max ||
                      bytes + step.bytes > options.batch_bytes_max;
    if (full && !taken.empty()) break;
    bytes += step.bytes;
    batch.insert(batch.end(), std::make_move_iterator(step.mutations.begin()),
                 std::make_move_iterator(step.mutations.end()));
    taken.push_back(std::move(step));
    steps.pop_front();
  }
  return {std::move(taken), std::move(batch)};
}

bool JournalWriter::Impl::commit_until_stored(const std::vector<Mutation>& batch) {
  if (batch.empty()) return true;
  auto delay = options.retry_first;
  size_t attempts = 0;
  while (true) {
    auto stored = journal.commit(batch);
    ++attempts;
    std::unique_lock lock(mutex);
    if (stored) {
      if (failure) log::info("journal", "stores again", {{"store", journal.description()}, {"attempts", attempts}});
      failure.reset();
      return true;
    }
    const bool lost =
        stored.error().code != ErrorCode::kUnavailable && stored.error().code != ErrorCode::kUnauthenticated;
    if (lost) {
      log::error("journal", "the store is lost", {{"store", journal.description()}, {"error", stored.error().message}});
    } else if (!failure) {
      log::warn("journal", "does not store; the head is read-only",
                {{"store", journal.description()}, {"error", stored.error().message}});
    }
    failure = stored.error();
    if (lost) {
      lock.unlock();
      on_lost(stored.error());
      return false;
    }
    if (changed.wait_for(lock, delay, [this] { return stopping; })) return false;
    delay = std::min(delay * 2, options.retry_last);
  }
}

void JournalWriter::Impl::run() {
  while (true) {
    std::vector<Step> taken;
    std::vector<Mutation> batch;
    {
      std::unique_lock lock(mutex);
      changed.wait(lock, [this] { return stopping || !steps.empty(); });
      if (steps.empty()) return;
      std::tie(taken, batch) = take_batch();
    }
    if (!commit_until_stored(batch)) return;
    {
      // Stored mutations leave the backlog before their callbacks run; idle() turns true only after them.
      std::lock_guard lock(mutex);
      waiting_mutations -= batch.size();
      for (const Step& step : taken) waiting_bytes -= step.bytes;
    }
    for (const Step& step : taken) tell(step);
    std::lock_guard lock(mutex);
    waiting_steps -= taken.size();
  }
}

void JournalWriter::Impl::tell(const Step& step) {
  if (!step.refused) {
    if (step.on_durable) step.on_durable();
    return;
  }
  log::error("journal", "refused rows that break a limit", {{"error", step.refused->message}});
  if (step.on_refused) step.on_refused(*step.refused);
}

JournalWriter::JournalWriter(Journal& journal, const JournalWriterOptions& options, OnLost on_lost)
    : impl_(std::make_unique<Impl>(journal, options, std::move(on_lost))) {
  impl_->thread = std::thread([impl = impl_.get()] { impl->run(); });
}

JournalWriter::~JournalWriter() {
  {
    std::lock_guard lock(impl_->mutex);
    impl_->stopping = true;
  }
  impl_->changed.notify_all();
  impl_->thread.join();
}

void JournalWriter::submit(std::vector<Mutation> mutations, OnDurable on_durable, OnRefused on_refused) {
  Step step{std::move(mutations), 0, std::move(on_durable), std::move(on_refused), std::nullopt};
  // Checked here because a batch is atomic: one row that no store accepts must not block the others.
  if (auto sound = check_mutations(step.mutations); !sound) {
    step.refused = std::move(sound).error();
    step.mutations.clear();
  }
  step.bytes = bytes_of(step.mutations);
  {
    std::lock_guard lock(impl_->mutex);
    impl_->waiting_mutations += step.mutations.size();
    impl_->waiting_bytes += step.bytes;
    ++impl_->waiting_steps;
    impl_->steps.push_back(std::move(step));
  }
  impl_->changed.notify_one();
}

bool JournalWriter::idle() const {
  std::lock_guard lock(impl_->mutex);
  return impl_->waiting_steps == 0;
}

std::optional<Error> JournalWriter::read_only() const {
  std::lock_guard lock(impl_->mutex);
  if (impl_->failure) {
    return Error{ErrorCode::kUnavailable,
                 fmt::format("the head is read-only while its journal does not store: {}", impl_->failure->message)};
  }
  return impl_->full();
}

std::optional<Error> JournalWriter::full() const {
  std::lock_guard lock(impl_->mutex);
  return impl_->full();
}

std::optional<Error> JournalWriter::Impl::full() const {
  if (waiting_mutations <= options.backlog_mutations_max && waiting_bytes <= options.backlog_bytes_max)
    return std::nullopt;
  return Error{ErrorCode::kUnavailable, fmt::format("{} ({} MiB) {} for the journal {}; try again in a moment",
                                                    counted(waiting_mutations, "change"), waiting_bytes >> 20,
                                                    waiting_mutations == 1 ? "waits" : "wait", journal.description())};
}

}  // namespace volador::head
