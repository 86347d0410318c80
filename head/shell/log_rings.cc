#include "head/shell/log_rings.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/protocol/control.pb.h"

namespace volador::head {
namespace {

size_t bytes_of(const KeptLine& line) { return sizeof(KeptLine) + line.source.size() + line.node.size() + line.text.size(); }

}  // namespace

void LogRings::drop_oldest(Ring& ring) {
  const size_t bytes = bytes_of(ring.lines.front());
  ring.lines.pop_front();
  ring.bytes -= bytes;
  bytes_ -= bytes;
}

void LogRings::add(const protocol::LogLines& lines) {
  const auto actor = id_from_raw<ActorId>(lines.actor_id());
  if (actor.is_nil()) return;
  auto [found, is_new] = rings_.try_emplace(actor);
  Ring& ring = found->second;
  if (is_new) ring.order = order_.insert(order_.end(), actor);
  order_.splice(order_.end(), order_, ring.order);
  const auto add_line = [&](std::string text) {
    KeptLine line{.source = lines.display(), .node = lines.node_name(), .is_stderr = lines.is_stderr(), .text = std::move(text), .number = next_line_++};
    for (const auto& [id, follower] : followers_) {
      if (follower.actors.contains(actor)) follower.on_line(line);
    }
    const size_t bytes = bytes_of(line);
    ring.lines.push_back(std::move(line));
    ring.bytes += bytes;
    bytes_ += bytes;
    while (ring.lines.size() > limits_.actor_lines || (ring.bytes > limits_.actor_bytes && ring.lines.size() > 1)) drop_oldest(ring);
  };
  if (lines.dropped() > 0) add_line(fmt::format("[{} lines left out: more than the rate limit]", lines.dropped()));
  for (const std::string& text : lines.lines()) {
    add_line(text.size() <= limits_.line_bytes ? text : text.substr(0, limits_.line_bytes) + " [cut]");
  }
  while (bytes_ > limits_.bytes && order_.size() > 1) {
    const auto oldest = rings_.find(order_.front());
    while (!oldest->second.lines.empty()) drop_oldest(oldest->second);
    rings_.erase(oldest);
    order_.pop_front();
  }
}

std::optional<std::vector<KeptLine>> LogRings::tail(const std::vector<ActorId>& actors, size_t count) const {
  std::optional<std::vector<KeptLine>> all;
  for (const ActorId actor : actors) {
    const auto found = rings_.find(actor);
    if (found == rings_.end()) continue;
    if (!all) all.emplace();
    const auto& lines = found->second.lines;
    const size_t from = lines.size() > count ? lines.size() - count : 0;
    all->insert(all->end(), lines.begin() + static_cast<std::ptrdiff_t>(from), lines.end());
  }
  if (!all) return std::nullopt;
  std::sort(all->begin(), all->end(), [](const KeptLine& a, const KeptLine& b) { return a.number < b.number; });
  if (all->size() > count) all->erase(all->begin(), all->end() - static_cast<std::ptrdiff_t>(count));
  return all;
}

uint64_t LogRings::follow(const std::vector<ActorId>& actors, std::function<void(const KeptLine&)> on_line) {
  followers_[next_follower_] = {{actors.begin(), actors.end()}, std::move(on_line)};
  return next_follower_++;
}

void LogRings::unfollow(uint64_t follower) { followers_.erase(follower); }

}  // namespace volador::head
