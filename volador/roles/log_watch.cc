#include "volador/roles/log_watch.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "jobs/command.h"
#include "runtime/log.h"

namespace volador {
namespace {

constexpr std::chrono::seconds kMatchCall{60};
constexpr std::chrono::seconds kAskAgainAfter{1};

}  // namespace

void LogWatch::update(const std::vector<jobs::JobCore::WatchedRank>& ranks) {
  std::erase_if(again_at_, [&](const auto& each) {
    return std::ranges::find(ranks, each.first, &jobs::JobCore::WatchedRank::actor) == ranks.end();
  });
  for (const jobs::JobCore::WatchedRank& rank : ranks) {
    if (asked_.contains(rank.actor)) continue;
    const auto again = again_at_.find(rank.actor);
    if (again == again_at_.end() || parts_.clock.now() >= again->second) ask(rank);
  }
}

void LogWatch::ask(const jobs::JobCore::WatchedRank& rank) {
  const auto calls = parts_.calls();
  if (!calls) {
    log::warn("jobs", "log policies have no effect now", {{"why", calls.error().message}});
    again_at_[rank.actor] = parts_.clock.now() + kAskAgainAfter;
    return;
  }
  asked_.insert(rank.actor);
  using Matches = std::vector<jobs::LogMatch>;
  (*calls)->call<&jobs::Command::log_matches, Matches>(
      rank.actor, kMatchCall,
      [this, rank](const Result<Matches>& matches) {
        parts_.post([this, rank, matches] {
          asked_.erase(rank.actor);
          again_at_.erase(rank.actor);
          if (matches && !matches->empty()) parts_.on_matches(rank.actor, rank.known, *matches);
          if (!matches && matches.error().code != ErrorCode::kTimeout)
            again_at_[rank.actor] = parts_.clock.now() + kAskAgainAfter;
        });
      },
      rank.known);
}

}  // namespace volador
