// The algorithms that an Experiment may name: ours with their settings, and registered services. Pure.
#pragma once

#include <string>
#include <vector>

#include "runtime/protocol/volador/v1/katib.pb.h"

namespace volador::experiments::katib {

// Suggestion algorithms first, each kind by name. A registered service takes the place of an algorithm of ours.
v1::ListKatibAlgorithmsReply algorithm_list(const std::vector<std::string>& suggestion_services,
                                            const std::vector<std::string>& early_stopping_services);

}  // namespace volador::experiments::katib
