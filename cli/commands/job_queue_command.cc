#include "cli/commands/job_queue_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <map>

#include "cli/render/json_text.h"
#include "cli/render/table.h"
#include "dashboard/operation_json.h"
#include "jobs/job_client.h"
#include "jobs/job_yaml.h"
#include "runtime/control/cluster_api.h"
#include "runtime/process_file.h"
#include "runtime/resources.h"

namespace volador::cli {
namespace {

constexpr size_t kSettingsFileMax = 1 << 20;

using JobAmounts = google::protobuf::Map<std::string, double>;

std::string amount_text(const std::string& resource, double amount) {
  return resource == "memory" ? format_bytes(static_cast<int64_t>(amount)) : fmt::format("{:g}", amount);
}

// "cpus 3 of 8, gpus 0 of 2"; `of` may lack resources.
std::string amounts_text(const JobAmounts& part, const JobAmounts& of, const Terminal& terminal) {
  std::map<std::string, double> names(part.begin(), part.end());
  names.insert(of.begin(), of.end());
  std::string out;
  for (const auto& [name, unused] : names) {
    const auto have = part.find(name);
    const auto whole = of.find(name);
    const std::string amount = amount_text(name, have == part.end() ? 0 : have->second);
    out +=
        fmt::format("{}{} {}", out.empty() ? "" : ", ", printable(name),
                    whole == of.end() ? amount : terminal.fill("{} of {}", amount, amount_text(name, whole->second)));
  }
  return out;
}

std::string count_text(int64_t count) { return count == 0 ? "" : std::to_string(count); }

std::string queue_text(const v1::GetQueueReply& reply, const Terminal& terminal) {
  Table pools({{.title = terminal.tr("pool")},
               {.title = terminal.tr("nodes"), .align = Align::kRight},
               {.title = terminal.tr("free"), .width_max = 60, .width_min = 16, .first = true},
               {.title = terminal.tr("running"), .align = Align::kRight},
               {.title = terminal.tr("queued"), .align = Align::kRight},
               {.title = terminal.tr("projects"), .width_max = 40, .width_min = 10}});
  for (const v1::PoolState& each : reply.pools()) {
    pools.add({printable(each.pool().name()), std::to_string(each.nodes_size()),
               amounts_text(each.free(), each.total(), terminal), count_text(each.running()), count_text(each.queued()),
               printable(fmt::format("{}", fmt::join(each.pool().projects(), ", ")))});
  }
  Table projects({{.title = terminal.tr("project")},
                  {.title = terminal.tr("weight"), .align = Align::kRight},
                  {.title = terminal.tr("used"), .width_max = 60, .width_min = 16, .first = true},
                  {.title = terminal.tr("running"), .align = Align::kRight},
                  {.title = terminal.tr("queued"), .align = Align::kRight},
                  {.title = terminal.tr("urgent"), .align = Align::kRight}});
  for (const v1::ProjectState& each : reply.projects()) {
    const int32_t most = each.project().urgent_jobs();
    const std::string urgent = most > 0 ? terminal.fill("{} of {}", each.urgent(), most) : count_text(each.urgent());
    projects.add({printable(each.project().name()), fmt::format("{:g}", each.project().weight()),
                  amounts_text(each.used(), each.project().limits(), terminal), count_text(each.running()),
                  count_text(each.queued()), urgent});
  }
  std::string out = fitted(pools, terminal);
  if (!projects.empty()) out += "\n" + fitted(projects, terminal);
  for (const v1::Environment& each : reply.settings().environments())
    out += terminal.fill("environment {}: {}", each.name(), printable(each.source())) + "\n";
  out += reply.settings().preemption() == "never"
             ? terminal.tr("no job preempts another")
             : terminal.fill("jobs of priority {} preempt running jobs of a lower priority",
                             terminal.word(reply.settings().preemption()));
  return out + "\n";
}

}  // namespace

CLI::App* JobQueueCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("queue", "Show the pools and projects of the job queue, or change its settings");
  app->footer(
      "Examples:\n"
      "  volador job queue\n"
      "  volador job queue --yaml > queue.yaml            the settings, to be edited\n"
      "  volador job queue --apply=queue.yaml             operators only");
  CLI::Option* apply = app->add_option("--apply", apply_, "Set the queue as this YAML file says, as a whole");
  apply->type_name("FILE");
  app->add_flag("--yaml", yaml_, "Print only the settings, as --apply takes them")->excludes(apply);
  declare_connection(*app);
  return app;
}

Outcome JobQueueCommand::run(const Context& context) {
  v1::SetQueueRequest request;
  if (!apply_.empty()) {
    const auto text = read_file_limited(apply_, kSettingsFileMax);
    if (!text) return fail_here(text.error());
    auto settings = jobs::settings_from_yaml(*text, apply_);
    if (!settings) return fail(ExitCode::kConfig, settings.error());
    *request.mutable_settings() = std::move(*settings);
    request.set_request_id(jobs::new_request_id());
  }
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  if (!apply_.empty()) {
    const auto changed = (*api)->call<v1::SetQueueReply>("Jobs/SetQueue", request);
    if (!changed) return fail(changed.error());
  }
  const auto reply = (*api)->call<v1::GetQueueReply>("Jobs/GetQueue", v1::GetQueueRequest());
  if (!reply) return fail(reply.error());
  if (yaml_) {
    context.terminal.print(jobs::yaml_of(reply->settings()));
  } else if (wants_json()) {
    auto json = dashboard::json_of(*reply);
    json["api_version"] = "v1";
    context.terminal.print(cli::text_of(json));
  } else {
    context.terminal.print(queue_text(*reply, context.terminal));
  }
  return {};
}

}  // namespace volador::cli
