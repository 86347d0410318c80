// Experiment configurations: any text gives a configuration or errors. A complete configuration is itself one, and hiding
// its secrets twice is hiding them once.
#include "experiments/config/config_reader.h"

#include <cstdlib>
#include <string>

#include "experiments/config/merge.h"
#include "experiments/config/sanity.h"
#include "experiments/config/secrets.h"
#include "runtime/yaml/reader.h"
#include "tests/fuzz/driver.h"

using namespace volador;
using namespace volador::experiments;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const yaml::Limits limits{.bytes = 1 << 16, .depth = 50, .values = 5'000, .expanded_bytes = 1 << 18};
  if (const auto document = yaml::read(text, "fuzz", limits)) {
    Findings findings;
    const yaml::Value layer = sane(document->root, findings);
    if (!(merge(layer, yaml::Value::map()) == layer)) abort();
    if (findings.errors().empty()) {
      Findings again;
      if (!(sane(layer, again) == layer) || !again.errors().empty()) abort();
    }
  }
  const ConfigReading reading =
      read_config({.config = {"fuzz", text}, .config_template = ConfigFile{"template", text}, .submission = {}});
  if (reading.is_valid() != reading.findings.errors().empty()) abort();
  if (!reading.is_valid()) {
    if (reading.error().message.empty()) abort();
    return 0;
  }
  const std::string json = json_of(*reading.config, Secrets::kShown);
  const ConfigReading again = read_config({.config = {"json", json}});
  if (!again.is_valid() || json_of(*again.config, Secrets::kShown) != json) abort();
  const ConfigReading from_yaml = read_config({.config = {"yaml", yaml_of(*reading.config, Secrets::kShown)}});
  if (!from_yaml.is_valid() || json_of(*from_yaml.config, Secrets::kShown) != json) abort();
  const yaml::Value hidden = without_secrets(reading.config->document);
  if (!(without_secrets(hidden) == hidden)) abort();
  return 0;
}

std::vector<std::string> volador::fuzz::seeds() {
  return {
      "entrypoint: ./a.sh\nsearcher: {name: single, metric: loss}\n",
      "name: a\nentrypoint: a:B\nrecords_per_epoch: 50_000\nhyperparameters:\n  global_batch_size: 64\n  lr: {type: "
      "log, "
      "base: 10, minval: -4, maxval: -1}\n  net: {depth: {type: int, minval: 1, maxval: 3, count: 2}}\nsearcher:\n  "
      "name: adaptive\n  metric: loss\n  max_trials: 4\n  mode: agressive\n  max_length: {epochs: 1}\n",
      "entrypoint: [a, b]\nenvironment:\n  image: {gpu: x}\n  environment_variables: [A=1, B_TOKEN=geheim]\n  "
      "registrt_auth: {password: geheim}\nresources: {shm_size: 1.5G, devices: ['/a:/b:r']}\nsearcher: {name: custom, "
      "metric: m, x: [1, {y: null}]}\n",
      "base: &a {x: [1, 2.5, null, true]}\nhyperparameters: {b: *a, c: {<<: *a, x: 1}}\n",
      "checkpoint_storage: {type: s3, bucket: b, secret_key: geheim}\nlog_policies: [{name: a, pattern: b, action: "
      "exclude_node}]\n"};
}
