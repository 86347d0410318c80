// Conversion of sets of request ids for the state of a search method.
#pragma once

#include <set>

#include "tune/determined/determined_search.h"
#include "tune/space/config.h"

namespace volador::tune::determined {

inline Config names(const std::set<RequestId>& all) {
  Config out = Config::list({});
  for (const RequestId& one : all) out.push_back(one);
  return out;
}

inline std::set<RequestId> names_of(const Config& all) {
  std::set<RequestId> out;
  for (const Config& one : all.items()) out.insert(one.text());
  return out;
}

}  // namespace volador::tune::determined
