// Futex operations within one process, for locks and events.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

namespace volador {

// Sleeps while the word is `seen`, until woken or until `deadline`. May return early. False: the deadline has passed.
bool futex_wait(std::atomic<uint32_t>& word, uint32_t seen,
                const std::optional<std::chrono::steady_clock::time_point>& deadline = std::nullopt);
// Wakes at most `count` threads. Does not read the word, which may already be destroyed.
void futex_wake(std::atomic<uint32_t>& word, int count);

}  // namespace volador
