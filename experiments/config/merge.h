// Layers of a configuration: the user's file over a template over the defaults of the cluster.
#pragma once

#include "runtime/yaml/value.h"

namespace volador::experiments {

// Merges two canonical layers (sane()). What the upper layer sets counts; maps are merged key by key, and
// - bind_mounts and devices: the upper entries, then the lower ones with other container paths; proxy_ports likewise by
//   the port;
// - environment_variables: the lower ones, then the upper ones, since the last one of a name counts;
// - labels: all of both;
// - log_policies: the upper ones, then the lower ones with other names;
// - searcher and checkpoint_storage: where both layers choose different methods or storages, only the common keys of the
//   lower one count;
// - hyperparameters: one with a type, or a constant, replaces the lower one as a whole; nested ones are merged.
// - azure: connection_string, account_url and credential come from one layer.
yaml::Value merge(const yaml::Value& upper, const yaml::Value& lower);

}  // namespace volador::experiments
