#include "tune/searchers/auto_searcher.h"

#include <algorithm>

#include "tune/searchers/cmaes_searcher.h"
#include "tune/searchers/gp_searcher.h"
#include "tune/searchers/nsga2_searcher.h"
#include "tune/searchers/tpe_searcher.h"
#include "tune/searchers/variant_searcher.h"
#include "tune/space/search_dimensions.h"

namespace volador::tune {
namespace {

constexpr int64_t kGpTrials = 200, kGpMixedTrials = 100;
constexpr int64_t kCmaesTrialsPerParameter = 40;
constexpr int64_t kNsga2Trials = 500;
constexpr int64_t kOpenEnd = 1'000;
constexpr size_t kGpParameters = 40;  // Beyond this a fit is too expensive.

SearcherFactory factory_of(AutoChoice choice) {
  switch (choice) {
    case AutoChoice::kRandom:
      return random_search();
    case AutoChoice::kTpe:
      return tpe();
    case AutoChoice::kGp:
      return gp();
    case AutoChoice::kCmaes:
      return cmaes();
    case AutoChoice::kNsga2:
      return nsga2();
  }
  return tpe();
}

}  // namespace

AutoChoice auto_choice(const SearchContext& context) {
  const SearchDimensions dimensions(context.space, 0);
  const size_t count = dimensions.size();
  if (count == 0) return AutoChoice::kRandom;
  size_t options = 0, conditional = 0;
  for (size_t i = 0; i < count; ++i) {
    options += dimensions[i].kind == SearchDimensions::Kind::kCategorical;
    conditional += dimensions[i].parent.has_value();
  }
  const int64_t trials = context.num_samples < 0 ? kOpenEnd : context.num_samples;
  const bool several = context.goals.objectives.size() > 1;
  if (several && trials > kNsga2Trials) return AutoChoice::kNsga2;
  if (conditional > 0) return AutoChoice::kTpe;
  const int64_t gp_trials = options > 0 || several ? kGpMixedTrials : kGpTrials;
  if (trials <= gp_trials && count <= kGpParameters) return AutoChoice::kGp;
  const bool enough = trials >= kCmaesTrialsPerParameter * static_cast<int64_t>(count);
  if (options == 0 && enough && context.goals.empty()) return AutoChoice::kCmaes;
  return AutoChoice::kTpe;
}

SearcherFactory automatic() {
  return [](const SearchContext& context) -> Result<std::unique_ptr<Searcher>> {
    VOLADOR_TRY(context.space.validate());
    return factory_of(auto_choice(context))(context);
  };
}

}  // namespace volador::tune
