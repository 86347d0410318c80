// What a thread put into the outboxes of busy connections and left there: a write costs more than a few calls do, and soon there may be
// more. It is written once there is much of it, before the thread waits, and after a millisecond at the latest.
#pragma once

namespace volador::net {

// Writes what the calling thread has left. For those who are about to wait, or to work on something else.
void write_held();

// The thread has many calls under way: what it waits for comes soon. Taken back when it came late.
inline thread_local bool calls_in_a_row = false;

// The thread answers one call after another, and calls write_held() before it stops: its answers are held while others run.
inline thread_local bool answers_in_a_row = false;

}  // namespace volador::net
