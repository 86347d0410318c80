// What the commands of experiments, trials and checkpoints share.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <sstream>
#include <string>
#include <vector>

#include "cli/command.h"
#include "cli/render/table.h"
#include "runtime/control/cluster_api.h"
#include "runtime/protocol/volador/v1/experiments.pb.h"

namespace volador::cli {

// Unix time.
int64_t unix_ms_of_now();
// A reply as JSON with its api_version.
std::string json_of_reply(const google::protobuf::Message& reply);

// Calls an operation and prints its reply, as JSON or as `text` says it.
template <class Reply, class Text>
Outcome show_reply(control::ClusterApi& api, const Terminal& terminal, bool json, const char* operation,
                   const google::protobuf::Message& request, const Text& text) {
  const auto reply = api.call<Reply>(operation, request);
  if (!reply) return fail(reply.error());
  terminal.print(json ? json_of_reply(*reply) : text(*reply, unix_ms_of_now(), terminal));
  return {};
}

// Does the action for each; the error of one does not keep the others from it.
template <class Id, class Action>
Outcome for_each_of(const Context& context, const std::vector<Id>& ids, const Action& action) {
  Outcome outcome;
  for (const Id& id : ids) {
    const Result<void> done = action(id);
    if (done) continue;
    if (ids.size() == 1) return fail(done.error());
    context.terminal.note(done.error().message);
    outcome = fail(exit_code_of(done.error().code), Error{done.error().code, ""});
  }
  return outcome;
}

// For an error of the head whose lines are errors of a file: prints each, then ends with `summary` of their number. A
// single line, and JSON, is the error as it is.
template <class Summary>
Outcome refuse_file(const Context& context, const Error& error, bool json, const Summary& summary) {
  const auto lines = std::ranges::count(error.message, '\n') + 1;
  if (json || lines == 1) return fail(ExitCode::kConfig, error);
  std::istringstream text(error.message);
  for (std::string line; std::getline(text, line);)
    context.terminal.note(fmt::format("{}: {}", context.terminal.tr("error"), printable(line)));
  return fail(ExitCode::kConfig, Error{error.code, summary(lines)});
}

// --follow, --rank and --tail.
struct OutputOptions {
  bool follow = false;
  int rank = -1;  // All.
  int tail = 0;   // All lines.
};
void declare_output(CLI::App& app, OutputOptions& options);
// Prints the output of a trial's newest run. With `follow` also that of its later ones, until it has ended: kFailed unless
// it is COMPLETED.
Outcome print_trial_output(const Context& context, control::ClusterApi& api, int64_t trial,
                           const OutputOptions& options, bool json);

// Copies the files of a checkpoint to this machine, into `target`, by default checkpoints/<id>.
Outcome download_checkpoint(const Context& context, const v1::CheckpointInfo& checkpoint, std::string target,
                            bool json);

}  // namespace volador::cli
