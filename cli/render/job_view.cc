#include "cli/render/job_view.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <string_view>
#include <vector>

#include "cli/render/json_text.h"
#include "cli/render/table.h"
#include "cli/render/time_text.h"
#include "jobs/launch/command_check.h"
#include "runtime/protocol/volador/v1/jobs.pb.h"
#include "runtime/quantities.h"
#include "runtime/resources.h"

namespace volador::cli {
namespace {

using std::chrono::milliseconds;

std::string span_of(int64_t from_ms, int64_t to_ms) {
  return from_ms == 0 ? std::string() : format_duration(milliseconds(std::max<int64_t>(to_ms - from_ms, 0)));
}

std::string resources_text(const v1::JobSpec& spec) {
  const bool elastic = spec.min_nodes() > 0 && spec.min_nodes() < spec.nodes();
  std::string out = elastic            ? fmt::format("{}-{} × ", spec.min_nodes(), spec.nodes())
                    : spec.nodes() > 1 ? fmt::format("{} × ", spec.nodes())
                                       : "";
  out += fmt::format("cpus {:g}", spec.cpus());
  if (spec.gpus() > 0) out += fmt::format(", gpus {:g}", spec.gpus());
  if (spec.memory_bytes() > 0) out += fmt::format(", memory {}", format_bytes(spec.memory_bytes()));
  for (const auto& [name, amount] : spec.resources()) out += fmt::format(", {} {:g}", name, amount);
  return out;
}

std::string command_text(const v1::JobSpec& spec) {
  std::string out;
  for (const std::string& word : spec.command()) out += (out.empty() ? "" : " ") + jobs::shell_quoted(word);
  return out;
}

std::string nodes_of(const v1::Job& job) {
  std::vector<std::string_view> nodes;  // By their first rank.
  for (const v1::JobRank& rank : job.ranks()) {
    if (!rank.node().empty() && std::ranges::find(nodes, rank.node()) == nodes.end()) nodes.push_back(rank.node());
  }
  return fmt::format("{}", fmt::join(nodes, ","));
}

std::string state_of(const v1::Job& job) { return job.stopping() ? "stopping" : job.state(); }

std::string ran(const v1::Job& job, int64_t now_ms) {
  if (job.state() == "queued") return {};
  return span_of(job.started_ms(), job.ended_ms() != 0 ? job.ended_ms() : now_ms);
}

}  // namespace

std::string start_text(const v1::JobStart& start, int64_t now_ms, const Terminal& terminal) {
  if (start.never()) return terminal.tr("never with the present nodes");
  if (start.now()) return terminal.tr("starts now");
  if (start.likely_ms() == 0) return terminal.tr("when it starts is not known");
  std::string out = start.likely_ms() - now_ms < 60'000
                        ? terminal.tr("starts within a minute")
                        : terminal.fill("starts about {}", clock_time(start.likely_ms(), now_ms));
  if (start.latest_ms() > start.likely_ms() + 60'000)
    out += ", " + terminal.fill("at the latest {}", clock_time(start.latest_ms(), now_ms));
  return out;
}

std::string job_line(const v1::Job& job, int64_t now_ms, const Terminal& terminal) {
  std::string out = job.id();
  if (job.spec().name() != job.id()) out += fmt::format(" ({})", printable(job.spec().name()));
  out += ": " + terminal.word(state_of(job));
  if (job.state() == "queued" && job.has_start()) out += ", " + start_text(job.start(), now_ms, terminal);
  if (job.state() == "failed") out += ", " + terminal.fill("exit code {}", job.exit_code());
  if (const std::string nodes = nodes_of(job); !nodes.empty() && job.state() != "queued")
    out += ", " + terminal.fill("on {}", nodes);
  if (!job.reason().empty()) out += "; " + printable(terminal.reason(job.reason(), job.why()));
  return out;
}

std::string jobs_text(const v1::ListJobsReply& reply, int64_t now_ms, const Terminal& terminal) {
  if (reply.jobs().empty()) return terminal.tr("no jobs; volador job submit -- COMMAND submits one") + "\n";
  Table table({{.title = terminal.tr("job")},
               {.title = terminal.tr("name"), .width_max = 30, .width_min = 10, .cut = Cut::kMiddle},
               {.title = terminal.tr("state")},
               {.title = terminal.tr("priority"), .rank = 3},
               {.title = terminal.tr("resources"), .rank = 4},
               {.title = terminal.tr("nodes"), .rank = 2, .width_max = 30, .width_min = 8},
               {.title = terminal.tr("ran"), .align = Align::kRight, .rank = 1},
               {.title = terminal.tr("exit"), .align = Align::kRight, .rank = 5},
               {.title = terminal.tr("why"), .width_max = 90, .width_min = 20, .first = true}});
  for (const v1::Job& job : reply.jobs()) {
    std::string why = printable(terminal.reason(job.reason(), job.why()));
    if (job.state() == "queued" && job.has_start())
      why = start_text(job.start(), now_ms, terminal) + (why.empty() ? "" : "; " + why);
    table.add({job.id(), job.spec().name() == job.id() ? "" : printable(job.spec().name()),
               terminal.paint_state(state_of(job)),
               job.spec().priority() == "normal" ? "" : terminal.word(job.spec().priority()),
               resources_text(job.spec()), nodes_of(job), ran(job, now_ms),
               job.state() == "failed" ? std::to_string(job.exit_code()) : "", why});
  }
  std::string out = fitted(table, terminal);
  if (reply.total() > reply.jobs_size())
    out += terminal.fill("… {} more; --limit shows them", reply.total() - reply.jobs_size()) + "\n";
  return out;
}

std::string job_text(const v1::Job& job, int64_t now_ms, const Terminal& terminal) {
  std::string out =
      fmt::format("{} · {} · {}\n", job.id(), printable(job.spec().name()), terminal.paint_state(state_of(job)));
  const auto line = [&](const std::string& title, const std::string& value) {
    if (!value.empty()) out += titled(title, value, 12);
  };
  line(terminal.tr("why"), printable(terminal.reason(job.reason(), job.why())));
  if (job.state() == "queued") {
    line(terminal.tr("position"), std::to_string(job.position()));
    if (job.has_start()) line(terminal.tr("start"), start_text(job.start(), now_ms, terminal));
  }
  if (job.state() == "failed") line(terminal.tr("exit code"), std::to_string(job.exit_code()));
  line(terminal.tr("command"), printable(command_text(job.spec())));
  line(terminal.tr("setup"), printable(job.spec().setup()));
  line(terminal.tr("teardown"), printable(job.spec().teardown()));
  line(terminal.tr("resources"), resources_text(job.spec()));
  if (job.spec().share_nodes()) line(terminal.tr("placement"), terminal.tr("ranks may share a node"));
  if (job.spec().mode() != "single") line(terminal.tr("mode"), job.spec().mode());
  line(terminal.tr("priority"), terminal.word(job.spec().priority()));
  line(terminal.tr("project"), printable(job.spec().project()));
  if (job.spec().pool() != "default") line(terminal.tr("pool"), printable(job.spec().pool()));
  if (!job.spec().environment().empty()) line(terminal.tr("environment"), printable(job.spec().environment()));
  if (job.preemptions() > 0) line(terminal.tr("preemptions"), std::to_string(job.preemptions()));
  if (job.spec().duration_s() > 0)
    line(terminal.tr("at most"), format_duration(std::chrono::seconds(job.spec().duration_s())));
  line(terminal.tr("submitted"), clock_time(job.submitted_ms(), now_ms));
  if (job.started_ms() != 0) line(terminal.tr("started"), clock_time(job.started_ms(), now_ms));
  line(terminal.tr("ran"), ran(job, now_ms));
  if (job.restarts() > 0 || job.spec().max_restarts() > 0)
    line(terminal.tr("restarts"), terminal.fill("{} of {}", job.restarts(), job.spec().max_restarts()));
  if (job.nodes() > 0 && job.state() != "queued")
    line(terminal.tr(job.spec().share_nodes() ? "ranks" : "nodes"),
         terminal.fill("{} of {}", job.nodes(), job.spec().nodes()));
  if (job.resumes() > 0 || job.spec().max_resumes() > 0)
    line(terminal.tr("resumes"), terminal.fill("{} of {}", job.resumes(), job.spec().max_resumes()));
  line(terminal.tr("labels"), printable(fmt::format("{}", fmt::join(job.labels(), ", "))));
  line(terminal.tr("avoids"), printable(fmt::format("{}", fmt::join(job.avoids(), ", "))));
  line(terminal.tr("code"),
       job.spec().files_sha256().empty() ? "" : "sha256:" + job.spec().files_sha256().substr(0, 8) + "…");
  line(terminal.tr("directory"), printable(job.spec().directory()));
  if (job.user().empty()) {
    line(terminal.tr("token"), job.owner());
  } else {
    line(terminal.tr("user"), printable(job.user()));
  }
  if (job.spec().access() == "none") line(terminal.tr("access"), terminal.tr("none: for its owner and operators"));
  if (job.spec().access() == "write")
    line(terminal.tr("access"), terminal.tr("write: others of its project may change it"));
  line(terminal.tr("note"), printable(job.spec().note()));
  if (job.ranks().empty()) return out;
  Table table({{.title = terminal.tr("rank"), .align = Align::kRight},
               {.title = terminal.tr("node")},
               {.title = terminal.tr("state")},
               {.title = terminal.tr("exit"), .align = Align::kRight},
               {.title = terminal.tr("actor")},
               {.title = terminal.tr("why"), .width_max = 90, .width_min = 20, .first = true}});
  for (const v1::JobRank& rank : job.ranks()) {
    table.add({std::to_string(rank.rank()), rank.node(), terminal.paint_state(rank.state()),
               rank.state() == "ended" ? std::to_string(rank.exit_code()) : "", rank.actor().substr(0, 8),
               printable(terminal.reason(rank.reason(), rank.why()))});
  }
  return out + "\n" + fitted(table, terminal);
}

void print_output(const Terminal& terminal, bool json, bool several, const jobs::JobOutput::Line& line) {
  if (json) {
    terminal.print(text_of({{"rank", line.rank},
                            {"node", line.node},
                            {"stream", line.is_stderr ? "stderr" : "stdout"},
                            {"text", line.text}},
                           -1));
  } else {
    terminal.print((several ? fmt::format("[{}] ", line.rank) : "") + printable_line(line.text) + "\n");
  }
}

}  // namespace volador::cli
