#include "cli/experiment_calls.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "cli/render/experiment_view.h"
#include "cli/render/job_view.h"
#include "cli/render/json_text.h"
#include "cli/render/table.h"
#include "cli/stored_folder.h"
#include "cli/trial_output.h"
#include "dashboard/operation_json.h"
#include "jobs/job_client.h"
#include "runtime/clock.h"
#include "runtime/resources.h"

namespace volador::cli {

int64_t unix_ms_of_now() { return unix_ms(SystemClock().wall()); }

std::string json_of_reply(const google::protobuf::Message& reply) {
  nlohmann::ordered_json json{{"api_version", "v1"}};
  json.update(dashboard::json_of(reply));
  return text_of(json);
}

void declare_output(CLI::App& app, OutputOptions& options) {
  app.add_flag("-f,--follow", options.follow, "Continue until the trial ends");
  app.add_option("--rank", options.rank, "Only of this rank")->check(CLI::Range(0, 1'000'000))->type_name("INTEGER");
  app.add_option("--tail", options.tail, "Only so many of the last lines of each stream")
      ->check(CLI::Range(1, 1000))
      ->type_name("INTEGER");
}

Outcome print_trial_output(const Context& context, control::ClusterApi& api, int64_t trial,
                           const OutputOptions& options, bool json) {
  v1::GetTrialInfoRequest request;
  request.set_id(trial);
  TrialOutput output(api, options.rank, options.tail, [&](bool several, const jobs::JobOutput::Line& line) {
    print_output(context.terminal, json, several, line);
  });
  v1::TrialInfo info;
  bool printed = false, told = false;
  const auto watched = watch([&]() -> Result<Watch> {
    auto now = api.call<v1::TrialInfo>("Experiments/GetTrialInfo", request);
    if (!now) return make_error(now.error());
    info = std::move(*now);
    const auto read = output.read(info);
    if (!read) return make_error(read.error());
    printed = printed || *read;
    if (!options.follow || is_final_state(info.state())) return Watch::kDone;
    if (!printed && !json && !info.reason().empty() && !std::exchange(told, true))
      context.terminal.note(trial_line(info, context.terminal));
    return *read ? Watch::kNews : Watch::kNothing;
  });
  if (!watched) return fail(watched.error());
  if (!printed && !json) context.terminal.note(trial_line(info, context.terminal));
  if (!options.follow || info.state() == "COMPLETED") return {};
  return fail(ExitCode::kFailed, Error{ErrorCode::kApplication, trial_line(info, context.terminal)});
}

Outcome download_checkpoint(const Context& context, const v1::CheckpointInfo& checkpoint, std::string target,
                            bool json) {
  if (checkpoint.state() != "COMPLETED") {
    return fail(ExitCode::kNotFound,
                Error{ErrorCode::kNotFound, fmt::format("checkpoint {} is {}: its files are not there any more",
                                                        checkpoint.id(), checkpoint.state())});
  }
  if (target.empty()) target = (std::filesystem::path("checkpoints") / checkpoint.id()).string();
  const std::string from = checkpoint.storage();
  std::error_code code;
  if (from.starts_with('/') && !std::filesystem::is_directory(from, code)) {
    return fail(ExitCode::kNotFound,
                Error{ErrorCode::kNotFound,
                      fmt::format("checkpoint {} is in {}, which this machine does not have; download it on a machine "
                                  "that mounts this folder",
                                  checkpoint.id(), from)});
  }
  auto place = open_stored_place(from);
  if (!place) return tl::unexpected(place.error());
  const auto copied = copy_stored(*place, target);
  if (!copied) return fail_here(copied.error());
  if (json) {
    context.terminal.print(text_of({{"api_version", "v1"},
                                    {"id", checkpoint.id()},
                                    {"from", from},
                                    {"to", target},
                                    {"bytes", copied->bytes},
                                    {"verified", copied->verified}}));
  } else {
    context.terminal.print(context.terminal.fill("checkpoint {} is in {}: {}", checkpoint.id(), printable(target),
                                                 format_bytes(copied->bytes)) +
                           "\n");
  }
  return {};
}

}  // namespace volador::cli
