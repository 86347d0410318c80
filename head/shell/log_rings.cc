#include "head/shell/log_rings.h"

#include <fmt/format.h>

#include <algorithm>

#include "runtime/protocol/control.pb.h"
#include "runtime/quantities.h"

namespace volador::head {
namespace {

size_t bytes_of(const KeptLine& line) {
  return sizeof(KeptLine) + line.source.size() + line.node.size() + line.text.size();
}

}  // namespace

std::vector<KeptLine> kept_lines(const protocol::LogLines& lines) {
  std::vector<KeptLine> kept;
  const auto add = [&](std::string text, int64_t time_ms) {
    kept.push_back({.source = lines.display(),
                    .node = lines.node_name(),
                    .is_stderr = lines.is_stderr(),
                    .text = std::move(text),
                    .time_ms = time_ms});
  };
  const auto time_of = [&](int at) { return at < lines.times_ms_size() ? lines.times_ms(at) : int64_t{0}; };
  if (lines.dropped() > 0)
    add(fmt::format("[{} left out: more than the rate limit]", counted(lines.dropped(), "line")), time_of(0));
  for (int at = 0; at < lines.lines_size(); ++at) add(lines.lines(at), time_of(at));
  return kept;
}

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
  const auto add_line = [&](KeptLine line) {
    line.number = next_line_++;
    for (const auto& [id, follower] : followers_) {
      if (follower.actors.contains(actor)) follower.on_line(line);
    }
    const size_t bytes = bytes_of(line);
    ring.lines.push_back(std::move(line));
    ring.bytes += bytes;
    bytes_ += bytes;
    while (ring.lines.size() > limits_.actor_lines || (ring.bytes > limits_.actor_bytes && ring.lines.size() > 1))
      drop_oldest(ring);
  };
  for (KeptLine& line : kept_lines(lines)) {
    if (line.text.size() > limits_.line_bytes) line.text = line.text.substr(0, limits_.line_bytes) + " [cut]";
    add_line(std::move(line));
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

std::vector<const KeptLine*> LogRings::stream_tail(std::string_view short_id, std::string_view node, bool is_stderr,
                                                   size_t count) const {
  std::vector<const KeptLine*> found;
  for (const auto& [actor, ring] : rings_) {
    if (!to_string(actor).starts_with(short_id)) continue;
    for (auto line = ring.lines.rbegin(); line != ring.lines.rend() && found.size() < count; ++line) {
      if (line->is_stderr == is_stderr && line->node == node) found.push_back(&*line);
    }
    break;
  }
  std::reverse(found.begin(), found.end());
  return found;
}

uint64_t LogRings::follow(const std::vector<ActorId>& actors, std::function<void(const KeptLine&)> on_line) {
  followers_[next_follower_] = {{actors.begin(), actors.end()}, std::move(on_line)};
  return next_follower_++;
}

void LogRings::unfollow(uint64_t follower) { followers_.erase(follower); }

}  // namespace volador::head
