// The head's one writer thread: collects mutations into batches and says when each is durable, so that nothing leaves before it.
// While the store fails nothing is acknowledged: the same batch is tried again until the store is back; the head is read-only meanwhile.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "head/journal/journal.h"

namespace volador::head {

struct JournalWriterOptions {
  size_t batch_mutations_max = 4096;
  size_t batch_bytes_max = size_t{64} << 20;
  size_t backlog_mutations_max = 50'000;            // Beyond either, read_only() holds.
  size_t backlog_bytes_max = size_t{256} << 20;
  std::chrono::milliseconds retry_first{50};        // Doubles up to retry_last.
  std::chrono::milliseconds retry_last{1000};
};

// Thread safe.
class JournalWriter {
 public:
  using OnDurable = std::function<void()>;
  using OnRefused = std::function<void(const Error&)>;
  // Called once, from the writer's thread, when the store will never take a batch again (taken over, damaged): the head must end.
  using OnLost = std::function<void(Error)>;

  // The journal is used by the writer's thread only from here on.
  JournalWriter(Journal& journal, const JournalWriterOptions& options, OnLost on_lost);
  // Tries once more to commit what was submitted; what is not stored then is dropped, unacknowledged.
  ~JournalWriter();
  JournalWriter(const JournalWriter&) = delete;
  JournalWriter& operator=(const JournalWriter&) = delete;

  // on_durable runs on the writer's thread, in the order of submission, once the mutations and all before them are stored.
  // An empty list keeps the order only. Never refuses for want of room: callers look at read_only() before they accept work that leads here.
  // Where one of the mutations breaks the rules of Mutation none of them is stored, and on_refused runs in place of on_durable, in the same
  // order; without it the error is logged.
  void submit(std::vector<Mutation> mutations, OnDurable on_durable, OnRefused on_refused = nullptr);

  // Nothing submitted waits.
  bool idle() const;
  // Why nothing new should be accepted: the store's failure, or a backlog beyond its limits (kUnavailable). Nothing: all is well.
  std::optional<Error> read_only() const;
  // The same for the backlog alone: what must not grow any further (kUnavailable). Nothing: there is room.
  std::optional<Error> full() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace volador::head
