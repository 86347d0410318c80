// How a configuration becomes an experiment.
#include <fmt/format.h>

#include <algorithm>

#include "experiments/config/sanity.h"
#include "experiments/config/secrets.h"
#include "experiments/core/experiment_table.h"
#include "experiments/search/search_preview.h"
#include "runtime/quantities.h"
#include "runtime/yaml/reader.h"
#include "runtime/yaml/writer.h"

namespace volador::experiments {
namespace {

constexpr int64_t kPreviewTrialsMost = 10'000;  // The thread of the experiments simulates them in some milliseconds.

tl::unexpected<Error> invalid(std::string message) {
  return make_error(ErrorCode::kInvalidArgument, std::move(message));
}

// All errors, one a line.
std::string text_of(const Findings& findings) {
  std::string text;
  for (const Finding& finding : findings.errors()) text += (text.empty() ? "" : "\n") + finding.text();
  if (findings.errors_left_out() > 0)
    text += fmt::format("\nand {}", counted(findings.errors_left_out(), "further error"));
  return text;
}

// `text`: the configuration of the request, possibly with secrets that the request itself does not have.
template <class Request>
ConfigSources sources_of(const Request& request, const std::string& text, const ConfigFile& defaults,
                         const Submission& submission) {
  const auto named = [](const std::string& name, const char* otherwise) { return name.empty() ? otherwise : name; };
  ConfigSources sources{.config = {named(request.config_name(), "config"), text},
                        .config_template = {},
                        .cluster_defaults = defaults,
                        .submission = submission,
                        .pool = {}};
  if (!request.config_template().empty())
    sources.config_template = ConfigFile{named(request.template_name(), "template"), request.config_template()};
  return sources;
}

bool is_sha256(const std::string& text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

}  // namespace

Result<std::string> ExperimentCore::Impl::config_text(const v1::CreateExperimentRequest& request,
                                                      const ExperimentRequester& by) const {
  if (request.parent() == 0) return request.config();
  const auto parent = experiment(request.parent());
  if (!parent) return make_error(parent.error());
  const protocol::ExperimentDefinition& from = (*parent)->definition();
  const auto may_take = [&] {
    return check_owner(**parent, by, fmt::format("take over the secrets of experiment {}", request.parent()));
  };
  const auto read_canonical = [](const std::string& text) {
    auto document = yaml::read(text, "parent");
    Findings ignored;
    return document ? sane(document->root, ignored) : yaml::Value::map();
  };
  const yaml::Value original = read_canonical(from.original_config());
  if (request.config().empty()) {
    if (without_secrets(original) != original) VOLADOR_TRY(may_take());
    return from.original_config();
  }
  if (request.config().find(kHidden) == std::string::npos) return request.config();
  auto document = yaml::read(request.config(), "config");
  if (!document) return request.config();  // The errors are found where it is read again, with its name.
  VOLADOR_TRY(may_take());
  restore_secrets(document->root, original);
  restore_secrets(document->root, read_canonical(from.config()));
  if (const auto left = first_hidden(document->root))
    return invalid(
        fmt::format("{}: it is {}, which stands for a secret, and experiment {} has none there; give the "
                    "value",
                    *left, kHidden, request.parent()));
  return yaml::yaml_text(document->root);
}

Result<ExperimentCore::Impl::Plan> ExperimentCore::Impl::plan(const v1::CreateExperimentRequest& request,
                                                              const ExperimentRequester& by,
                                                              const SlotsView& view) const {
  auto text = config_text(request, by);
  if (!text) return make_error(text.error());
  ConfigReading reading =
      read_config(sources_of(request, *text, defaults,
                             {.name = fmt::format("experiment-{}", context.last_experiment + 1),
                              .experiment_seed = static_cast<int64_t>(random.below(uint64_t{1} << 31))}));
  if (!reading.is_valid()) return invalid(text_of(reading.findings));
  Plan plan{.checked = {.config = std::move(*reading.config), .warnings = {}},
            .config = std::move(*text),
            .slots = {},
            .files_sha256 = {}};
  for (const Finding& warning : reading.findings.warnings()) plan.checked.warnings.push_back(warning.text());
  const ExperimentConfig& config = plan.checked.config;
  if (!config.checkpoint_storage)
    return invalid("checkpoint_storage: neither the configuration nor the cluster has one");
  plan.seed = static_cast<uint32_t>(config.experiment_seed);
  if (auto search = search_of(config, plan.seed); !search) return make_error(search.error());
  plan.files_sha256 = request.files_sha256();
  if (request.parent() != 0) {
    const auto parent = experiment(request.parent());
    if (!parent) return make_error(parent.error());
    if (plan.files_sha256.empty()) plan.files_sha256 = (*parent)->definition().info().files_sha256();
  }
  if (!plan.files_sha256.empty() && !is_sha256(plan.files_sha256))
    return invalid(fmt::format("files_sha256: expected 64 hex digits, got \"{}\"", plan.files_sha256));
  VOLADOR_TRY(plan_warm_start(request, plan));
  const Resources& resources = config.resources;
  auto slots = plan_slots(resources.slots_per_trial, resources.is_single_node, resources.resource_pool, view);
  if (!slots) return make_error(slots.error());
  plan.slots = *slots;
  if (open() >= context.limits.open)
    return make_error(
        ErrorCode::kUnavailable,
        fmt::format("{} have not ended, the limit; create it again when some have", counted(open(), "experiment")));
  return plan;
}

Result<v1::PreviewSearchReply> ExperimentCore::Impl::preview(const v1::PreviewSearchRequest& request) const {
  const ConfigReading reading = read_config(sources_of(request, request.config(), defaults, {.name = "preview"}));
  if (!reading.is_valid()) return invalid(text_of(reading.findings));
  const auto options = searcher_settings(reading.config->searcher).options;
  const bool is_simulated = options.name == "adaptive_asha" || options.name == "async_halving";
  if (is_simulated && options.max_trials > kPreviewTrialsMost)
    return invalid(
        fmt::format("searcher.max_trials: {}: the head simulates searches of at most {} trials; "
                    "`volador experiment preview-search` has no such limit",
                    options.max_trials, kPreviewTrialsMost));
  return preview_reply(*reading.config, request.seed());
}

Result<void> ExperimentCore::Impl::plan_warm_start(const v1::CreateExperimentRequest& request, Plan& plan) const {
  const Searcher& searcher = plan.checked.config.searcher;
  const auto start_from = [&](const v1::CheckpointInfo& from, int64_t batches) {
    plan.warm_start_trial = from.trial();
    plan.warm_start_checkpoint = from.id();
    plan.warm_start_batches = batches;
  };
  const auto latest_of = [&](const RunningExperiment& source, int64_t trial,
                             std::string_view what) -> Result<const v1::CheckpointInfo*> {
    if (const v1::CheckpointInfo* latest = source.latest_checkpoint(trial)) return latest;
    return invalid(fmt::format("{}: trial {} has no checkpoint to start from", what, trial));
  };
  if (request.continues()) {
    if (request.parent() == 0) return invalid("continues: expected a parent, the experiment to continue");
    if (searcher.name != "single")
      return invalid(fmt::format("continues: searcher.name is {}: only an experiment with one trial can be continued",
                                 searcher.name));
    const auto parent = experiment(request.parent());
    if (!parent) return make_error(parent.error());
    if ((*parent)->newest_trial() == 0)
      return invalid(fmt::format("continues: experiment {} has no trial", request.parent()));
    const auto from = latest_of(**parent, (*parent)->newest_trial(), "continues");
    if (!from) return make_error(from.error());
    start_from(**from, (*from)->batches());
    return {};
  }
  if (searcher.source_trial_id) {
    const auto source = experiment_of_trial(*searcher.source_trial_id);
    if (!source) return invalid("searcher.source_trial_id: " + source.error().message);
    const auto from = latest_of(**source, *searcher.source_trial_id, "searcher.source_trial_id");
    if (!from) return make_error(from.error());
    start_from(**from, 0);
  } else if (searcher.source_checkpoint_uuid) {
    const auto source = experiment_of_checkpoint(*searcher.source_checkpoint_uuid);
    if (!source) return invalid("searcher.source_checkpoint_uuid: " + source.error().message);
    const v1::CheckpointInfo& from = *source->first->checkpoint(source->second);
    if (from.state() != "COMPLETED")
      return invalid(fmt::format("searcher.source_checkpoint_uuid: checkpoint {} is {}", from.id(), from.state()));
    start_from(from, 0);
  }
  return {};
}

protocol::ExperimentDefinition ExperimentCore::Impl::definition_of(const Plan& plan,
                                                                   const v1::CreateExperimentRequest& request,
                                                                   const ExperimentRequester& by,
                                                                   const std::pair<std::string, std::string>& token,
                                                                   int64_t now_ms) const {
  const ExperimentConfig& config = plan.checked.config;
  protocol::ExperimentDefinition definition;
  definition.set_id(context.last_experiment + 1);
  definition.set_config(json_of(config, Secrets::kShown));
  definition.set_original_config(plan.config);
  definition.set_request_id(request.request_id());
  definition.set_seed(plan.seed);
  definition.set_token_id(token.first);
  definition.set_token(token.second);
  definition.set_operates(by.operates);
  definition.set_nodes(plan.slots.nodes);
  definition.set_slots_on_node(plan.slots.slots_on_node);
  definition.set_gpus(plan.slots.gpus);
  definition.set_warm_start_trial(plan.warm_start_trial);
  definition.set_warm_start_checkpoint(plan.warm_start_checkpoint);
  definition.set_warm_start_batches(plan.warm_start_batches);
  v1::ExperimentInfo& shown = *definition.mutable_info();
  shown.set_id(definition.id());
  shown.set_name(config.name);
  shown.set_description(config.description.value_or(""));
  for (const std::string& label : config.labels) shown.add_labels(label);
  shown.set_state(std::string(to_string(request.paused() ? RunState::kPaused : RunState::kActive)));
  shown.set_created_ms(now_ms);
  shown.set_user(by.user);
  shown.set_owner(by.token_id);
  shown.set_workspace(config.workspace);
  shown.set_project(config.project);
  shown.set_searcher(config.searcher.name);
  shown.set_metric(config.searcher.metric);
  shown.set_smaller_is_better(config.searcher.smaller_is_better);
  shown.set_parent(request.parent());
  shown.set_files_sha256(plan.files_sha256);
  shown.set_storage(storage_text(config));
  return definition;
}

}  // namespace volador::experiments
