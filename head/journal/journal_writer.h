// The head's single writer thread: collects mutations into batches and reports when each is durable, so that no message
// is sent earlier. While the store fails nothing is acknowledged: the same batch is retried until the store recovers,
// and the head is read-only.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "head/journal/journal.h"

namespace volador::head {

// Limits of the backlog, and retry delays.
struct JournalWriterOptions {
  size_t batch_mutations_max = 4096;
  size_t batch_bytes_max = size_t{64} << 20;
  size_t backlog_mutations_max = 50'000;  // Beyond either limit read_only() returns an error.
  size_t backlog_bytes_max = size_t{256} << 20;
  std::chrono::milliseconds retry_first{50};  // Doubles up to retry_last.
  std::chrono::milliseconds retry_last{1000};
};

// Thread safe.
class JournalWriter {
 public:
  using OnDurable = std::function<void()>;
  using OnRefused = std::function<void(const Error&)>;
  // Called once, on the writer's thread, if the store will never accept a batch again (taken over, damaged): the head
  // must end.
  using OnLost = std::function<void(Error)>;

  // From here on only the writer's thread uses the journal.
  JournalWriter(Journal& journal, const JournalWriterOptions& options, OnLost on_lost);
  // Tries once more to commit the submitted mutations; what cannot be stored is dropped without acknowledgement.
  ~JournalWriter();
  JournalWriter(const JournalWriter&) = delete;
  JournalWriter& operator=(const JournalWriter&) = delete;

  // Calls on_durable on the writer's thread, in the order of submission, once the mutations and all earlier ones are
  // stored. An empty list only keeps the order. Never refuses for lack of room: callers check read_only() before they
  // accept work. If a mutation breaks the rules of Mutation, none of the list is stored and on_refused runs instead of
  // on_durable, in the same order; without it the error is logged.
  void submit(std::vector<Mutation> mutations, OnDurable on_durable, OnRefused on_refused = nullptr);

  // No submitted mutation is pending.
  bool idle() const;
  // The reason to refuse new work: a failure of the store, or a backlog beyond its limits (kUnavailable). nullopt:
  // none.
  std::optional<Error> read_only() const;
  // Same for the backlog alone (kUnavailable). nullopt: there is room.
  std::optional<Error> full() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace volador::head
