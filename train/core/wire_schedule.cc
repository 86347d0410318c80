#include "train/core/wire_schedule.h"

#include <algorithm>

namespace volador::train {
namespace {

constexpr int64_t kPartUnit = 64;  // Elements: parts begin at cache lines.

int wrapped(int node, int nodes) { return ((node % nodes) + nodes) % nodes; }

struct RingPart {
  int64_t from = 0;
  int64_t to = 0;
};

// Elements are divided into as many parts as there are nodes; the last ones may be short or empty.
RingPart ring_part(int64_t elements, int nodes, int index) {
  const int64_t units = (elements + kPartUnit - 1) / kPartUnit;
  const int64_t size = (units + nodes - 1) / nodes * kPartUnit;
  return {std::min(elements, size * index), std::min(elements, size * (index + 1))};
}

}  // namespace

std::vector<int> nodes_sent_to(NodePlace place) {
  std::vector<int> peers;
  for (int step = 1; step < place.nodes; step *= 2) peers.push_back(wrapped(place.node + step, place.nodes));
  return peers;
}

std::vector<int> nodes_received_from(NodePlace place) {
  std::vector<int> peers;
  for (int step = 1; step < place.nodes; step *= 2) peers.push_back(wrapped(place.node - step, place.nodes));
  return peers;
}

WireSchedule gather_schedule(NodePlace place, int64_t block) {
  WireSchedule schedule;
  if (block == 0) return schedule;
  for (int step = 1; step < place.nodes; step *= 2) {
    const int64_t count = std::min(step, place.nodes - step) * block;
    schedule.sends.push_back({.peer = wrapped(place.node + step, place.nodes),
                              .count = count,
                              .after = static_cast<int64_t>(schedule.receives.size())});
    schedule.receives.push_back(
        {.peer = wrapped(place.node - step, place.nodes), .from = step * block, .count = count});
  }
  return schedule;
}

// In step t node i sends part i - t, which it received in step t - 1. In the first nodes - 1 steps sums grow; in the
// others they are passed on.
WireSchedule sum_schedule(NodePlace place, int64_t elements, int64_t chunk) {
  WireSchedule schedule;
  const int next = wrapped(place.node + 1, place.nodes), previous = wrapped(place.node - 1, place.nodes);
  int64_t received = 0;  // Receives of the steps before the last one.
  for (int step = 0; step < 2 * (place.nodes - 1); ++step) {
    int64_t after = received;
    received = static_cast<int64_t>(schedule.receives.size());
    const RingPart sent = ring_part(elements, place.nodes, wrapped(place.node - step, place.nodes));
    for (int64_t from = sent.from; from < sent.to; from += chunk) {
      schedule.sends.push_back(
          {.peer = next, .from = from, .count = std::min(chunk, sent.to - from), .after = step == 0 ? 0 : ++after});
    }
    const RingPart arriving = ring_part(elements, place.nodes, wrapped(place.node - step - 1, place.nodes));
    for (int64_t from = arriving.from; from < arriving.to; from += chunk) {
      schedule.receives.push_back({.peer = previous,
                                   .from = from,
                                   .count = std::min(chunk, arriving.to - from),
                                   .is_added = step < place.nodes - 1});
    }
  }
  return schedule;
}

WireSchedule broadcast_schedule(NodePlace place, int root, int64_t elements, int64_t chunk) {
  WireSchedule schedule;
  if (elements == 0) return schedule;
  const int distance = wrapped(place.node - root, place.nodes);  // From the root.
  if (elements <= chunk) {
    for (int step = 1; step < place.nodes; step *= 2) {
      if (distance >= step && distance < 2 * step) {
        schedule.receives.push_back({.peer = wrapped(place.node - step, place.nodes), .count = elements});
      }
      if (distance < step && distance + step < place.nodes) {
        schedule.sends.push_back({.peer = wrapped(place.node + step, place.nodes),
                                  .count = elements,
                                  .after = static_cast<int64_t>(schedule.receives.size())});
      }
    }
    return schedule;
  }
  for (int64_t from = 0; from < elements; from += chunk) {
    const int64_t count = std::min(chunk, elements - from);
    if (distance > 0) {
      schedule.receives.push_back({.peer = wrapped(place.node - 1, place.nodes), .from = from, .count = count});
    }
    if (distance + 1 < place.nodes) {
      schedule.sends.push_back({.peer = wrapped(place.node + 1, place.nodes),
                                .from = from,
                                .count = count,
                                .after = static_cast<int64_t>(schedule.receives.size())});
    }
  }
  return schedule;
}

}  // namespace volador::train
