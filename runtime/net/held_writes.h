// What a thread put into the outboxes of busy connections and left there: a write costs more than a few calls do, and soon there may be
// more. It is written once there is much of it, before the thread waits, and after a millisecond at the latest.
#pragma once

namespace volador::net {

// Writes what the calling thread has left. For those who are about to wait, or to work on something else.
void write_held();

// While one lives its thread answers one call after another: answers are held while other calls run, and written at its end.
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
