#include "cli/commands/study_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>

#include "cli/render/json_text.h"
#include "cli/render/study_view.h"
#include "runtime/control/cluster_api.h"
#include "runtime/paths.h"
#include "runtime/protocol/volador/v1/studies.pb.h"
#include "runtime/quantities.h"

namespace volador::cli {
namespace {

constexpr size_t kSpaceFileMax = 1 << 20;

void declare_study(CLI::App& app, std::string& study) {
  app.add_option("study", study, "Name of the study")->required();
}
void declare_request(CLI::App& app, std::string& request) {
  app.add_option("--request-id", request,
                 "Any text that names this request: sent again with the same text it is not done twice and gets the "
                 "same answer")
      ->type_name("TEXT");
}

// Accepts NaN and infinities too: a non-finite value makes a failed trial.
tl::expected<double, Failure> number_of(std::string_view what, const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (!text.empty() && end == text.c_str() + text.size()) return value;
  return usage_error(fmt::format("{}: expected a number, got \"{}\"", what, text));
}

}  // namespace

StudyCommand::StudyCommand() {
  add(std::make_unique<StudyCreateCommand>());
  add(std::make_unique<StudyAskCommand>());
  add(std::make_unique<StudyTellCommand>());
  add(std::make_unique<StudyReportCommand>());
  add(std::make_unique<StudyListCommand>());
  add(std::make_unique<StudyShowCommand>());
  add(std::make_unique<StudyDeleteCommand>());
}

CLI::App* StudyCommand::declare(CLI::App& root) {
  CLI::App* app = declare_group(
      root, "study",
      "Run searches whose workers are programs in any language: they ask for configurations and tell results");
  app->footer(
      "Examples:\n"
      "  volador study create digits --space='{\"lr\": {\"loguniform\": [1e-4, 0.1]}}' --objective=loss:min\n"
      "  volador study ask digits --json          a trial to run\n"
      "  volador study tell digits 0 0.12         its loss was 0.12\n"
      "  volador study show digits\n"
      "docs/api/README.md has the same over HTTP and gRPC.");
  return app;
}

CLI::App* StudyCreateCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("create", "Create a study");
  app->footer(
      "Examples:\n"
      "  volador study create digits --space='{\"lr\": {\"loguniform\": [1e-4, 0.1]}, \"batch\": {\"choice\": [16, "
      "32]}}' --objective=loss:min\n"
      "  volador study create digits --space=space.json --objective=accuracy:max --searcher=gp "
      "--scheduler=asha:max_t=81\n"
      "  volador study create tradeoff --space=space.json --objective=error:min --objective=ms:min --searcher=nsga2");
  app->add_option("name", name_, "Name of the study: letters, digits, _ - and .; at most 64")->required();
  app->add_option("--space", space_, "Search space: JSON, or a file that holds it")->required()->type_name("JSON|FILE");
  app->add_option("--objective", objectives_, "A metric and its direction, loss:min; several with --searcher=nsga2")
      ->required()
      ->type_name("METRIC:MODE");
  app->add_option("--searcher", searcher_,
                  "Search algorithm: random, grid, tpe, gp, trees, cmaes, nsga2, bohb, sobol, halton or auto, with "
                  "options such as "
                  "tpe:n_startup_trials=5; tpe by default")
      ->type_name("TEXT");
  app->add_option("--scheduler", scheduler_,
                  "Early stopping: asha:max_t=81, median_stopping, percentile or wilcoxon; "
                  "none by default")
      ->type_name("TEXT");
  app->add_option("--seed", seed_, "Seed of the random numbers; 0 by default")->type_name("INTEGER");
  app->add_option("--max-trials", max_trials_, "Most trials that the study may have; 20000 by default")
      ->type_name("INTEGER");
  app->add_option(
         "--lease", lease_,
         "Time without a report after which a trial is given to another worker; 10min by default, 0 for no limit")
      ->type_name("DURATION");
  app->add_option("--max-retries", max_retries_,
                  "How often such a trial is given out again before it fails; 2 by default")
      ->type_name("INTEGER");
  app->add_flag("--load-if-exists", load_, "Do not fail if a study of this name and definition exists");
  declare_request(*app, request_);
  declare_connection(*app);
  return app;
}

