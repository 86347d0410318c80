// Sleeping on a word, and waking who sleeps there: what locks and events of one process are made of.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

namespace volador {

// Sleeps while the word is `seen`, until woken, or until `deadline`. May return early. False: the deadline has passed.
bool futex_wait(std::atomic<uint32_t>& word, uint32_t seen, const std::optional<std::chrono::steady_clock::time_point>& deadline = std::nullopt);
// Wakes at most so many. The word may be gone already: nothing of it is read.
void futex_wake(std::atomic<uint32_t>& word, int count);

}  // namespace volador
