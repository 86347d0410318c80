#include "head/shell/log_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "runtime/log_line.h"
#include "runtime/protocol/control.pb.h"
#include "runtime/protocol/volador/v1/cluster.pb.h"
#include "runtime/quantities.h"

namespace volador::head {
namespace {

// Sets source and time of the newest lines of a file. `heard` ends with the newest line; matched lines are removed from
// it.
void take_times(std::vector<KeptLine>& lines, std::vector<const KeptLine*>& heard) {
  for (auto line = lines.rbegin(); line != lines.rend() && !heard.empty() && heard.back()->text == line->text; ++line) {
    line->source = heard.back()->source;
    line->time_ms = heard.back()->time_ms;
    heard.pop_back();
  }
}

}  // namespace

v1::LogLine to_api(KeptLine line) {
  const log::LineFacts facts = log::facts_of_line(line.text);
  v1::LogLine out;
  out.set_level(facts.level.data(), facts.level.size());
  out.set_time_ms(facts.time_ms != 0 ? facts.time_ms : line.time_ms);
  out.set_source(std::move(line.source));
  out.set_node(std::move(line.node));
  out.set_is_stderr(line.is_stderr);
  out.set_text(std::move(line.text));
  return out;
}

v1::LogLine head_line(std::string text) { return to_api({.source = "head", .node = {}, .text = std::move(text)}); }

void state_facts(v1::NumberedLine& line) {
  const log::LineFacts facts = log::facts_of_line(line.text());
  line.set_level(facts.level.data(), facts.level.size());
  line.set_time_ms(facts.time_ms);
}

std::vector<v1::LogLine> node_lines(const protocol::LogTails& answer, const std::string& node, const LogRings& rings) {
  constexpr size_t kShortId = 8;
  // By prefix of an actor's id, and output stream.
  std::map<std::pair<std::string, bool>, std::vector<const KeptLine*>> heard;
  std::vector<std::vector<v1::LogLine>> files;
  for (auto tail = answer.tails().rbegin(); tail != answer.tails().rend();
       ++tail) {  // The newest of an actor's runs comes last.
    std::vector<KeptLine> lines;
    for (const std::string& text : tail->lines())
      lines.push_back({.source = tail->source(), .node = node, .is_stderr = tail->is_stderr(), .text = text});
    if (tail->source() != "worker") {
      const std::string short_id = tail->source().substr(0, kShortId);
      const auto [of, is_new] = heard.try_emplace({short_id, tail->is_stderr()});
      if (is_new)
        of->second = rings.stream_tail(short_id, node, tail->is_stderr(), static_cast<size_t>(tail->lines_size()) * 2);
      take_times(lines, of->second);
    }
    std::vector<v1::LogLine>& file = files.emplace_back();
    for (KeptLine& line : lines) file.push_back(to_api(std::move(line)));
  }
  std::vector<v1::LogLine> all;
  for (auto file = files.rbegin(); file != files.rend(); ++file) all.insert(all.end(), file->begin(), file->end());
  // A line without a time stays behind its predecessor in the file.
  std::vector<std::pair<int64_t, size_t>> order;
  int64_t last = 0;
  for (size_t at = 0; at < all.size(); ++at) {
    const bool begins =
        at == 0 || all[at].source() != all[at - 1].source() || all[at].is_stderr() != all[at - 1].is_stderr();
    last = all[at].time_ms() != 0 ? all[at].time_ms() : begins ? 0 : last;
    order.emplace_back(last, at);
  }
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<v1::LogLine> sorted;
  sorted.reserve(all.size());
  for (const auto& [time, at] : order) sorted.push_back(std::move(all[at]));
  if (answer.files_left_out() > 0) {
    sorted.push_back(
        to_api({.source = "worker",
                .node = node,
                .text = fmt::format("[{} left out: see the node's folder clusters/<cluster>/nodes/{}/logs/]",
                                    counted(answer.files_left_out(), "older file"), node)}));
  }
  return sorted;
}

}  // namespace volador::head