Outcome StudyCreateCommand::run(const Context& context) {
  v1::CreateStudyRequest request;
  request.set_request_id(request_);
  request.set_name(name_);
  const bool is_file = space_.find('{') == std::string::npos;
  if (is_file) {
    auto text = read_file_limited(space_, kSpaceFileMax);
    if (!text) return usage_error(fmt::format("--space: expected JSON or a file with it; {}", text.error().message));
    space_ = std::move(*text);
  }
  request.set_space_json(space_);
  for (const std::string& one : objectives_) {
    const size_t colon = one.rfind(':');
    if (colon == std::string::npos)
      return usage_error(fmt::format("--objective: expected a metric and min or max, loss:min, got \"{}\"", one));
    v1::StudyObjective& objective = *request.add_objectives();
    objective.set_metric(one.substr(0, colon));
    objective.set_mode(one.substr(colon + 1));
  }
  request.set_searcher(searcher_);
  request.set_scheduler(scheduler_);
  request.set_seed(seed_);
  request.set_max_trials(max_trials_);
  if (!lease_.empty()) {
    const auto lease = parse_duration(lease_);
    if (!lease) return usage_error(fmt::format("--lease: {}", lease.error().message));
    request.set_lease_s(std::chrono::ceil<std::chrono::seconds>(*lease).count());
  }
  if (max_retries_) request.set_max_retries(*max_retries_);
  request.set_load_if_exists(load_);

  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  const auto study = (*api)->call<v1::Study>("Studies/CreateStudy", request);
  if (!study) return fail(study.error());
  auto json = study_json(*study);
  json["api_version"] = "v1";
  context.terminal.print(wants_json() ? text_of(json)
                                      : fmt::format("study {}: {}; workers ask it: volador study ask {}\n",
                                                    study->name(), study->about(), study->name()));
  return {};
}

CLI::App* StudyAskCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand(
      "ask", "Get trials to run. Tell their results before their leases end, or report to renew the leases");
  app->footer("Examples:\n  volador study ask digits --json\n  volador study ask digits --count=8 --worker=heron-3");
  declare_study(*app, study_);
  app->add_option("--count", count_, "Number of trials, at most 100; 1 by default")
      ->check(CLI::Range(1, 100))
      ->type_name("INTEGER");
  app->add_option("--worker", worker_, "Name of the worker, for display")->type_name("TEXT");
  declare_request(*app, request_);
  declare_connection(*app);
  return app;
}

Outcome StudyAskCommand::run(const Context& context) {
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  v1::AskRequest request;
  request.set_request_id(request_);
  request.set_study(study_);
  request.set_count(count_);
  request.set_worker(worker_);
  const auto reply = (*api)->call<v1::AskReply>("Studies/Ask", request);
  if (!reply) return fail(reply.error());
  if (wants_json()) {
    nlohmann::ordered_json trials = nlohmann::ordered_json::array();
    for (const v1::StudyTrial& trial : reply->trials()) trials.push_back(study_trial_json(trial));
    context.terminal.print(text_of({{"api_version", "v1"},
                                    {"trials", trials},
                                    {"done", reply->done()},
                                    {"reason", reply->reason()},
                                    {"why", why_json(reply->why())},
                                    {"retry_after_ms", reply->retry_after_ms()}}));
    return {};
  }
  for (const v1::StudyTrial& trial : reply->trials()) context.terminal.print(study_trial_line(trial) + "\n");
  if (!reply->reason().empty())
    context.terminal.print((reply->done() ? context.terminal.tr("no more: ") : "") +
                           context.terminal.reason(reply->reason(), reply->why()) + "\n");
  return {};
}

CLI::App* StudyTellCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("tell", "Tell the result of a trial; the first result counts");
  app->footer(
      "Examples:\n  volador study tell digits 0 0.12\n  volador study tell digits 1 --state=fail --reason='out of "
      "memory'\n"
      "  volador study tell digits 2 --state=pruned        its last report counts\n  volador study tell tradeoff 3 "
      "0.08 2.4");
  declare_study(*app, study_);
  app->add_option("trial", number_, "Number of the trial")->required();
  app->add_option("values", values_, "Values of the objectives; nan makes the trial a failed one");
  app->add_option("--state", state_, "How it ended: complete (the default), pruned or fail")->type_name("TEXT");
  app->add_option("--reason", reason_, "Why the trial failed")->type_name("TEXT");
  declare_request(*app, request_);
  declare_connection(*app);
  return app;
}

Outcome StudyTellCommand::run(const Context& context) {
  v1::TellRequest request;
  request.set_request_id(request_);
  request.set_study(study_);
  request.set_number(number_);
  request.set_state(state_);
  request.set_reason(reason_);
  for (const std::string& text : values_) {
    const auto value = number_of("values", text);
    if (!value) return tl::unexpected(value.error());
    request.add_values(*value);
  }
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  const auto trial = (*api)->call<v1::StudyTrial>("Studies/Tell", request);
  if (!trial) return fail(trial.error());
  auto json = study_trial_json(*trial);
  json["api_version"] = "v1";
  context.terminal.print(wants_json() ? text_of(json) : study_trial_line(*trial) + "\n");
  return {};
}

