// Write batching per thread: small writes to busy connections stay in the outbox, because a write costs more than a few
// calls and more may follow. They are written once they are large, before the thread waits, and after a millisecond at
// the latest.
#pragma once

namespace volador::net {

// Writes what the calling thread holds. Call before waiting or doing other work.
void write_held();

// While it lives, its thread answers calls in sequence: replies are held while other calls run and are written at its
// end.
class AnswersInARow {
 public:
  AnswersInARow() { lives_ = true; }
  ~AnswersInARow() {
    lives_ = false;
    write_held();
  }
  AnswersInARow(const AnswersInARow&) = delete;
  AnswersInARow& operator=(const AnswersInARow&) = delete;
  static bool of_thread() { return lives_; }

 private:
  static inline thread_local bool lives_ = false;
};

}  // namespace volador::net
