// Attacks by strangers on a listening port, which are cheap for the attacker and must not affect other peers.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

namespace volador::bench {

struct Attack {
  std::string_view name;
  std::string_view help;
  std::string_view ports;  // Applicable ports: "head", "dashboard", "data".
};
// silent, garbage, hellos, handshakes, resets, spread_handshakes, spread_resets, slow, pages.
std::span<const Attack> attacks();

struct AttackCount {
  uint64_t connections = 0;  // Opened.
  uint64_t ended = 0;        // Closed by the peer.
  uint64_t bytes = 0;        // Sent.
};

// Attacks 127.0.0.1:port for that time, from several threads, with at most `connections` connections in total and 1,500
// at once. Calls `on_full` once as many are open as the attack opens at once. Throws std::runtime_error for an unknown
// name.
AttackCount run_attack(std::string_view name, uint16_t port, std::chrono::milliseconds time, uint64_t connections,
                       const std::function<void()>& on_full);

}  // namespace volador::bench
