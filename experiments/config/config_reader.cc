#include "experiments/config/config_reader.h"

#include <fmt/format.h>

#include <utility>

#include "experiments/config/merge.h"
#include "experiments/config/sanity.h"
#include "experiments/config/secrets.h"
#include "runtime/quantities.h"
#include "runtime/yaml/reader.h"
#include "runtime/yaml/writer.h"

namespace volador::experiments {
namespace {

using yaml::Value;

// A file that is no YAML gives an error and an empty layer.
Value layer_of(const ConfigFile& file, Findings& findings) {
  const auto document = yaml::read(file.text, file.name);
  if (!document) {
    findings.error("", document.error().place, document.error().what);
    return Value::map();
  }
  for (const yaml::Problem& problem : document->problems) findings.error("", problem.place, problem.what);
  return sane(document->root, findings);
}

Value shown(const ExperimentConfig& config, Secrets secrets) {
  return secrets == Secrets::kShown ? config.document : without_secrets(config.document);
}

}  // namespace

Error ConfigReading::error() const {
  const auto& errors = findings.errors();
  VOLADOR_CHECK(!errors.empty());
  const size_t others = errors.size() - 1 + findings.errors_left_out();
  return {ErrorCode::kInvalidArgument,
          others == 0 ? errors.front().text()
                      : fmt::format("{}; and {}", errors.front().text(), counted(others, "further error"))};
}

ConfigReading read_config(const ConfigSources& sources) {
  ConfigReading reading;
  Findings& findings = reading.findings;
  Value merged = layer_of(sources.config, findings);
  if (!findings.errors().empty() && findings.errors().front().path.empty() && merged.entries.empty()) return reading;
  if (sources.config_template) merged = merge(merged, layer_of(*sources.config_template, findings));
  Submission submission = sources.submission;
  submission.has_cluster_defaults = sources.cluster_defaults.has_value();
  if (sources.cluster_defaults) merged = merge(merged, layer_of(*sources.cluster_defaults, findings));
  merged = with_submission(std::move(merged), submission);
  check_complete(merged, submission, findings);
  Value defaulted = with_defaults(merged);
  check_rules(defaulted, sources.pool, findings);
  if (findings.errors().empty()) reading.config = config_from(std::move(defaulted));
  return reading;
}

std::string json_of(const ExperimentConfig& config, Secrets secrets) { return yaml::json_text(shown(config, secrets)); }

std::string yaml_of(const ExperimentConfig& config, Secrets secrets) { return yaml::yaml_text(shown(config, secrets)); }

}  // namespace volador::experiments
