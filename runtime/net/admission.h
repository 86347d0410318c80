// Admission control of a listening port: which connections are served before their peers have authenticated.
//
// A connection is new until its whole hello (of TLS, or the head of an HTTP request) has arrived, waiting until the
// server has capacity for another unproved peer, and unproved from then on. It leaves this table when its peer
// authenticates or the connection ends. Proved connections are not counted, so that unauthenticated ones cannot
// displace them. Every address has a failure budget, which its proved connections refill: an address that only fails is
// served slowly without delaying others, and is served again a second after its last failure. Addresses without an
// earlier proof share a second budget and leave a quarter of the places to the others, so that an attack from many
// addresses costs no more than one from a single address.
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

// Limits of an Admission.
struct AdmissionLimits {
  size_t connections = 512;  // In the table. Beyond it the oldest new one ends, otherwise the oldest waiting one.
  size_t unproved = 128;     // Maximum served concurrently.
  size_t unproved_of_address = 16;
  std::chrono::milliseconds hello_time{2'000};  // From the connection to its hello.
  std::chrono::milliseconds crowded_time{250};  // Minimum part of hello_time for new connections, see is_crowded().
  std::chrono::milliseconds wait_time{5'000};   // From the hello until it is served.
  std::chrono::milliseconds proof_time{5'000};  // From the start of service until the peer authenticates.
  uint64_t unproved_bytes = 128 << 10;  // Limit before proof: handshake, first request, one flow-control window.
  // Failure budget of an address: capacity and refill per second.
  double budget = 200;
  double budget_per_second = 20;
  double flood_cost = 50;  // Cost of exceeding unproved_bytes or proof_time.
  double bytes_cost = 10;  // Other ends without proof cost 1 plus this times the received part of unproved_bytes.
  // Budget shared by all addresses without an earlier proof.
  double strangers_budget = 150;
  double strangers_budget_per_second = 40;
  size_t addresses = 4'096;  // Tracked addresses; beyond it the fullest budget and the oldest proof are dropped.
};

// Returns limits for a process with this many descriptors: an unproved connection takes two, and most descriptors are
// reserved for proved peers.
AdmissionLimits admission_limits_for(uint64_t descriptors, AdmissionLimits limits = {});

// Action that the caller must apply.
struct AdmissionAction {
  enum class Kind : uint8_t {
    kServe,    // Hand it to the server.
    kEnd,      // Close it; it was removed from the table.
    kRelease,  // Its peer has authenticated; it was removed from the table.
  };
  Kind kind;
  uint64_t connection;
};

// Pure. The caller assigns each connection a unique number; events for unknown numbers are ignored.
class Admission {
 public:
  using Actions = std::vector<AdmissionAction>;

  explicit Admission(AdmissionLimits limits = {}) : limits_(limits) {}

  Actions on_accepted(uint64_t connection, const std::string& address, BootTime now);
  Actions on_hello(uint64_t connection, BootTime now);
  // Invalid hello, or one for a name that is not here: the connection ends at no cost to its address.
  Actions on_garbage(uint64_t connection, BootTime now);
  // `bytes`: total received on an unproved connection so far.
  Actions on_received(uint64_t connection, uint64_t bytes, BootTime now);
  Actions on_proved(uint64_t connection, BootTime now);
  Actions on_closed(uint64_t connection, BootTime now);  // By the peer or the server.
  Actions on_tick(BootTime now);

  // Whether another connection would end one that had no time to send its hello. If so, leave further connections in
  // the kernel's queue.
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
    bool of_stranger = false;  // Its address had no earlier proof when service began.
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
  std::list<uint64_t> new_;                             // Oldest first.
  std::map<std::string, std::list<uint64_t>> waiting_;  // By address, oldest first.
  std::string served_last_;                             // Address served last; the next one in order follows.
  std::map<std::string, size_t> unproved_of_;
  size_t unproved_ = 0;
  size_t unproved_strangers_ = 0;
  std::unordered_map<std::string, Budget> budgets_;
  Budget strangers_{.left = limits_.strangers_budget, .at = {}};
  std::unordered_map<std::string, uint64_t> known_;  // Addresses with a proof, by the number of their last proof.
  std::map<uint64_t, std::string> known_by_age_;
  uint64_t proofs_ = 0;
};

}  // namespace volador::net