CLI::App* StudyReportCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand(
      "report", "Report an intermediate value of a trial, renew its lease, and learn whether it should stop");
  app->footer(
      "Examples:\n  volador study report digits 0 1 0.4      step 1: 0.4\n  volador study report digits 0            "
      "it lives, no more");
  declare_study(*app, study_);
  app->add_option("trial", number_, "Number of the trial")->required();
  app->add_option("step", step_, "Step of the report, from 1");
  app->add_option("value", value_, "Value of the objective at that step");
  declare_request(*app, request_);
  declare_connection(*app);
  return app;
}

Outcome StudyReportCommand::run(const Context& context) {
  v1::ReportRequest request;
  request.set_request_id(request_);
  request.set_study(study_);
  request.set_number(number_);
  request.set_step(step_);
  if (step_ > 0 || !value_.empty()) {
    const auto value = number_of("value", value_);
    if (!value) return tl::unexpected(value.error());
    request.set_value(*value);
  }
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  const auto reply = (*api)->call<v1::ReportReply>("Studies/Report", request);
  if (!reply) return fail(reply.error());
  context.terminal.print(wants_json() ? text_of({{"api_version", "v1"},
                                                 {"should_stop", reply->should_stop()},
                                                 {"decision", reply->decision()},
                                                 {"reason", reply->reason()},
                                                 {"why", why_json(reply->why())},
                                                 {"lease_ends_ms", reply->lease_ends_ms()}})
                                      : fmt::format("{}{}{}\n", reply->decision(), reply->reason().empty() ? "" : ": ",
                                                    context.terminal.reason(reply->reason(), reply->why())));
  return {};
}

CLI::App* StudyListCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("list", "List studies with their best value so far");
  declare_wide(*app);
  declare_connection(*app);
  return app;
}

Outcome StudyListCommand::run(const Context& context) {
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  const auto reply = (*api)->call<v1::ListStudiesReply>("Studies/ListStudies", v1::ListStudiesRequest());
  if (!reply) return fail(reply.error());
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const v1::Study& study : reply->studies()) rows.push_back(study_json(study));
  context.terminal.print(wants_json() ? text_of({{"api_version", "v1"}, {"studies", rows}})
                                      : studies_text(*reply, table_terminal(context)));
  return {};
}

CLI::App* StudyShowCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("show", "Show a study with its best trials and all trials");
  app->footer("Examples:\n  volador study show digits\n  volador study show digits --state=running --json");
  declare_study(*app, study_);
  app->add_option("--state", state_, "Only trials that are waiting, running, complete, pruned or fail")
      ->type_name("TEXT");
  app->add_option("--limit", limit_, "Show at most this many trials; 50 by default")
      ->check(CLI::Range(1, 20'000))
      ->type_name("INTEGER");
  declare_connection(*app);
  return app;
}

Outcome StudyShowCommand::run(const Context& context) {
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  v1::GetStudyRequest request;
  request.set_study(study_);
  const auto study = (*api)->call<v1::Study>("Studies/GetStudy", request);
  if (!study) return fail(study.error());
  v1::ListStudyTrialsRequest wanted;
  wanted.set_study(study_);
  wanted.set_state(state_);
  wanted.set_page_size(limit_);
  const auto trials = (*api)->call<v1::ListStudyTrialsReply>("Studies/ListStudyTrials", wanted);
  if (!trials) return fail(trials.error());
  if (!wants_json()) {
    context.terminal.print(study_text(*study, *trials, context.terminal));
    return {};
  }
  auto json = study_json(*study);
  json["api_version"] = "v1";
  json["trials"] = nlohmann::ordered_json::array();
  for (const v1::StudyTrial& trial : trials->trials()) json["trials"].push_back(study_trial_json(trial));
  context.terminal.print(text_of(json));
  return {};
}

CLI::App* StudyDeleteCommand::declare(CLI::App& root) {
  CLI::App* app = root.add_subcommand("delete", "Delete a study with its trials for good");
  declare_study(*app, study_);
  declare_yes(*app);
  declare_request(*app, request_);
  declare_connection(*app);
  return app;
}

Outcome StudyDeleteCommand::run(const Context& context) {
  if (auto agreed = confirm(context, context.terminal.fill("Delete study {} with its trials?", study_)); !agreed)
    return agreed;
  auto api = connect(context);
  if (!api) return tl::unexpected(api.error());
  v1::DeleteStudyRequest request;
  request.set_request_id(request_);
  request.set_study(study_);
  if (const auto reply = (*api)->call<v1::DeleteStudyReply>("Studies/DeleteStudy", request); !reply)
    return fail(reply.error());
  context.terminal.print(wants_json() ? std::string("{\"api_version\": \"v1\"}\n")
                                      : fmt::format("study {} is deleted\n", study_));
  return {};
}

}  // namespace volador::cli
