// Which of the connections to a listening port are served before their peers have proved who they are.
//
// A connection is new until its whole hello (of TLS, or the head of an HTTP request) has arrived, waiting until the server has
// capacity for another unproved peer, unproved from then on, and leaves this table when its peer proves itself or the
// connection ends. Proved connections are not counted: no number of strangers takes a place from them. Every address has a
// budget of failures, which its proved connections refill, so that an address that only fails is served slowly and others are
// not held up. A second after its last failure every address is served again. Addresses without an earlier proof share
// a second budget and leave a quarter of the places to the others, so that an attack from many addresses costs no more than one.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "runtime/clock.h"

namespace volador::net {

struct AdmissionLimits {
  size_t connections = 512;  // In the table. At the limit one more ends the oldest new one, else the oldest waiting one.
  size_t unproved = 128;     // Served at once.
  size_t unproved_of_address = 16;
  std::chrono::milliseconds hello_time{2'000};   // From the connection to its hello.
  std::chrono::milliseconds crowded_time{250};   // What new connections get of it at least, see is_crowded().
  std::chrono::milliseconds wait_time{5'000};    // From the hello until it is served.
  std::chrono::milliseconds proof_time{5'000};   // From then until the peer proves itself.
  uint64_t unproved_bytes = 128 << 10;  // From an unproved peer: handshake, first request and one flow-control window.
  // The failure budget of an address: how much it holds, how much comes back a second.
  double budget = 200;
  double budget_per_second = 20;
  double flood_cost = 50;  // Of exceeding unproved_bytes or proof_time.
  double bytes_cost = 10;  // Every other end without proof costs 1, and this times the received part of unproved_bytes.
  // The shared budget of all addresses without an earlier proof.
  double strangers_budget = 150;
  double strangers_budget_per_second = 40;
  size_t addresses = 4'096;  // With less than the whole budget, and with proofs; beyond it the fullest and the oldest are forgotten.
};

// These limits for a process that may open so many descriptors: an unproved connection takes two, and most are left to peers that
// have proved themselves.
AdmissionLimits admission_limits_for(uint64_t descriptors, AdmissionLimits limits = {});

struct AdmissionAction {
  enum class Kind : uint8_t {
    kServe,    // Hand it to the server.
    kEnd,      // Close it; it is out of the table.
    kRelease,  // Its peer has proved itself; it is out of the table.
  };
  Kind kind;
  uint64_t connection;
};

// Pure. Connections have numbers that the caller chooses, each used once; events for unknown numbers are ignored.
class Admission {
 public:
  using Actions = std::vector<AdmissionAction>;

  explicit Admission(AdmissionLimits limits = {}) : limits_(limits) {}

  Actions on_accepted(uint64_t connection, const std::string& address, BootTime now);
  Actions on_hello(uint64_t connection, BootTime now);
  // What arrived is no hello, or one for what is not here: ends at no cost to its address.
  Actions on_garbage(uint64_t connection, BootTime now);
  // The number of bytes that have arrived on an unproved connection so far.
  Actions on_received(uint64_t connection, uint64_t bytes, BootTime now);
  Actions on_proved(uint64_t connection, BootTime now);
  Actions on_closed(uint64_t connection, BootTime now);  // By the peer or the server.
  Actions on_tick(BootTime now);

  // Whether another connection would end one that had no time to send its hello. Then let them wait in the kernel's queue.
  bool is_crowded(BootTime now) const;
  size_t size() const { return entries_.size(); }
  std::vector<uint64_t> unproved() const;

 private:
  enum class State : uint8_t { kNew, kWaiting, kUnproved };
  struct Entry {
    State state = State::kNew;
    std::string address;
    BootTime until{};
    std::list<uint64_t>::iterator place;  // In `new_` or in its address's `waiting`.
    uint64_t received = 0;
    bool of_stranger = false;  // Its address had no earlier proof when it was served.
  };
  struct Budget {
    double left = 0;
    BootTime at{};
  };
  using Entries = std::unordered_map<uint64_t, Entry>;

  double left(const std::string& address, BootTime now) const;
  double strangers_left(BootTime now) const;
  void charge(const Entry& entry, double cost, BootTime now);
  void remember(const std::string& address);
  void forget_fullest(BootTime now);
  void leave(Entries::iterator entry);
  void end(Entries::iterator entry, Actions& actions);
  void make_room(Actions& actions);
  bool may_serve(const std::string& address, BootTime now) const;
  void serve(BootTime now, Actions& actions);

  const AdmissionLimits limits_;
  Entries entries_;
  std::list<uint64_t> new_;  // Oldest first.
  std::map<std::string, std::list<uint64_t>> waiting_;  // By address, oldest first.
  std::string served_last_;  // The address; the next one in order comes next.
  std::map<std::string, size_t> unproved_of_;
  size_t unproved_ = 0;
  size_t unproved_strangers_ = 0;
  std::unordered_map<std::string, Budget> budgets_;
  Budget strangers_{.left = limits_.strangers_budget, .at = {}};
  std::unordered_map<std::string, uint64_t> known_;  // Addresses with a proof, by the number of their last one.
  std::map<uint64_t, std::string> known_by_age_;
  uint64_t proofs_ = 0;
};

}  // namespace volador::net
