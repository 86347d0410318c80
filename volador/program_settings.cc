#include "volador/program_settings.h"

#include <utility>

#include "runtime/cluster_target.h"
#include "runtime/settings.h"
#include "volador/local_cluster.h"

namespace volador {

Result<ProgramSettings> apply_settings(InitOptions given, const Config& config) {
  ProgramSettings out{.options = std::move(given)};
  InitOptions& options = out.options;
  auto target = with_settings({.address = options.address, .token = options.token}, config);
  if (!target) return make_error(std::move(target).error());
  options.address = std::move(target->address);
  options.token = std::move(target->token);
  out.cluster = std::move(target->cluster);
  if (!options.num_cpus && config.is_set("num_cpus")) options.num_cpus = config.real("num_cpus");
  if (!options.num_gpus && config.is_set("num_gpus")) options.num_gpus = static_cast<int>(config.integer("num_gpus"));
  if (!options.memory_threshold) options.memory_threshold = config.real("memory_threshold");
  if (!options.object_store_memory && config.is_set("object_store_memory"))
    options.object_store_memory = config.bytes("object_store_memory");
  if (!options.object_spill_limit && config.is_set("object_spill_limit"))
    options.object_spill_limit = config.bytes("object_spill_limit");
  return out;
}

Result<Config> load_program_settings(const Paths& paths) {
  ConfigPlaces places{.user = paths.user_config()};
  if (const std::string named = environment("VOLADOR_CONFIG"); !named.empty()) places.named = named;
  return load_config(volador_settings(), places, environment_of_this_process(), {});
}

}  // namespace volador
