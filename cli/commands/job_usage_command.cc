#include "cli/commands/job_usage_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <map>

#include "cli/render/json_text.h"
#include "cli/render/table.h"
#include "dashboard/operation_json.h"
#include "runtime/control/cluster_api.h"
#include "runtime/csv_text.h"
#include "runtime/protocol/volador/v1/jobs.pb.h"

namespace volador::cli {
namespace {

std::string usage_csv(const v1::GetUsageReply& reply) {
  std::string out = "day,project,owner,cpu_hours,gpu_hours,memory_gib_hours,attempts\n";
  for (const v1::Usage& row : reply.usage()) {
    out += row.day() + ",";
    append_csv_text(out, row.project());
    out += ",";
    append_csv_text(out, row.owner());
    out += fmt::format(",{:.6f},{:.6f},{:.6f},{}\n", row.cpu_hours(), row.gpu_hours(), row.memory_gib_hours(),
                       row.attempts());
  }
  return out;
}

void add_usage(v1::Usage& sum, const v1::Usage& row) {
  sum.set_cpu_hours(sum.cpu_hours() + row.cpu_hours());
  sum.set_gpu_hours(sum.gpu_hours() + row.gpu_hours());
  sum.set_memory_gib_hours(sum.memory_gib_hours() + row.memory_gib_hours());
  sum.set_attempts(sum.attempts() + row.attempts());
}

std::string usage_text(const v1::GetUsageReply& reply, const std::string& by, const Terminal& terminal) {
  std::map<std::string, v1::Usage> rows;
  v1::Usage total;
  v1::Usage idle;  // Rows without a project.
  for (const v1::Usage& row : reply.usage()) {
    if (row.project().empty()) {
      add_usage(idle, row);
      continue;
    }
    add_usage(rows[by == "day" ? row.day() : by == "owner" ? row.owner() : row.project()], row);
    add_usage(total, row);
  }
  if (rows.empty()) return terminal.tr("no job has run in this time") + "\n";
  Table table({{.title = terminal.tr(by), .width_max = 40, .width_min = 10},
               {.title = terminal.tr("GPU hours"), .align = Align::kRight},
               {.title = terminal.tr("CPU hours"), .align = Align::kRight},
               {.title = terminal.tr("GiB hours"), .align = Align::kRight, .rank = 1},
               {.title = terminal.tr("runs"), .align = Align::kRight, .rank = 2}});
  const auto add = [&](const std::string& name, const v1::Usage& row) {
    table.add({name, fmt::format("{:.2f}", row.gpu_hours()), fmt::format("{:.2f}", row.cpu_hours()),
               fmt::format("{:.2f}", row.memory_gib_hours()), std::to_string(row.attempts())});
  };
  for (const auto& [name, row] : rows) add(printable(name), row);
  if (rows.size() > 1) add(terminal.tr("all"), total);
  if (idle.ByteSizeLong() > 0) add(terminal.tr("idle"), idle);
  return fitted(table, terminal);
}

}  // namespace

CLI::App* JobUsageCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("usage", "Show the CPU and GPU hours that jobs used");
  app->footer(
      "Examples:\n"
      "  volador job usage --from=2026-11-01              by project, since this day (UTC)\n"
      "  volador job usage --by=day\n"
      "  volador job usage --csv > usage.csv              a row for each day, project and owner; idle without a "
      "project");
  app->add_option("--from", from_, "First day, such as 2026-11-01; by default the first that is kept")
      ->type_name("DAY");
  app->add_option("--to", to_, "Last day; today by default")->type_name("DAY");
  CLI::Option* by = app->add_option("--by", by_, "project (default), owner (token) or day");
  by->check(CLI::IsMember({"project", "owner", "day"}))->type_name("WORD");
  app->add_flag("--csv", csv_, "Print comma-separated values")->excludes(by);
  declare_connection(*app);
  return app;
}

Outcome JobUsageCommand::run(const Context& context) {
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  v1::GetUsageRequest request;
  request.set_from_day(from_);
  request.set_to_day(to_);
  const auto reply = (*api)->call<v1::GetUsageReply>("Jobs/GetUsage", request);
  if (!reply) return fail(reply.error());
  if (csv_) {
    context.terminal.print(usage_csv(*reply));
  } else if (wants_json()) {
    auto json = dashboard::json_of(*reply);
    json["api_version"] = "v1";
    context.terminal.print(cli::text_of(json));
  } else {
    context.terminal.print(usage_text(*reply, by_, context.terminal));
  }
  return {};
}

}  // namespace volador::cli
